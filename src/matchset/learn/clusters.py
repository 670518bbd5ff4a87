"""Clusters of dense vectors: into which inverted lists do the products go?"""

from __future__ import annotations

import math

import numpy as np

from matchset import _native
from matchset.learn.label_tree import plan_offsets
from matchset.matrices import Floats, Ids, Offsets, rows_of
from matchset.model.inverted_lists import ByteVectors, InvertedLists, assign_clusters, quantize

_CUT_PASSES = 10  # of 2-means per cut at most
_LARGEST = 1.5  # lists of more than this many times their size are cut


_LIST_SIZE = 64


def build_inverted_lists(
    vectors: ByteVectors,
    *,
    list_size: int = _LIST_SIZE,
    passes: int = 3,
    seed: int = 0,
    threads: int = 1,
) -> InvertedLists:
    """Put vectors into clusters of about `list_size`, and those into groups of similar ones.

    Balanced two-way cuts give the first clusters; `passes` of k-means then move every vector to the
    nearest one (on Home Depot ten lists then had a Recall@100 of 62 instead of 53 %). Lists that
    have grown to more than one and a half times their size are cut again, so that a search reads
    a bounded number of products.
    """
    if list_size < 1:
        raise ValueError(f"list_size must be at least 1; got {list_size}")
    placed = np.flatnonzero(vectors.scales).astype(np.int32)
    chosen = vectors.take(placed)
    builder = _Builder(seed, threads)
    order, offsets = builder.cut(chosen, -(-len(placed) // list_size))
    for _ in range(passes if len(offsets) > 2 else 0):
        lists = builder.group(chosen.take(order), offsets, order, len(placed))
        order, offsets = builder.reassign(chosen, lists)
    order, offsets = builder.cut_large(chosen, order, offsets, list_size)
    return builder.group(chosen.take(order), offsets, placed[order], len(vectors))


def update_inverted_lists(
    lists: InvertedLists, label_of: Ids, more: ByteVectors, *, seed: int = 0, threads: int = 1
) -> InvertedLists:
    """The lists with other labels, -1 for what goes, and with more vectors in the nearest lists.

    Those get the last labels. Lists that have grown to more than one and a half times their size
    are cut, as when they were built.
    """
    n_labels = int(label_of.max(initial=-1)) + 1
    labels, cluster = label_of[lists.labels], rows_of(lists.list_offsets)
    kept, placed = np.flatnonzero(labels >= 0), np.flatnonzero(more.scales)
    nearest = np.zeros(len(placed), dtype=np.int32)
    if lists.n_lists:
        nearest = assign_clusters(more.take(placed), lists, threads=threads)
    vectors = lists.vectors.take(kept).join(more.take(placed))
    labels = np.concatenate([labels[kept], n_labels + placed]).astype(np.int32)
    cluster = np.concatenate([cluster[kept], nearest])
    builder, sizes = _Builder(seed, threads), np.bincount(cluster)
    order = np.argsort(cluster, kind="stable").astype(np.int32)
    order, offsets = builder.cut_large(vectors, order, _cumulate(sizes[sizes > 0]), _LIST_SIZE)
    return builder.group(vectors.take(order), offsets, labels[order], n_labels + len(more))


class _Builder:
    """The steps of building, which share seed and threads."""

    def __init__(self, seed: int, threads: int) -> None:
        self.seed = seed
        self.threads = threads

    def cut(self, vectors: ByteVectors, n_parts: int) -> tuple[Ids, Offsets]:
        """An order of the vectors, and where each of the even parts starts in it."""
        if len(vectors) == 0:
            return np.empty(0, dtype=np.int32), np.zeros(1, dtype=np.int64)
        n_parts = min(max(1, n_parts), len(vectors))
        order = _native.order_vectors(
            vectors.arrays,
            np.array([n_parts], dtype=np.int32),
            dimensions=vectors.dimensions,
            max_passes=_CUT_PASSES,
            seed=self.seed,
            threads=self.threads,
        )
        return order, plan_offsets(len(vectors), (n_parts,))[-1]

    def group(
        self, ordered: ByteVectors, offsets: Offsets, labels: Ids, n_labels: int
    ) -> InvertedLists:
        """Lists given by their offsets, put into about as many groups as a group has lists."""
        centroids = self.find_centroids(ordered, offsets)
        n_lists = len(centroids)
        order, group_offsets = self.cut(centroids, math.isqrt(max(0, n_lists - 1)) + 1)
        sizes = np.diff(offsets)[order]
        moved = _join_ranges(offsets[order], sizes)
        clusters = centroids.take(order)
        return InvertedLists(
            group_offsets,
            _cumulate(sizes),
            self.find_centroids(clusters, group_offsets),
            clusters,
            ordered.take(moved),
            np.ascontiguousarray(labels[moved]),
            n_labels,
        )

    def find_centroids(self, vectors: ByteVectors, offsets: Offsets) -> ByteVectors:
        """Mean of each range of vectors, of length one."""
        means: Floats = _native.mean_vectors(
            vectors.arrays, offsets, dimensions=vectors.dimensions, threads=self.threads
        )
        return quantize(means.reshape(-1, vectors.dimensions))

    def reassign(self, vectors: ByteVectors, lists: InvertedLists) -> tuple[Ids, Offsets]:
        """Every vector to its nearest cluster; clusters without one disappear."""
        nearest = assign_clusters(vectors, lists, threads=self.threads)
        sizes = np.bincount(nearest)
        return np.argsort(nearest, kind="stable").astype(np.int32), _cumulate(sizes[sizes > 0])

    def cut_large(
        self, vectors: ByteVectors, order: Ids, offsets: Offsets, list_size: int
    ) -> tuple[Ids, Offsets]:
        """The same lists, with those that are too large cut into even parts."""
        order = order.copy()
        ends = [offsets[1:]]
        sizes = np.diff(offsets)
        for i in np.flatnonzero(sizes > _LARGEST * list_size):
            rows = order[offsets[i] : offsets[i + 1]]
            inside, parts = self.cut(vectors.take(rows), -(-len(rows) // list_size))
            order[offsets[i] : offsets[i + 1]] = rows[inside]
            ends.append(offsets[i] + parts[1:-1])
        return order, np.concatenate([offsets[:1], np.sort(np.concatenate(ends))])


def _cumulate(sizes: Offsets) -> Offsets:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _join_ranges(begins: Offsets, sizes: Offsets) -> Offsets:
    """The numbers of all ranges, one range after another."""
    starts = _cumulate(sizes)
    return np.arange(starts[-1]) + np.repeat(begins - starts[:-1], sizes)
