"""DSSM + HNSW finds almost what exact search finds, and keeps the contract."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from bookshelf import IDS, QUERIES
from contract import CHECKS, Subject, name_of
from towers import train_small

from matchset.errors import ModelFileError
from matchset.lab import DSSM, DSSMWithHNSW
from matchset.lab.dssm.hnsw import GraphConfig, build_graph, read_graph, store_graph
from matchset.model.products import Products
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


def test_a_wider_search_finds_more_and_shares_the_graph(exact, many, vectors):
    wanted = exact.search(vectors, 10)
    shares = []
    for expansion in (10, 50, 100, 250, 500, 1000):
        wider = many.with_expansion(expansion)
        assert wider.graph.data is many.graph.data
        assert wider.space is many.space
        shares.append(share_found(wider.search(vectors, 10), wanted))
    assert shares == sorted(shares)
    assert shares[0] < shares[-1]
    assert many.graph.index.expansion_search == 100  # the first is as it was


def test_an_expansion_below_k_changes_nothing(many, vectors):
    found = many.with_expansion(10).search(vectors, 100)
    wanted = many.with_expansion(100).search(vectors, 100)
    np.testing.assert_array_equal(found.indices, wanted.indices)


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
    np.testing.assert_array_equal(exact.with_hnsw().graph.data, many.graph.data)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8"])
def test_vectors_can_be_held_in_fewer_bits(exact, many, vectors, dtype):
    smaller = exact.with_hnsw(dtype=dtype)
    assert smaller.graph.data.nbytes < many.graph.data.nbytes
    assert share_found(smaller.search(vectors, 10), exact.search(vectors, 10)) > 0.8


def test_a_saved_matcher_answers_alike(matcher, saved):
    loaded = DSSMWithHNSW.load(saved)
    assert loaded.match([*QUERIES, "zebra"]) == matcher.match([*QUERIES, "zebra"])
    assert loaded.match("vase", where="price > 8") == matcher.match("vase", where="price > 8")
    assert loaded.graph.config == matcher.graph.config
    with pytest.raises(ModelFileError, match=r"holds a 'dssm_hnsw' matcher; expected a 'dssm'"):
        DSSM.load(saved)


@pytest.mark.parametrize("offset", [0, 30, 70, 500, -1])
def test_a_damaged_graph_is_never_followed(saved, tmp_path, offset):
    folder = tmp_path / "copy"
    shutil.copytree(saved, folder)
    file = folder / "graph.data.bin"
    data = bytearray(file.read_bytes())
    data[offset] ^= 0xFF
    file.write_bytes(data)
    with pytest.raises(ModelFileError, match=r"graph\.data"):
        DSSMWithHNSW.load(folder)


N_FORGED, WIDTH = 400, 6
HEAD_AT = 8 + N_FORGED * WIDTH * 4
LEVELS_AT = HEAD_AT + 64 + 40
NODES_AT = LEVELS_AT + 2 * N_FORGED


@pytest.fixture(scope="module")
def forgeable():
    """A graph that a stranger may write, with the checksums that fit."""
    vectors = unit(np.random.default_rng(2).normal(size=(N_FORGED, WIDTH)))
    labels = np.arange(N_FORGED, dtype=np.int32)
    return store_graph(build_graph(vectors, labels, GraphConfig(), threads=1))


def read_forged(forgeable, data):
    section = replace(forgeable, arrays={"data": np.frombuffer(bytes(data), np.uint8)})
    return read_graph(section, np.arange(N_FORGED, dtype=np.int32), WIDTH)


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, b"\xff" * 4, "must have 400 vectors of 6"),
        (8, b"\x00\x00\xc0\x7f", "must be finite"),
        (HEAD_AT, b"x", "same usearch format"),
        (HEAD_AT + 14, b"\x17", "same usearch format and dtype"),
        (HEAD_AT + 17, b"\xff" * 8, "got other counts"),
        (HEAD_AT + 64, b"\xff" * 8, "a node for each vector"),
        (HEAD_AT + 64 + 8, b"\x40", "a node for each vector"),
        (HEAD_AT + 64 + 24, b"\x50", "on its top level"),
        (HEAD_AT + 64 + 32, b"\xff" * 4, "on its top level"),
        (LEVELS_AT, b"\xff\xff", "on its top level"),
        (NODES_AT, b"\xff" * 8, "keys of a graph must be labels"),
        (NODES_AT, b"\x07", "the products that have a vector"),
        (NODES_AT + 8, b"\x01", "the level that the graph gives it"),
        (NODES_AT + 10, b"\x21", "at most 32 neighbors"),
        (NODES_AT + 14, b"\xff" * 4, "neighbors must be below 400"),
    ],
)
def test_h2_a_forged_graph_is_refused_before_usearch_reads_it(forgeable, at, value, message):
    data = bytearray(forgeable.arrays["data"].tobytes())
    data[at : at + len(value)] = value
    with pytest.raises(ValueError, match=message):
        read_forged(forgeable, data)


def test_h2_whatever_is_not_refused_can_be_searched(forgeable):
    rng, whole = np.random.default_rng(3), forgeable.arrays["data"].tobytes()
    vectors = unit(rng.normal(size=(4, WIDTH)))
    n_searched = 0
    for _ in range(300):
        data = bytearray(whole)
        at = int(rng.integers(NODES_AT if rng.random() < 0.8 else 0, len(data)))
        data[at] = int(rng.choice([0, 1, 0x7F, 0xFF, data[at] ^ 1]))
        if rng.random() < 0.1:
            del data[at:]
        try:
            graph = read_forged(forgeable, data)
        except ValueError:
            continue
        n_searched += 1
        assert all(labels.max() < N_FORGED for labels, _ in graph.search(vectors, 20))
    assert 20 < n_searched < 300


def test_a_graph_of_nothing_finds_nothing():
    graph = build_graph(
        np.zeros((3, 4), np.float32), np.empty(0, np.int32), GraphConfig(), threads=1
    )
    assert [len(labels) for labels, _ in graph.search(np.ones((2, 4), np.float32), 3)] == [0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"connectivity": 1}, "connectivity must be an integer from 2 to 1024; got 1"),
        ({"expansion_add": 0}, "expansion_add must be an integer from 1 to 1000000; got 0"),
        ({"expansion_search": 2.5}, "must be an integer from 1 to 1000000; got 2.5"),
        ({"expansion_search": 10**12}, "must be an integer from 1 to 1000000; got 1000000000000"),
        ({"dtype": "f8"}, "dtype must be one of f32, f16, bf16, i8; got 'f8'"),
    ],
)
def test_a_parameter_out_of_range_is_an_error(options, message):
    with pytest.raises(ValueError, match=message):
        GraphConfig(**options)
