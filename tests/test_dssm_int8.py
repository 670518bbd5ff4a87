"""DSSM by int8 scan finds what exact search finds, in all dimensions or in fewer."""

from dataclasses import replace

import numpy as np
import pytest
from bookshelf import IDS, QUERIES
from contract import CHECKS, Subject, name_of
from towers import make_dssm

import matchset as ms
from matchset.errors import ModelFileError
from matchset.lab import DSSM
from matchset.lab.dssm.int8 import DSSMWithInt8, find_axes
from matchset.model.inverted_lists import ByteVectors
from matchset.model.products import Products
from matchset.strings import Strings

N_MANY = 3000


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def exact():
    """Many products whose vectors vary in three of eight dimensions; some have no vector."""
    rng = np.random.default_rng(0)
    vectors = unit(rng.normal(size=(N_MANY, 3)) @ rng.normal(size=(3, 8)))
    vectors[::50] = 0
    products = Products(Strings.of([f"p{i}" for i in range(N_MANY)]))
    counts = np.zeros(N_MANY, dtype=np.int64)
    space = replace(make_dssm().space, products=products, vectors=vectors, n_queries_of=counts)
    return DSSM(space)


@pytest.fixture(scope="module")
def queries(exact):
    return exact.space.vectors[1:200:2]


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
@pytest.mark.parametrize("dimensions", [None, 4])
def test_dssm_with_int8_keeps_the_contract(check, dimensions):
    check(Subject(make_dssm().with_int8(dimensions), QUERIES, IDS))


@pytest.mark.parametrize("dimensions", [None, 3])
def test_a_scan_finds_the_nearest_with_their_cosines(exact, queries, dimensions):
    """Three axes hold all that three dimensions say."""
    found = exact.with_int8(dimensions).search(queries, 10)
    wanted = exact.search(queries, 10)
    assert set(np.diff(found.indptr)) == {10}
    assert not np.any(found.indices % 50 == 0)  # those have no vector
    cosines = np.einsum("ij,ij->i", exact.space.vectors[found.indices], queries[found.row_of_entry])
    np.testing.assert_allclose(found.data, cosines, atol=0.02)
    kth = wanted.data.reshape(-1, 10)[:, -1]
    assert (cosines.reshape(-1, 10) > kth[:, None] - 0.02).all()


def test_fewer_dimensions_than_the_vectors_have_lose_something(exact, queries):
    found = exact.with_int8(1).search(queries, 10)
    cosines = np.einsum("ij,ij->i", exact.space.vectors[found.indices], queries[found.row_of_entry])
    assert cosines.min() < 0.9 < exact.search(queries, 10).data.min()


def test_axes_are_the_directions_in_which_vectors_are_longest():
    vectors = np.array([[3, 0, 0], [-3, 0, 0], [0, 0, 2], [0, 1, 0]], dtype=np.float32)
    np.testing.assert_allclose(np.abs(find_axes(vectors, 2)), [[1, 0], [0, 0], [0, 1]], atol=1e-6)


@pytest.mark.parametrize("dimensions", [None, 4])
def test_a_saved_matcher_answers_alike(tmp_path, dimensions):
    matcher = make_dssm().with_int8(dimensions)
    matcher.save(tmp_path / "matcher")
    loaded = ms.load(tmp_path / "matcher")
    assert isinstance(loaded, DSSMWithInt8)
    assert loaded.dimensions == matcher.dimensions
    assert loaded.match(QUERIES) == matcher.match(QUERIES)
    with pytest.raises(ModelFileError, match=r"holds a 'dssm_int8' matcher; expected a 'dssm'"):
        DSSM.load(tmp_path / "matcher")


def test_bad_dimensions_and_vectors_are_refused():
    with pytest.raises(ValueError, match="dimensions must be from 1 to 8; got 9"):
        make_dssm().with_int8(9)
    matcher = make_dssm().with_int8()
    short = ByteVectors(matcher.rounded.values[1:], matcher.rounded.scales[1:])
    with pytest.raises(ValueError, match=r"vectors must be of \(\d+, 16\); got"):
        replace(matcher, rounded=short)
    with pytest.raises(ValueError, match="axes must have 8 rows; got"):
        replace(matcher, axes=np.ones((7, 4), dtype=np.float32))
