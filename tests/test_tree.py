"""Every label has its place in an even tree."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from matchset import _native
from matchset.learn.embeddings import normalize_rows
from matchset.learn.label_tree import build_tree, plan_offsets, plan_splits
from matchset.matrices import to_csr


def vectors(n, d=30, seed=0):
    rng = np.random.default_rng(seed)
    return normalize_rows(to_csr(sp.random_array((n, d), density=0.2, rng=rng, format="csr"), "Z"))


def build(Z, *, branching=4, max_leaf_size=3, max_iter=20, seed=0, threads=1):
    return build_tree(
        Z,
        branching=branching,
        max_leaf_size=max_leaf_size,
        max_iter=max_iter,
        seed=seed,
        threads=threads,
    )


def test_the_plan_wastes_no_level():
    assert plan_splits(200_000, 32, 100) == (45, 45)
    assert plan_splits(100_000_000, 32, 100) == (32, 32, 32, 31)  # with the labels a depth of 5
    assert plan_splits(1_000_000, 32, 100) == (22, 22, 21)
    assert plan_splits(100, 32, 100) == ()
    assert plan_splits(101, 32, 100) == (2,)


@given(st.integers(1, 10**9), st.integers(2, 100), st.integers(1, 1000))
def test_no_split_is_above_twice_the_branching_and_leaves_suffice(n, branching, max_leaf_size):
    splits = plan_splits(n, branching, max_leaf_size)
    assert all(2 <= split <= 2 * branching for split in splits[:-1])
    assert all(split <= 2 * branching for split in splits)
    assert math.prod(splits) * max_leaf_size >= n
    if splits:
        levels = max(1, round(math.log(n / max_leaf_size) / math.log(branching)))
        assert len(splits) == levels or -(-n // max_leaf_size) > (2 * branching) ** levels


@given(st.integers(1, 500), st.integers(2, 9), st.integers(1, 20))
def test_siblings_differ_by_one_label_at_most(n, branching, max_leaf_size):
    offsets = plan_offsets(n, plan_splits(n, branching, max_leaf_size))
    n_labels = np.ones(n, dtype=int)
    assert offsets[-1][-1] == n
    assert np.diff(offsets[-1]).max() <= max_leaf_size
    for level in offsets[::-1]:
        for begin, end in itertools.pairwise(level):
            assert np.ptp(n_labels[begin:end]) <= 1
        n_labels = np.add.reduceat(n_labels, level[:-1])
    assert n_labels.tolist() == [n]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 80), st.integers(2, 6), st.integers(1, 7), st.integers(0, 9))
def test_every_label_sits_in_exactly_one_leaf(n, branching, max_leaf_size, seed):
    tree = build(vectors(n), branching=branching, max_leaf_size=max_leaf_size, seed=seed)
    assert sorted(tree.labels) == list(range(n))
    assert tree.sizes[-1] == n
    assert len(tree.parents(tree.depth - 1)) == n


@pytest.mark.parametrize("threads", [2, 7])
def test_the_tree_is_the_same_for_any_number_of_threads(threads):
    Z = vectors(9_000)
    one, many = (build(Z, max_leaf_size=20, threads=t) for t in (1, threads))
    assert np.array_equal(one.labels, many.labels)


@pytest.mark.parametrize("threads", [2, 7])
def test_many_equal_vectors_go_to_the_same_sides_for_any_number_of_threads(threads):
    Z = normalize_rows(to_csr(np.eye(3, dtype=np.float32)[np.arange(20_000) % 7 % 3], "Z"))
    one, many = (build(Z, branching=5, max_leaf_size=1000, threads=t) for t in (1, threads))
    assert sorted(one.labels) == list(range(20_000))
    assert np.array_equal(one.labels, many.labels)


def test_the_seed_decides():
    Z = vectors(200)
    assert np.array_equal(build(Z, seed=1).labels, build(Z, seed=1).labels)
    assert not np.array_equal(build(Z, seed=1).labels, build(Z, seed=2).labels)


def test_labels_of_one_kind_share_a_leaf():
    kinds = np.arange(64) % 8
    rng = np.random.default_rng(0)
    Z = np.eye(8)[kinds] + 0.01 * rng.random((64, 8))
    tree = build(normalize_rows(to_csr(Z, "Z")), branching=8, max_leaf_size=8)
    leaves = np.split(kinds[tree.labels], tree.offsets[-1][1:-1])
    pure = sum(len(set(leaf)) == 1 for leaf in leaves)
    assert pure >= 6  # 2-means may end in a local optimum


def test_two_means_ends_with_a_cut_between_its_centres():
    Z = vectors(41)
    rows = Z.to_scipy().toarray()
    tree = build(Z, branching=2, max_leaf_size=21, max_iter=200)
    left, right = (rows[part] for part in np.split(tree.labels, [tree.offsets[-1][1]]))
    centre = [part.sum(axis=0) / np.linalg.norm(part.sum(axis=0)) for part in (left, right)]
    score = rows @ (centre[1] - centre[0])
    assert set(np.argsort(score)[: len(left)]) == set(tree.labels[: len(left)])


@pytest.mark.parametrize("threads", [1, 3])
def test_a_cut_of_many_labels_lies_between_its_centres_too(threads):
    Z = vectors(9_001)
    tree = build(Z, branching=2, max_leaf_size=4501, max_iter=500, threads=threads)
    left, right = np.split(Z.to_scipy().toarray()[tree.labels], [tree.offsets[-1][1]])
    centre = [part.sum(axis=0) / np.linalg.norm(part.sum(axis=0)) for part in (left, right)]
    assert (left @ (centre[1] - centre[0])).max() <= (right @ (centre[1] - centre[0])).min() + 1e-5


def test_vectors_of_zeros_and_equal_vectors_are_placed_too():
    Z = to_csr(np.repeat([[0, 0], [1, 0]], 20, axis=0), "Z")
    assert sorted(build(Z).labels) == list(range(40))


def test_vectors_beyond_reason_do_no_harm():
    values = np.full(40, np.inf, dtype=np.float32)
    arrays = (np.arange(41), np.zeros(40, dtype=np.int32), values)
    splits = np.array([4, 4], dtype=np.int32)
    order = _native.order_labels(arrays, 1, splits, max_iter=5, seed=0, threads=2)
    assert sorted(order) == list(range(40))
    with pytest.raises(ValueError, match="splits must be positive; got 0"):
        _native.order_labels(arrays, 1, splits * 0, max_iter=5, seed=0, threads=1)
