"""Inverted lists: is every product in one list, and is it found?"""

import numpy as np
import pytest
from learn_oracles import cluster

from matchset import _native
from matchset.model.inverted_lists import quantize


def make_vectors(n, dimensions=32, seed=0):
    """Unit vectors around some centers."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(20, dimensions))
    vectors = centers[rng.integers(0, 20, n)] + 0.5 * rng.normal(size=(n, dimensions))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float32)


def brute_force(queries, vectors, k):
    """Labels and cosines of rounded vectors, best first, equal ones by label."""
    rounded = quantize(queries)
    dots = rounded.values.astype(np.int64) @ vectors.values.T.astype(np.int64)
    cosines = dots.astype(np.float32) * (rounded.scales[:, None] * vectors.scales)
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(cosines, order, axis=1)


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 1000])
@pytest.mark.parametrize("passes", [0, 3])
def test_every_product_is_in_one_list_of_bounded_size(n, passes):
    lists = cluster(quantize(make_vectors(n)), list_size=16, passes=passes)
    assert np.array_equal(np.sort(lists.labels), np.arange(n))
    sizes = np.diff(lists.list_offsets)
    assert sizes.sum() == n
    assert sizes.max(initial=0) <= 24
    assert sizes.min(initial=1) >= 1
    assert lists.group_offsets[-1] == lists.n_lists == len(lists.clusters)
    assert len(lists.groups) == lists.n_groups


def test_without_passes_lists_are_even():
    lists = cluster(quantize(make_vectors(1000)), list_size=16, passes=0)
    sizes = np.diff(lists.list_offsets)
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("threads", [2, 7])
def test_threads_do_not_change_the_lists(threads):
    vectors = quantize(make_vectors(9000))
    one = cluster(vectors, list_size=16, threads=1)
    many = cluster(vectors, list_size=16, threads=threads)
    assert np.array_equal(one.labels, many.labels)
    assert np.array_equal(one.list_offsets, many.list_offsets)
    assert np.array_equal(one.clusters.values, many.clusters.values)


@pytest.mark.parametrize("dimensions", [16, 32, 64, 256])  # from 64 on other instructions are used
def test_a_search_of_all_lists_equals_brute_force(dimensions):
    vectors = quantize(make_vectors(701, dimensions))
    queries = make_vectors(40, dimensions, seed=1)
    lists = cluster(vectors, list_size=16)
    found = lists.search(queries, 25, n_lists=lists.n_lists, n_groups=lists.n_groups, threads=2)
    labels, cosines = brute_force(queries, vectors, 25)
    assert np.array_equal(found.indices.reshape(40, 25), labels)
    assert np.array_equal(found.data.reshape(40, 25), cosines)


def test_a_search_reads_the_nearest_lists_of_the_nearest_groups():
    vectors, queries = quantize(make_vectors(700)), make_vectors(10, seed=1)
    lists = cluster(vectors, list_size=16)
    found = lists.search(queries, 1000, n_lists=3, n_groups=2)
    groups, _ = brute_force(queries, lists.groups, 2)
    for i, near in enumerate(groups):
        inside = np.concatenate([np.arange(*lists.group_offsets[g : g + 2]) for g in near])
        best, _ = brute_force(queries[i : i + 1], lists.clusters.take(inside), 3)
        members = [lists.labels[slice(*lists.list_offsets[c : c + 2])] for c in inside[best[0]]]
        row = found.indices[found.indptr[i] : found.indptr[i + 1]]
        assert np.array_equal(np.sort(row), np.sort(np.concatenate(members)))


def test_clusters_find_what_lies_together():
    vectors = make_vectors(2000)
    lists = cluster(quantize(vectors), list_size=32)
    found = lists.search(vectors[:200], 10, n_lists=6)
    exact, _ = brute_force(vectors[:200], quantize(vectors), 10)
    rows = found.indices.reshape(200, 10)
    shared = np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(rows, exact, strict=True)])
    assert shared > 0.8


def test_cosines_of_bytes_are_within_their_bound():
    vectors, queries = make_vectors(300), make_vectors(30, seed=2)
    lists = cluster(quantize(vectors))
    found = lists.search(queries, 300, n_lists=100, n_groups=100)
    rows = np.repeat(np.arange(30), np.diff(found.indptr))
    exact = (queries @ vectors.T)[rows, found.indices]
    q, v = quantize(queries), quantize(vectors)
    bound = (
        np.abs(queries).sum(axis=1)[rows] * v.scales[found.indices] / 2
        + np.abs(v.to_floats()).sum(axis=1)[found.indices] * q.scales[rows] / 2
    )
    assert (np.abs(found.data - exact) <= bound + 1e-5).all()


def test_zero_vectors_are_neither_listed_nor_answered():
    vectors = make_vectors(100)
    vectors[::3] = 0
    lists = cluster(quantize(vectors), list_size=8)
    assert np.array_equal(np.sort(lists.labels), np.flatnonzero(vectors.any(axis=1)))
    queries = np.zeros((3, 32), dtype=np.float32)
    queries[1] = vectors[1]
    assert np.array_equal(np.diff(lists.search(queries, 5).indptr), [0, 5, 0])


def test_equal_vectors_still_give_bounded_lists():
    vectors = np.tile(make_vectors(1), (500, 1))
    lists = cluster(quantize(vectors), list_size=16)
    assert np.diff(lists.list_offsets).max() <= 24
    found = lists.search(vectors[:1], 500, n_lists=1000, n_groups=1000)
    assert np.array_equal(found.indices, np.arange(500))


def test_damaged_lists_are_refused():
    lists = cluster(quantize(make_vectors(100)), list_size=8)
    spoiled = lists.list_offsets.copy()
    spoiled[-1] += 1
    with pytest.raises(ValueError, match="offsets of inverted lists must ascend"):
        _native.search_lists(
            (lists.group_offsets, spoiled),
            (lists.groups.arrays, lists.clusters.arrays, lists.vectors.arrays),
            lists.labels,
            np.zeros(32, dtype=np.float32),
            allowed=np.zeros(0, dtype=np.uint8),
            dimensions=32,
            n_groups=1,
            n_lists=1,
            k=1,
            threads=1,
        )
