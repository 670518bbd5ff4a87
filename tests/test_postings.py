"""The inverted index ranks as a dense product would, and trusts no array."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from matchset.matrices import Csr, to_csr
from matchset.model.postings import Postings


def rank_densely(documents, X, k, allowed=None):
    """A few lines of NumPy, with the kernel's order of sums."""
    scores = np.zeros((X.shape[0], documents.shape[0]), dtype=np.float32)
    for feature in range(X.shape[1]):
        scores += np.outer(X[:, feature], documents[:, feature]).astype(np.float32)
    rows = []
    for row in scores:
        order = np.lexsort([np.arange(len(row)), -row])
        kept = [d for d in order if row[d] > 0 and (allowed is None or allowed[d])][:k]
        rows.append([(int(d), row[d]) for d in kept])
    return rows


def rows_of(found):
    return [
        list(zip(found.indices[a:b].tolist(), found.data[a:b], strict=True))
        for a, b in pairwise(found.indptr)
    ]


@given(st.integers(0, 10_000))
def test_ranking_equals_a_dense_product(seed):
    rng = np.random.default_rng(seed)
    n_documents, n_features, n = rng.integers(1, 600), rng.integers(1, 12), rng.integers(0, 70)
    # Few distinct values, so that many scores tie.
    documents = rng.choice([0, 0, 0.5, 1, -1], (n_documents, n_features)).astype(np.float32)
    X = rng.choice([0, 0, 1, 2], (n, n_features)).astype(np.float32)
    k = int(rng.integers(1, n_documents + 3))
    allowed = None if seed % 2 else rng.random(n_documents) < 0.5
    postings = Postings.of(to_csr(sp.csr_array(documents), "documents"))
    found = postings.rank(to_csr(sp.csr_array(X), "X"), k, allowed=allowed, threads=1)
    assert rows_of(found) == rank_densely(documents, X, k, allowed)


def test_threads_change_nothing():
    rng = np.random.default_rng(0)
    postings = Postings.of(to_csr(sp.random_array((2000, 50), density=0.1, rng=rng), "documents"))
    X = to_csr(sp.random_array((300, 50), density=0.1, rng=rng), "X")
    one, four = (postings.rank(X, 10, threads=threads) for threads in (1, 4))
    for a, b in zip(one.arrays, four.arrays, strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_index_without_documents_finds_none():
    empty = Postings(Csr(np.zeros(3, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), 0))
    assert len(empty.rank(to_csr(np.eye(2), "X"), 5).indices) == 0


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([0, 2], [0, 9], [1, 1]), "documents must be below 3; got 9"),
        (([0, 2], [0, -1], [1, 1]), "documents must be below 3; got -1"),
        (([0, 5], [0, 1], [1, 1]), "row offsets must ascend and end inside the matrix"),
        (([0, 2], [0, 1], [1]), "as many columns as values"),
    ],
)
def test_a_damaged_index_is_an_error_and_never_read_out_of_bounds(arrays, message):
    types = (np.int64, np.int32, np.float32)
    lists = Csr(*(np.array(a, dtype=t) for a, t in zip(arrays, types, strict=True)), 3)
    with pytest.raises(ValueError, match=message):
        Postings(lists).rank(to_csr(np.ones((1, 1)), "X"), 2)


def test_what_does_not_fit_is_an_error():
    postings = Postings.of(to_csr(np.eye(3), "documents"))
    with pytest.raises(ValueError, match="X must have 3 columns; got 2"):
        postings.rank(to_csr(np.ones((1, 2)), "X"), 2)
    with pytest.raises(ValueError, match="allowed must have one entry per document, 3; got 2"):
        postings.rank(to_csr(np.ones((1, 3)), "X"), 2, allowed=np.ones(2, dtype=np.bool_))
    with pytest.raises(ValueError, match="k must be at least 1; got 0"):
        postings.rank(to_csr(np.ones((1, 3)), "X"), 0)
    with pytest.raises(ValueError, match=r"an index must have the shape \(3, 4\); got \(3, 3\)"):
        postings.require(3, 4)
