"""DSSM + HNSW: which products are near a query, found through a graph of neighbors?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from matchset.config import count_threads
from matchset.filters.filter import Filter
from matchset.lab.dssm.graph_check import check_graph
from matchset.lab.dssm.settings import import_extra
from matchset.lab.dssm.space import (
    Space,
    SpaceMatcher,
    find_nearest,
    join_rows,
    read_space,
    store_space,
)
from matchset.matchers.saved import OpenPart, Sections
from matchset.matrices import Csr, Floats, Ids
from matchset.storage.handles import FolderHandle
from matchset.storage.sections import Section, verify

DTYPES = ("f32", "f16", "bf16", "i8")
_RANGES = (
    ("connectivity", 2, 1024),
    ("expansion_add", 1, 1_000_000),
    ("expansion_search", 1, 1_000_000),
)
_FEW = 4096  # up to this many allowed products are scored one by one
_LARGEST_SHARE = 0.25  # of the products to fetch from the graph; beyond it, all are scored


@dataclass(frozen=True, slots=True)
class GraphConfig:
    """How an HNSW graph is built and searched; the defaults are the paper's."""

    connectivity: int = 16  # neighbors of a vector per level, twice as many on the lowest
    expansion_add: int = 300  # candidates while a vector is added
    expansion_search: int = 100  # candidates during search; below k it has no effect
    dtype: str = "f32"  # of the vectors in the graph

    def __post_init__(self) -> None:
        for name, least, most in _RANGES:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ValueError(f"{name} must be an integer from {least} to {most}; got {value!r}")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}; got {self.dtype!r}")


