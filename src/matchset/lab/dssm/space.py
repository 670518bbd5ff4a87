"""Space: which vector does a text get, and which products are nearest to it?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from matchset.features.vectorizer import Vectorizer
from matchset.filters.filter import Filter
from matchset.lab.dssm.settings import DSSMConfig
from matchset.matchers.base import Matcher, TrainingRecord
from matchset.matrices import Csr, Floats, Ids, offsets_of
from matchset.model.products import Products
from matchset.strings import Strings

_TEXTS_AT_ONCE = 8192
_SMALLEST = np.float32(1e-12)  # length to divide a vector by
_SCORES_AT_ONCE = 2**24  # of one block of queries against all products
_ROUNDING = 1e-4  # more than two sums of the same cosine can differ by


@dataclass(frozen=True, slots=True, eq=False)
class Tower:
    """The trained network in NumPy, which is faster than PyTorch for one query.

    tanh(mean of the embeddings of a text's n-grams + shift), scaled to unit length. After training,
    batch normalization is a multiplication and an addition of constants: the factors are in the
    embeddings, the rest is `shift`.
    """

    vectorizer: Vectorizer
    embeddings: Floats  # of each n-gram, (n_features, dimensions)
    shift: Floats  # (dimensions,)

    def __post_init__(self) -> None:
        wanted = (self.vectorizer.n_features, *self.shift.shape)
        if self.embeddings.shape != wanted or self.shift.ndim != 1:
            raise ValueError(f"embeddings must be of {wanted}; got {self.embeddings.shape}")
        if self.embeddings.dtype != np.float32 or self.shift.dtype != np.float32:
            found = f"{self.embeddings.dtype} and {self.shift.dtype}"
            raise ValueError(f"embeddings and shift must be float32; got {found}")

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return len(self.shift)

    def encode(self, texts: Strings, *, threads: int | None = 1) -> Floats:
        """Return a unit vector per text, zeros where no n-gram is known, (n_texts, dimensions)."""
        if len(texts) == 1:
            return self._encode_one(texts[0])
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for first in range(0, len(texts), _TEXTS_AT_ONCE):
            some = slice(first, first + _TEXTS_AT_ONCE)
            rows = self.vectorizer.transform(texts[some], threads=threads)
            vectors[some] = pool_rows(rows, self.embeddings, self.shift)
        return vectors

    def _encode_one(self, text: str) -> Floats:
        """Return the fast path: a few microseconds count here."""
        ids, _ = self.vectorizer.encode(text)
        if len(ids) == 0:
            return np.zeros((1, self.dimensions), dtype=np.float32)
        # Added in the order of `pool_rows`: a query has the same vector alone and in a batch.
        total = np.add.reduce(self.embeddings.take(ids, axis=0), axis=0, keepdims=True)
        return _finish(total, np.float32(len(ids)), self.shift)


def pool_rows(rows: csr_array, embeddings: Floats, shift: Floats) -> Floats:
    """Return unit vectors of rows of n-grams, zeros for empty rows, (n_rows, dimensions)."""
    ones = csr_array((np.ones_like(rows.data), rows.indices, rows.indptr), shape=rows.shape)
    sizes = np.diff(rows.indptr).astype(np.float32)[:, np.newaxis]
    vectors = _finish(np.asarray(ones @ embeddings), np.maximum(sizes, 1), shift)
    vectors[sizes[:, 0] == 0] = 0
    return vectors


def _finish(totals: Floats, sizes: Floats | np.float32, shift: Floats) -> Floats:
    vectors = np.divide(totals, sizes, dtype=np.float32)
    vectors += shift
    np.tanh(vectors, out=vectors)
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    vectors /= np.maximum(lengths, _SMALLEST)[:, np.newaxis]
    return vectors


@dataclass(frozen=True, eq=False, repr=False)
class Space:
    """The result of training: the tower, and the vector of every product."""

    products: Products
    tower: Tower
    vectors: Floats  # unit length, zeros for unknown titles, (n_products, dimensions)
    query_hashes: NDArray[np.uint64]  # of the queries trained on, ascending
    n_queries_of: NDArray[np.int64]  # positive queries of each product, (n_products,)
    config: DSSMConfig
    provenance: Mapping[str, Any] = field(default_factory=dict)  # when, from what, how

    def __post_init__(self) -> None:
        wanted = (len(self.products), self.tower.dimensions)
        if self.vectors.shape != wanted or self.vectors.dtype != np.float32:
            found = f"{self.vectors.dtype} of {self.vectors.shape}"
            raise ValueError(f"vectors must be float32 of {wanted}; got {found}")
        if self.n_queries_of.shape != wanted[:1]:
            raise ValueError(f"n_queries_of must be of {wanted[:1]}; got {self.n_queries_of.shape}")

    @cached_property
    def placed(self) -> Ids:
        """Labels of the products that have a vector, ascending."""
        return np.flatnonzero(self.vectors.any(axis=1)).astype(np.int32)

    def allow(self, where: Filter | None) -> Ids:
        """Return labels of the allowed products that have a vector, ascending."""
        return self.placed if where is None else self.placed[where.allowed[self.placed]]


class SpaceMatcher(Matcher):
    """The base of the matchers over a space, which differ in how they find the nearest."""

    space: Space

    @abstractmethod
    def search(self, vectors: Floats, k: int, *, where: Filter | None = None) -> Csr:
        """Return labels and cosines of the k nearest products of each vector, best first.

        Vectors are what `encode` gives; one of zeros gets nothing.
        """

    def encode(self, texts: Iterable[str]) -> Floats:
        """Return a unit vector per text, zeros where no n-gram is known, (n_texts, dimensions)."""
        return self.space.tower.encode(Strings.of(texts, "texts"))

    @property
    def training(self) -> TrainingRecord:
        """What it remembers of its training."""
        space = self.space
        return TrainingRecord(
            space.products, space.query_hashes, space.n_queries_of, space.config, space.provenance
        )

    @property
    def vectorize(self) -> Callable[[str], Floats]:
        """The query's vector."""
        return lambda query: self.encode([query])

    @property
    def vectorizer(self) -> Vectorizer:
        """What turns a query into n-grams, before the network."""
        return self.space.tower.vectorizer

    @property
    def products(self) -> Products:  # type: ignore[override]  # of the space
        """All that it can find."""
        return self.space.products

    @property
    def config(self) -> DSSMConfig:
        """How it was trained."""
        return self.space.config

    @property
    def provenance(self) -> Mapping[str, Any]:
        """When, from what and how it was trained."""
        return self.space.provenance

    def __repr__(self) -> str:
        tower = self.space.tower
        shape = f"{tower.vectorizer.n_features:,} n-grams, {tower.dimensions} dimensions"
        return f"{type(self).__name__}({len(self.products):,} products, {shape})"

    def _search(self, queries: Strings, k: int, where: Filter | None) -> Csr:
        return self.search(self.encode(queries), k, where=where)


def _take_best(
    vectors: Floats, query: Floats, scores: Floats, k: int, *, labels: Ids
) -> tuple[Ids, Floats]:
    if not query.any():
        return labels[:0], scores[:0]
    chosen: NDArray[np.int64]
    if k < len(scores):
        kth = np.partition(scores, len(scores) - k)[len(scores) - k]
        chosen = np.flatnonzero(scores >= kth - _ROUNDING)
    else:
        chosen = np.arange(len(scores))
    exact = np.einsum("ij,j->i", vectors[labels[chosen]], query)
    best = np.lexsort([chosen, -exact])[:k]
    return labels[chosen[best]], exact[best]


def find_nearest(vectors: Floats, queries: Floats, k: int, *, labels: Ids) -> Csr:
    """Return the k largest cosines of each query with the vectors at `labels`, ties by label.

    Vectors have unit length; a query of zeros gets nothing. A block of queries is multiplied with
    all vectors at once; the best are then scored pair by pair, because the sums of a matrix product
    depend on the size of the block, and the answer to a query must not.
    """
    n_products = len(vectors)
    # Multiplying with all and dropping some costs less than copying most of the vectors.
    is_most = 4 * len(labels) > n_products
    chosen = vectors if is_most else vectors[labels]
    found: list[tuple[Ids, Floats]] = []
    step = max(1, _SCORES_AT_ONCE // max(1, len(chosen)))
    for first in range(0, len(queries), step):
        block = queries[first : first + step]
        scores = block @ chosen.T
        if is_most and len(labels) < n_products:
            scores = scores[:, labels]
        for query, each in zip(block, scores, strict=True):
            found.append(_take_best(vectors, query, each, k, labels=labels))
    return join_rows(found, n_products)


def join_rows(found: list[tuple[Ids, Floats]], width: int) -> Csr:
    """Return labels and scores of each query as one matrix."""
    offsets = offsets_of([len(labels) for labels, _ in found])
    nothing = (np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32))
    labels, scores = zip(*(found or [nothing]), strict=True)
    return Csr(offsets, np.concatenate(labels), np.concatenate(scores), width)
