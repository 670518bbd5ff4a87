"""DSSM + HNSW: which products are nearest, when few are looked at?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from matchset.matchers.dssm.graph import Graph, read_graph, store_graph
from matchset.matchers.dssm.nearest import find_nearest, join_rows
from matchset.matchers.dssm.space import Space, SpaceMatcher, read_space, store_space
from matchset.matchers.stored import load_matcher, save_matcher
from matchset.matrices import Csr, Floats
from matchset.model.filters import Filter
from matchset.parts import Part, verify

KIND = "dssm+hnsw"
_FEW = 4096  # allowed products that are looked at one by one
_LARGEST_SHARE = 0.25  # of the products to fetch from the graph; beyond it, all are looked at


@dataclass(frozen=True, eq=False, repr=False)
class DSSMWithHNSW(SpaceMatcher):
    """DSSM through a graph of neighbours: faster than `DSSM`, and almost as exact.

    Scores are cosines; of other `dtype`s than "f32", rounded ones. Made by `DSSM.with_hnsw`.
    """

    space: Space
    graph: Graph

    def __post_init__(self) -> None:
        wanted = (len(self.space.placed), self.space.tower.dimensions)
        if (found := (self.graph.n_vectors, self.graph.dimensions)) != wanted:
            raise ValueError(f"a graph must hold vectors of {wanted}; got {found}")

    def with_expansion(self, expansion_search: int) -> DSSMWithHNSW:
        """The same matcher with another `expansion_search`, sharing space and graph.

        More is slower and finds more. The graph holds at least k candidates, so that values below k
        change nothing.
        """
        return replace(self, graph=self.graph.with_expansion(expansion_search))

    def search(self, vectors: Floats, k: int, *, where: Filter | None = None) -> Csr:
        """Labels and cosines of about the k nearest products of each vector, best first.

        Vectors are what `encode` gives; one of zeros gets nothing. The graph knows no filters: with
        one, more are fetched until k are allowed, and where few are allowed all of them are scored.
        """
        labels = self.space.allow(where)
        n_wanted = min(k, len(labels))
        found = [(labels[:0], np.empty(0, dtype=np.float32))] * len(vectors)
        rows = np.flatnonzero(vectors.any(axis=1))
        for n_fetched in self._plan(n_wanted, len(labels)):
            near = self.graph.search(vectors[rows], n_fetched)
            for row, (some, scores) in zip(rows, near, strict=True):
                kept = slice(k) if where is None else np.flatnonzero(where.allowed[some])[:k]
                found[row] = (some[kept], scores[kept])
            rows = rows[[len(found[row][0]) < n_wanted for row in rows]]
        if len(rows):
            exact = find_nearest(self.space.vectors, vectors[rows], k, labels=labels)
            for place, row in enumerate(rows):
                entries = slice(*exact.offsets[place : place + 2])
                found[row] = (exact.columns[entries], exact.values[entries])
        return join_rows(found, len(self.products))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write it to a folder, at once or not at all."""
        parts = store_space(self.space) | {"graph": store_graph(self.graph)}
        save_matcher(path, KIND, parts, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> DSSMWithHNSW:
        """Open a folder that `save` wrote, memory-mapped.

        Every byte is compared with its checksum first, because usearch follows whatever it reads.
        """

        def read(parts: Mapping[str, Part]) -> DSSMWithHNSW:
            return cls(read_space(parts), read_graph(parts["graph"]))

        verify(path)
        return load_matcher(path, KIND, read)

    def _plan(self, n_wanted: int, n_allowed: int) -> Iterator[int]:
        """How many to fetch from the graph, at first and while too few of them are allowed."""
        n_placed = len(self.space.placed)
        if n_allowed == n_placed:
            yield n_wanted
        elif n_allowed > _FEW:
            n_fetched = 2 * n_wanted * n_placed // n_allowed
            while n_fetched <= _LARGEST_SHARE * n_placed:
                yield n_fetched
                n_fetched *= 4