DEFAULT_GRAPH = GraphConfig()


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph over unit vectors, as usearch wrote it: `index` only reads `data`."""

    config: GraphConfig
    n_vectors: int
    dimensions: int
    data: NDArray[np.uint8]  # usearch's own format, perhaps memory-mapped
    index: Any  # usearch's view of `data`

    @classmethod
    def of(
        cls, config: GraphConfig, data: NDArray[np.uint8], *, n_vectors: int, dimensions: int
    ) -> Graph:
        """Open a graph in memory or on disk, without a copy; its bytes must be checked."""
        index = _make_index(config, dimensions)
        if n_vectors:
            index.view(data.data)
        if len(index) != n_vectors:
            raise ValueError(f"a graph must hold {n_vectors} vectors; got {len(index)}")
        return cls(config, n_vectors, dimensions, data, index)

    def with_expansion(self, expansion_search: int) -> Graph:
        """The same graph, searched with more or fewer candidates."""
        config = replace(self.config, expansion_search=expansion_search)
        shape = {"n_vectors": self.n_vectors, "dimensions": self.dimensions}
        return Graph.of(config, self.data, **shape)

    def search(self, vectors: Floats, k: int) -> list[tuple[Ids, Floats]]:
        """Labels and cosines of about the k nearest of each vector, ties by label."""
        if self.n_vectors == 0 or len(vectors) == 0:
            return [(np.empty(0, np.int32), np.empty(0, np.float32))] * len(vectors)
        n_threads = 1 if len(vectors) == 1 else count_threads(None)
        found = self.index.search(vectors, min(k, self.n_vectors), threads=n_threads)
        if len(vectors) == 1:
            return [_order(found.keys, found.distances)]
        rows = zip(found.keys, found.distances, found.counts, strict=True)
        return [_order(keys[:n], distances[:n]) for keys, distances, n in rows]


def search_graph(
    graph: Graph, vectors: Floats, queries: Floats, k: int, *, labels: Ids, where: Filter | None
) -> Csr:
    """Labels and cosines of about the k allowed products nearest to each query, best first.

    The graph holds the vectors at `labels`, and knows no filters: with one, more products are
    fetched until k are allowed, or, where few are allowed, all of those are scored.
    """
    allowed = labels if where is None else labels[where.allowed[labels]]
    n_wanted = min(k, len(allowed))
    found = [(allowed[:0], np.empty(0, dtype=np.float32))] * len(queries)
    rows = np.flatnonzero(queries.any(axis=1))
    for n_fetched in _plan(n_wanted, len(allowed), len(labels)):
        near = graph.search(queries[rows], n_fetched)
        for row, (some, scores) in zip(rows, near, strict=True):
            chosen = slice(k) if where is None else np.flatnonzero(where.allowed[some])[:k]
            found[row] = (some[chosen], scores[chosen])
        rows = rows[[len(found[row][0]) < n_wanted for row in rows]]
    if len(rows):
        exact = find_nearest(vectors, queries[rows], k, labels=allowed)
        for number, row in enumerate(rows):
            entries = slice(*exact.indptr[number : number + 2])
            found[row] = (exact.indices[entries], exact.data[entries])
    return join_rows(found, len(vectors))


def _plan(n_wanted: int, n_allowed: int, n_placed: int) -> Iterator[int]:
    """How many to fetch from the graph, first and again while too few are allowed."""
    if n_allowed == n_placed:
        yield n_wanted
    elif n_allowed > _FEW:
        n_fetched = 2 * n_wanted * n_placed // n_allowed
        while n_fetched <= _LARGEST_SHARE * n_placed:
            yield n_fetched
            n_fetched *= 4


def build_graph(vectors: Floats, labels: Ids, config: GraphConfig, *, threads: int) -> Graph:
    """Put the vectors at `labels` into a graph."""
    index = _make_index(config, vectors.shape[1])
    if len(labels):
        chosen = vectors if len(labels) == len(vectors) else vectors[labels]
        index.add(labels.astype(np.uint64), chosen, threads=count_threads(threads))
    data = np.frombuffer(index.save(), dtype=np.uint8)
    return Graph.of(config, data, n_vectors=len(labels), dimensions=vectors.shape[1])


def store_graph(graph: Graph) -> Section:
    """A graph as a section."""
    header = {"n_vectors": graph.n_vectors, "dimensions": graph.dimensions}
    return Section({**header, "config": asdict(graph.config)}, {"data": graph.data})


def read_graph(section: Section, labels: Ids, dimensions: int) -> Graph:
    """A graph of the vectors at `labels` from its section, checked before usearch sees it."""
    config, data = GraphConfig(**section.header["config"]), section.arrays["data"]
    shape = {"n_vectors": len(labels), "dimensions": dimensions}
    found = {name: section.header[name] for name in shape}
    if found != shape:
        raise ValueError(f"a graph must have {shape}; got {found}")
    if data.dtype != np.uint8 or data.ndim != 1:
        raise ValueError(f"a graph must be bytes; got {data.dtype} of {data.shape}")
    if len(labels):
        empty = bytes(_make_index(config, dimensions).save())
        keys = check_graph(data, empty, dtype=config.dtype, **shape)
        if not np.array_equal(np.sort(keys), np.sort(labels)):
            raise ValueError("a graph must hold the products that have a vector; got others")
    return Graph.of(config, data, **shape)


def _make_index(config: GraphConfig, dimensions: int) -> Any:
    usearch = import_extra("usearch.index")
    return usearch.Index(
        ndim=dimensions,
        metric="ip",  # of unit vectors it is the cosine
        dtype=config.dtype,
        connectivity=config.connectivity,
        expansion_add=config.expansion_add,
        expansion_search=config.expansion_search,
    )


def _order(keys: NDArray[np.uint64], distances: Floats) -> tuple[Ids, Floats]:
    labels, scores = keys.astype(np.int32), 1 - distances
    order = np.lexsort([labels, distances])
    return labels[order], scores[order]


@dataclass(frozen=True, eq=False, repr=False)
class DSSMWithHNSW(SpaceMatcher):
    """DSSM through a graph of neighbors: faster than `DSSM`, and almost as exact.

    Scores are cosines, rounded for other `dtype`s than "f32". Made by `DSSM.with_hnsw`.
    """

    kind: ClassVar[str] = "dssm_hnsw"
    space: Space
    graph: Graph

    def __post_init__(self) -> None:
        wanted = (len(self.space.placed), self.space.tower.dimensions)
        if (found := (self.graph.n_vectors, self.graph.dimensions)) != wanted:
            raise ValueError(f"a graph must hold vectors of {wanted}; got {found}")

    def with_expansion(self, expansion_search: int) -> DSSMWithHNSW:
        """The same matcher with another `expansion_search`, sharing space and graph.

        A larger one is slower and finds more; below k it has no effect.
        """
        return replace(self, graph=self.graph.with_expansion(expansion_search))

    def search(self, vectors: Floats, k: int, *, where: Filter | None = None) -> Csr:
        """Labels and cosines of about the k nearest products of each vector, best first.

        Vectors are what `encode` gives; one of zeros gets nothing. See `search_graph` for filters.
        """
        space = self.space
        return search_graph(self.graph, space.vectors, vectors, k, labels=space.placed, where=where)

    @classmethod
    def _load(cls, folder: FolderHandle) -> Self:
        verify(folder)  # damage that leads nowhere else would still change what is found
        return super()._load(folder)

    def _sections(self) -> Sections:
        return store_space(self.space) | {"graph": store_graph(self.graph)}

    @classmethod
    def _read(cls, sections: Sections, _: OpenPart) -> Self:
        space = read_space(sections)
        dimensions = space.tower.dimensions
        return cls(space, read_graph(sections["graph"], space.placed, dimensions))
