"""Space: where do queries and products lie, and who asked for what in training?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from matchset.matchers.dssm.config import DssmConfig, read_dssm_config
from matchset.matchers.dssm.tower import Tower, read_tower, store_tower
from matchset.matchers.match import Match, Matches
from matchset.matchers.protocol import DEFAULT_K, answer
from matchset.matrices import Csr, Floats, Ids
from matchset.model.files import read_products, store_products
from matchset.model.filters import Filter, Where, make_filter
from matchset.model.products import Products
from matchset.parts import Part
from matchset.strings import Strings
from matchset.text import normalize_strings


@dataclass(frozen=True, eq=False, repr=False)
class Space:
    """What training gives: the tower, and where it puts every product."""

    products: Products
    tower: Tower
    vectors: Floats  # unit length, or zeros where the title says nothing, (n_products, dimensions)
    query_hashes: NDArray[np.uint64]  # of the queries trained on, ascending
    n_queries_of: NDArray[np.int64]  # positive queries of each product, (n_products,)
    config: DssmConfig
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
        """Labels of the allowed products that have a vector, ascending."""
        return self.placed if where is None else self.placed[where.allowed[self.placed]]


class SpaceMatcher(ABC):
    """What the matchers over a space have in common: all but how the nearest are found."""

    space: Space

    @abstractmethod
    def search(self, vectors: Floats, k: int, *, where: Filter | None = None) -> Csr:
        """Labels and cosines of the k nearest products of each vector, best first.

        Vectors are what `encode` gives; one of zeros gets nothing.
        """

    def encode(self, texts: Iterable[str]) -> Floats:
        """A unit vector per text, zeros where no n-gram is known, (n_texts, dimensions)."""
        return self.space.tower.encode(Strings.of(texts, "texts"))

    @overload
    def match(  # type: ignore[overload-overlap]
        self, queries: str, k: int = DEFAULT_K, *, where: Where | None = None
    ) -> Match: ...
    @overload
    def match(
        self, queries: Iterable[str], k: int = DEFAULT_K, *, where: Where | None = None
    ) -> Matches: ...
    def match(
        self, queries: str | Iterable[str], k: int = DEFAULT_K, *, where: Where | None = None
    ) -> Match | Matches:
        """The allowed products nearest to the query; none without a title is ever given."""
        return answer(self.space.products, queries, k, where=where, search=self._search)

    def filter(self, what: Where) -> Filter:
        """A filter to use again and again: `match(..., where=filter)`."""
        return make_filter(self.space.products, what)

    def is_seen(self, queries: Strings) -> NDArray[np.bool_]:
        """Which queries it was trained on, (n_queries,)."""
        return np.isin(normalize_strings(queries).hashes(), self.space.query_hashes)

    def is_warm(self, ids: Strings) -> NDArray[np.bool_]:
        """Which products had a positive query in training, (n_ids,)."""
        labels = self.space.products.ids.find(ids)
        return np.asarray((labels >= 0) & (self.space.n_queries_of[labels] > 0))

    @property
    def products(self) -> Products:
        """What can be found."""
        return self.space.products

    @property
    def config(self) -> DssmConfig:
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


def store_space(space: Space) -> dict[str, Part]:
    """A space as parts of a folder."""
    memory = {"query_hashes": space.query_hashes, "n_queries_of": space.n_queries_of}
    about = {"config": asdict(space.config), "provenance": dict(space.provenance)}
    return {
        "products": store_products(space.products),
        "tower": store_tower(space.tower),
        "space": Part(about, {"vectors": space.vectors}),
        "memory": Part(arrays=memory),
    }


def read_space(parts: Mapping[str, Part]) -> Space:
    """A space from its parts; whatever does not fit is a KeyError, TypeError or ValueError."""
    about, memory = parts["space"].header, parts["memory"].arrays
    return Space(
        products=read_products(parts["products"]),
        tower=read_tower(parts["tower"]),
        vectors=np.asarray(parts["space"].arrays["vectors"]),
        query_hashes=memory["query_hashes"],
        n_queries_of=memory["n_queries_of"],
        config=read_dssm_config(about["config"]),
        provenance=about["provenance"],
    )
