"""Clusters of dense vectors: into which inverted lists do the products go?"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from matchset import _native
from matchset.learn.label_tree import plan_offsets
from matchset.matrices import Floats, Ids, Offsets, offsets_of, rows_of, take_entries
from matchset.model.inverted_lists import (
    ByteVectors,
    InvertedLists,
    assign_clusters,
    move_to_nearest,
    quantize,
)
from matchset.work.cuts import plan_parts
from matchset.work.steps import Steps

_CUT_PASSES = 10  # of 2-means per cut at most
_LARGEST = 1.5  # lists of more than this many times their size are cut
LIST_SIZE = 64
PASSES = 3  # of k-means
# From so many lists on, only the first pass looks for the nearest list in the nearest groups, which
# takes a time that grows with the number of products to the power of 1.5. The others compare a
# product with lists near its own. On a shop of 200,000 products, ten lists then had 98.3 % of the
# hundred nearest products, instead of 98.0 %; with such a first pass, 96.9 %.
MANY_LISTS = 16_384


def cluster_vectors(
    step: Steps,
    vectors: ByteVectors,
    *,
    list_size: int = LIST_SIZE,
    passes: int = PASSES,
    seed: int = 0,
) -> InvertedLists:
    """Put vectors into clusters of about `list_size`, and those into groups of similar ones.

    Balanced two-way cuts give the first clusters; `passes` of k-means then move every vector to the
    nearest one (on Home Depot ten lists then had a Recall@100 of 62 instead of 53 %). Lists that
    have grown to more than one and a half times their size are cut again, so that a search reads
    a bounded number of products.
    """
    rule = {"seed": seed, "threads": step.threads}
    lists = step("encode.lists", cut_lists, vectors, list_size=list_size, **rule)
    for number in range(passes):
        task = partial(_find_nearest, lists, number)
        ranges = plan_parts(lists.n_lists, step.cuts.lists)
        nearest = np.concatenate(step.map(f"encode.nearest{number}", task, ranges, is_wide=True))
        size = list_size if number == passes - 1 else None
        lists = step(f"encode.lists{number}", regroup, lists, nearest, list_size=size, **rule)
    return lists


def cut_lists(vectors: ByteVectors, *, list_size: int, seed: int, threads: int) -> InvertedLists:
    """Cut vectors into even lists, and put those into groups of similar ones."""
    if list_size < 1:
        raise ValueError(f"list_size must be at least 1; got {list_size}")
    placed = np.flatnonzero(vectors.scales).astype(np.int32)
    chosen = vectors.take(placed)
    builder = _Builder(seed, threads)
    order, offsets = builder.cut(chosen, -(-len(placed) // list_size))
    return builder.group(chosen.take(order), offsets, placed[order], len(vectors))


def _find_nearest(lists: InvertedLists, number: int, chosen: range, *, threads: int) -> Ids:
    """Return the nearest list of each product in a range of lists, in pass `number`."""
    is_near = number > 0 and lists.n_lists > MANY_LISTS
    return move_to_nearest(lists, chosen, is_near=is_near, threads=threads)


def regroup(
    lists: InvertedLists,
    nearest: Ids,
    *,
    list_size: int | None,
    seed: int,
    threads: int,
) -> InvertedLists:
    """Return the lists to which products have moved, without those that are empty.

    Too large ones are cut to `list_size`, if it is given.
    """
    builder, by_label = _Builder(seed, threads), np.argsort(lists.labels)
    order = by_label[np.argsort(nearest[by_label], kind="stable")].astype(np.int32)
    sizes = np.bincount(nearest)
    offsets = offsets_of(sizes[sizes > 0])
    if list_size is not None:
        order, offsets = builder.cut_large(lists.vectors, order, offsets, list_size)
    return builder.group(lists.vectors.take(order), offsets, lists.labels[order], lists.n_labels)


def update_inverted_lists(
    lists: InvertedLists, label_of: Ids, more: ByteVectors, *, seed: int = 0, threads: int = 1
) -> InvertedLists:
    """Give lists other labels, -1 for what goes, and put more vectors into the nearest ones.

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
    order, offsets = builder.cut_large(vectors, order, offsets_of(sizes[sizes > 0]), LIST_SIZE)
    return builder.group(vectors.take(order), offsets, labels[order], n_labels + len(more))


class _Builder:
    """The steps of building, which share seed and threads."""

    def __init__(self, seed: int, threads: int) -> None:
        self.seed = seed
        self.threads = threads

    def cut(self, vectors: ByteVectors, n_parts: int) -> tuple[Ids, Offsets]:
        """Return an order of the vectors, and where each of the even parts starts in it."""
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
        moved, list_offsets = take_entries(offsets, order)
        clusters = centroids.take(order)
        return InvertedLists(
            group_offsets,
            list_offsets,
            self.find_centroids(clusters, group_offsets),
            clusters,
            ordered.take(moved),
            np.ascontiguousarray(labels[moved]),
            n_labels,
        )

    def find_centroids(self, vectors: ByteVectors, offsets: Offsets) -> ByteVectors:
        """Return the mean of each range of vectors, of length one."""
        means: Floats = _native.mean_vectors(
            vectors.arrays, offsets, dimensions=vectors.dimensions, threads=self.threads
        )
        return quantize(means.reshape(-1, vectors.dimensions))

    def cut_large(
        self, vectors: ByteVectors, order: Ids, offsets: Offsets, list_size: int
    ) -> tuple[Ids, Offsets]:
        """Cut lists that are too large into even parts."""
        order = order.copy()
        ends = [offsets[1:]]
        sizes = np.diff(offsets)
        for i in np.flatnonzero(sizes > _LARGEST * list_size):
            rows = order[offsets[i] : offsets[i + 1]]
            inside, parts = self.cut(vectors.take(rows), -(-len(rows) // list_size))
            order[offsets[i] : offsets[i + 1]] = rows[inside]
            ends.append(offsets[i] + parts[1:-1])
        return order, np.concatenate([offsets[:1], np.sort(np.concatenate(ends))])
