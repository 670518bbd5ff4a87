"""Clusters of dense vectors: into which inverted lists do the products go?"""

from __future__ import annotations

import math

import numpy as np

from matchset import _native
from matchset.learn.label_tree import plan_offsets
from matchset.matrices import Floats, Ids, Offsets
from matchset.model.inverted_lists import ByteVectors, InvertedLists, quantize


def build_inverted_lists(
    vectors: ByteVectors, *, list_size: int = 64, passes: int = 10, seed: int = 0, threads: int = 1
) -> InvertedLists:
    """Put vectors into clusters of at most `list_size` by balanced k-means, and those into groups.

    There are about as many groups as clusters in a group. Sizes of clusters differ by two at most.
    """
    if list_size < 1:
        raise ValueError(f"list_size must be at least 1; got {list_size}")
    placed = np.flatnonzero(vectors.scales).astype(np.int32)
    chosen = vectors.take(placed)
    splits = _plan_two_levels(len(placed), list_size)
    order = _native.order_vectors(
        chosen.arrays,
        np.array(splits, dtype=np.int32),
        dimensions=vectors.dimensions,
        max_passes=passes,
        seed=seed,
        threads=threads,
    )
    ordered = chosen.take(order)
    group_offsets, list_offsets = _find_offsets(len(placed), splits)
    return InvertedLists(
        group_offsets,
        list_offsets,
        _find_centroids(ordered, list_offsets[group_offsets], threads=threads),
        _find_centroids(ordered, list_offsets, threads=threads),
        ordered,
        _take_labels(placed, order),
        len(vectors),
    )


def _plan_two_levels(n: int, list_size: int) -> tuple[int, int]:
    """Groups, and clusters in each."""
    n_lists = max(1, -(-n // list_size))
    n_groups = math.isqrt(n_lists - 1) + 1
    return n_groups, -(-n_lists // n_groups)


def _find_offsets(n: int, splits: tuple[int, int]) -> tuple[Offsets, Offsets]:
    if n == 0:
        return np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    _, group_offsets, list_offsets = plan_offsets(n, splits)
    return group_offsets, list_offsets


def _find_centroids(vectors: ByteVectors, offsets: Offsets, *, threads: int) -> ByteVectors:
    """Mean of each range of vectors, of length one."""
    means: Floats = _native.mean_vectors(
        vectors.arrays, offsets, dimensions=vectors.dimensions, threads=threads
    )
    return quantize(means.reshape(-1, vectors.dimensions))


def _take_labels(placed: Ids, order: Ids) -> Ids:
    return np.ascontiguousarray(placed[order])
