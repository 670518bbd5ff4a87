"""DSSM + HNSW finds almost what exact search finds, and keeps the contract."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from bookshelf import IDS, QUERIES
from contract import CHECKS, Subject, name_of
from towers import train_small

from matchset.errors import ModelFileError
from matchset.lab import DSSM, DSSMWithHNSW
from matchset.lab.dssm.hnsw import build_graph
from matchset.model.products import Products
from matchset.storage.file import read_header
from matchset.strings import Strings

pytestmark = pytest.mark.torch
N_MANY = 6000


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def matcher():
    return train_small().with_hnsw()


@pytest.fixture(scope="module")
def saved(tmp_path_factory, matcher):
    folder = tmp_path_factory.mktemp("hnsw") / "matcher"
    matcher.save(folder)
    return folder


@pytest.fixture(scope="module")
def exact():
    """The small tower in a space of many random products, of which some have no vector."""
    rng = np.random.default_rng(0)
    space = train_small().space
    vectors = unit(rng.normal(size=(N_MANY, 32)))
    vectors[::50] = 0
    products = Products(Strings.of([f"p{i}" for i in range(N_MANY)]))
    counts = np.zeros(N_MANY, dtype=np.int64)
    return DSSM(replace(space, products=products, vectors=vectors, n_queries_of=counts))


@pytest.fixture(scope="module")
def many(exact):
    return exact.with_hnsw()


@pytest.fixture(scope="module")
def vectors():
    return unit(np.random.default_rng(1).normal(size=(200, 32)))


def share_found(found, wanted):
    rows = zip(np.split(found.indices, found.indptr[1:-1]),
               np.split(wanted.indices, wanted.indptr[1:-1]), strict=True)  # fmt: skip
    return np.mean([len(set(a) & set(b)) / len(b) for a, b in rows])


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
@pytest.mark.parametrize("is_loaded", [False, True], ids=["built", "loaded"])
def test_dssm_with_hnsw_keeps_the_contract(check, is_loaded, matcher, saved):
    check(Subject(DSSMWithHNSW.load(saved) if is_loaded else matcher, QUERIES, IDS))


def test_almost_all_of_the_nearest_are_found(exact, many, vectors):
    found, wanted = many.search(vectors, 10), exact.search(vectors, 10)
    assert share_found(found, wanted) > 0.95
    assert set(np.diff(found.indptr)) == {10}
    assert not np.any(found.indices % 50 == 0)  # those have no vector


def test_scores_are_cosines(exact, many, vectors):
    found = many.search(vectors, 5)
    cosines = np.einsum("ij,ij->i", exact.space.vectors[found.indices], vectors[found.row_of_entry])
    np.testing.assert_allclose(found.data, cosines, atol=1e-6)


@pytest.mark.parametrize("share", [0.001, 0.3, 0.8, 0.99])
@pytest.mark.parametrize("k", [1, 10, 500])
def test_a_filter_is_filled_from_allowed_products(exact, many, vectors, share, k):
    allowed = np.random.default_rng(2).random(N_MANY) < share
    where = many.filter(allowed)
    found, wanted = many.search(vectors, k, where=where), exact.search(vectors, k, where=where)
    np.testing.assert_array_equal(found.indptr, wanted.indptr)
    assert allowed[found.indices].all()
    assert share_found(found, wanted) > 0.9


def test_a_k_beyond_the_products_gives_all_of_them(exact, many, vectors):
    found, wanted = many.search(vectors[:3], N_MANY), exact.search(vectors[:3], N_MANY)
    np.testing.assert_array_equal(found.indptr, wanted.indptr)


def test_many_threads_get_the_answers_that_they_would_get_alone(many, vectors):
    def ask(row):
        found = many.search(vectors[row : row + 1], 20)
        return found.indices.tolist(), found.data.tolist()

    rows = [*range(200)] * 10
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(ask, rows))
    assert together == [ask(row) for row in rows]


def test_one_thread_builds_the_same_graph_again(exact, many):
    assert exact.with_hnsw().graph.index.save() == many.graph.index.save()


def test_a_saved_matcher_answers_alike(matcher, saved):
    loaded = DSSMWithHNSW.load(saved)
    assert loaded.match([*QUERIES, "zebra"]) == matcher.match([*QUERIES, "zebra"])
    assert loaded.match("vase", where="price > 8") == matcher.match("vase", where="price > 8")
    with pytest.raises(ModelFileError, match=r"holds a 'dssm_hnsw' matcher; expected a 'dssm'"):
        DSSM.load(saved)


def test_a_graph_of_nothing_finds_nothing():
    graph = build_graph(np.zeros((3, 4), np.float32), threads=1)
    assert [len(labels) for labels, _ in graph.search(np.ones((2, 4), np.float32), 3)] == [0, 0]


def test_nothing_of_a_graph_is_in_a_file(saved):
    assert not [name for name in read_header(saved).entries if "graph" in name]
