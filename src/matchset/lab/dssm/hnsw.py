"""DSSM + HNSW: which products are near a query, found through a graph of neighbors?

A graph is never kept: usearch follows the bytes of a saved one unchecked, and the same vectors give
the same graph again. It is built when it is first searched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from matchset.config import count_threads
from matchset.filters.filter import Filter
from matchset.lab.dssm.settings import import_extra
from matchset.lab.dssm.space import (
    Space,
    SpaceMatcher,
    find_nearest,
    join_rows,
)
from matchset.matrices import Csr, Floats, Ids

# The paper's. Its M0 = 32 is the degree of the lowest level, twice usearch's connectivity.
CONNECTIVITY, EXPANSION_ADD, EXPANSION_SEARCH = 16, 300, 100
_FEW = 4096  # up to this many allowed products are scored one by one
_LARGEST_SHARE = 0.25  # of the products to fetch from the graph; beyond it, all are scored


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph over unit vectors, in memory."""

    vectors: Floats  # zeros where a product has none, (n_products, dimensions)
    labels: Ids  # of the products that have a vector, ascending
    index: Any  # usearch's

    def search(self, queries: Floats, k: int) -> list[tuple[Ids, Floats]]:
        """Return labels and cosines of about the k nearest of each query, ties by label."""
        if len(self.labels) == 0 or len(queries) == 0:
            return [(np.empty(0, np.int32), np.empty(0, np.float32))] * len(queries)
        n_threads = 1 if len(queries) == 1 else count_threads(None)
        near = self.index.search(queries, min(k, len(self.labels)), threads=n_threads)
        if len(queries) == 1:
            return [_order(near.keys, near.distances)]
        rows = zip(near.keys, near.distances, near.counts, strict=True)
        return [_order(keys[:n], distances[:n]) for keys, distances, n in rows]

    def search_allowed(self, queries: Floats, k: int, where: Filter | None) -> Csr:
        """Return labels and cosines of about the k allowed products nearest to each query.

        The graph knows no filters: with one, more products are fetched until k are allowed, or,
        where few are allowed, all of those are scored.
        """
        allowed = self.labels if where is None else self.labels[where.allowed[self.labels]]
        n_wanted = min(k, len(allowed))
        answers = [(allowed[:0], np.empty(0, dtype=np.float32))] * len(queries)
        rows = np.flatnonzero(queries.any(axis=1))
        for n_fetched in _plan(n_wanted, len(allowed), len(self.labels)):
            near = self.search(queries[rows], n_fetched)
            for row, (some, scores) in zip(rows, near, strict=True):
                chosen = slice(k) if where is None else np.flatnonzero(where.allowed[some])[:k]
                answers[row] = (some[chosen], scores[chosen])
            rows = rows[[len(answers[row][0]) < n_wanted for row in rows]]
        if len(rows):
            exact = find_nearest(self.vectors, queries[rows], k, labels=allowed)
            for number, row in enumerate(rows):
                entries = slice(*exact.indptr[number : number + 2])
                answers[row] = (exact.indices[entries], exact.data[entries])
        return join_rows(answers, len(self.vectors))


def build_graph(vectors: Floats, *, threads: int | None) -> Graph:
    """Put all vectors that are not zero into a graph."""
    usearch = import_extra("usearch.index")
    index = usearch.Index(
        ndim=vectors.shape[1],
        metric="ip",  # of unit vectors it is the cosine
        dtype="f32",
        connectivity=CONNECTIVITY,
        expansion_add=EXPANSION_ADD,
        expansion_search=EXPANSION_SEARCH,
    )
    labels = np.flatnonzero(vectors.any(axis=1)).astype(np.int32)
    if len(labels):
        placed = vectors if len(labels) == len(vectors) else vectors[labels]
        index.add(labels.astype(np.uint64), placed, threads=count_threads(threads))
    return Graph(vectors, labels, index)


def _plan(n_wanted: int, n_allowed: int, n_placed: int) -> Iterator[int]:
    """Yield how many to fetch from the graph, first and again while too few are allowed."""
    if n_allowed == n_placed:
        yield n_wanted
    elif n_allowed > _FEW:
        n_fetched = 2 * n_wanted * n_placed // n_allowed
        while n_fetched <= _LARGEST_SHARE * n_placed:
            yield n_fetched
            n_fetched *= 4


def _order(keys: NDArray[np.uint64], distances: Floats) -> tuple[Ids, Floats]:
    labels, scores = keys.astype(np.int32), 1 - distances
    order = np.lexsort([labels, distances])
    return labels[order], scores[order]


@dataclass(frozen=True, eq=False, repr=False)
class DSSMWithHNSW(SpaceMatcher):
    """DSSM through a graph of neighbors: faster than `DSSM`, and almost as exact.

    Scores are cosines. Made by `DSSM.with_hnsw`.
    """

    kind: ClassVar[str] = "dssm_hnsw"
    space: Space
    threads: int | None = 1  # that build the graph; with more it is another one each time

    @cached_property
    def graph(self) -> Graph:
        """The graph of the paper, built when it is first searched."""
        return build_graph(self.space.vectors, threads=self.threads)

    def search(self, vectors: Floats, k: int, *, where: Filter | None = None) -> Csr:
        """Return labels and cosines of about the k nearest products of each vector, best first.

        Vectors are what `encode` gives; one of zeros gets nothing.
        """
        return self.graph.search_allowed(vectors, k, where)
