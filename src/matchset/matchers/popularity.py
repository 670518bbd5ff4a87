"""Popularity: how good is it to give every query the same products?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from matchset.data.catalog import Catalog
from matchset.data.positives import Positives
from matchset.filters.filter import Filter
from matchset.matchers.base import Matcher
from matchset.matrices import Csr, Floats, Ids, offsets_of
from matchset.model.products import Products, make_products
from matchset.strings import Strings
from matchset.text import normalize_strings


@dataclass(frozen=True, eq=False)
class Popularity(Matcher):
    """The simplest baseline: the most popular products, for every query.

    A score is the sum of a product's weighted counts over all queries. Products without any are
    never returned. An empty query gets nothing, as the contract requires.
    """

    kind: ClassVar[str] = "popularity"
    products: Products
    ranking: Ids  # labels, most popular first, (n_popular,)
    scores: Floats  # (n_popular,)

    @classmethod
    def from_positives(cls, positives: Positives, catalog: Catalog | None = None) -> Self:
        """Sum the positives of each product; the catalog gives titles and attributes."""
        pairs = positives.pairs
        sums = np.bincount(pairs.indices, weights=pairs.data, minlength=pairs.shape[1])
        popularity = sums.astype(np.float32)  # before sorting: equal float32 scores go by label
        ranking = np.argsort(-popularity, kind="stable").astype(np.int32)
        ranking = ranking[popularity[ranking] > 0]
        return cls(make_products(positives.products, catalog), ranking, popularity[ranking])

    def __post_init__(self) -> None:
        labels, n = self.ranking, len(self.products)
        if len(labels) and not 0 <= labels.min() <= labels.max() < n:
            raise ValueError(f"labels must be below {n}; got {labels.min()} to {labels.max()}")
        if labels.dtype != np.int32 or self.scores.dtype != np.float32:
            raise TypeError(f"labels and scores must be int32 and float32; got {labels.dtype}")
        if labels.shape != self.scores.shape:
            raise ValueError(f"each label must have a score; got {self.scores.shape}")

    def _search(self, queries: Strings, k: int, where: Filter | None) -> Csr:
        chosen = np.arange(len(self.ranking))
        if where is not None:
            chosen = np.flatnonzero(where.allowed[self.ranking])
        best = chosen[:k]
        is_asked = normalize_strings(queries).lengths > 0
        n_asked = int(np.count_nonzero(is_asked))
        return Csr(
            offsets_of(is_asked * len(best)),
            np.tile(self.ranking[best], n_asked),
            np.tile(self.scores[best], n_asked),
            len(self.products),
        )
