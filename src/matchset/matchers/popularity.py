"""Popularity: how good is it to show everyone the same?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self, overload

import numpy as np

from matchset.data.catalog import Catalog
from matchset.data.positives import Positives
from matchset.matchers.match import Match, Matches
from matchset.matchers.protocol import DEFAULT_K, answer
from matchset.matchers.stored import (
    Part,
    check,
    damaged,
    open_matcher,
    read_products,
    store_products,
    write_matcher,
)
from matchset.matrices import Csr, Floats, Ids
from matchset.model.filters import Filter, Where, make_filter
from matchset.model.products import Products, make_products
from matchset.strings import Strings
from matchset.text import normalize_strings

KIND = "popularity"


@dataclass(frozen=True, slots=True, eq=False)
class Popularity:
    """The floor for every other matcher: the same products for any query, the most popular first.

    A score is the sum of a product's weighted counts over all queries. Products without any are
    not given. Nor is anything for an empty query, as the contract wants: who has no query needs no
    matcher.
    """

    products: Products
    ranking: Ids  # labels, most popular first, (n_popular,)
    scores: Floats  # (n_popular,)

    @classmethod
    def learn(cls, positives: Positives, catalog: Catalog | None = None) -> Self:
        """Count the positives of each product; the catalogue gives titles and attributes."""
        pairs = positives.pairs
        sums = np.bincount(pairs.indices, weights=pairs.data, minlength=pairs.shape[1])
        popularity = sums.astype(np.float32)  # before sorting: what ties as shown goes by label
        ranking = np.argsort(-popularity, kind="stable").astype(np.int32)
        ranking = ranking[popularity[ranking] > 0]
        return cls(make_products(positives.products, catalog), ranking, popularity[ranking])

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
        """The most popular allowed products, the same for each query that is not empty."""
        return answer(self.products, queries, k, where=where, search=self._search)

    def filter(self, what: Where) -> Filter:
        """A filter to use again, from an expression, product ids or a boolean array."""
        return make_filter(self.products, what)

    def save(self, folder: str | Path) -> None:
        """Write it to a new folder."""
        ranking = Part(arrays={"labels": self.ranking, "scores": self.scores})
        write_matcher(folder, KIND, {"products": store_products(self.products), "ranking": ranking})

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Open a folder that `save` wrote, memory-mapped."""
        parts = open_matcher(folder, KIND)
        try:
            products, ranking = read_products(parts.get("products")), parts.get("ranking").arrays
            labels, scores = ranking["labels"], ranking["scores"]
            fits = not len(labels) or 0 <= labels.min() <= labels.max() < len(products)
            check(labels.dtype == np.int32 and bool(fits), "a ranking is of labels")
            check(scores.dtype == np.float32 and scores.shape == labels.shape, "each has a score")
            return cls(products, labels, scores)
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(folder, error) from None

    def _search(self, queries: Strings, k: int, where: Filter | None) -> Csr:
        places = np.arange(len(self.ranking))
        if where is not None:
            places = np.flatnonzero(where.allowed[self.ranking])
        best = places[:k]
        is_asked = normalize_strings(queries).lengths > 0
        n_asked = int(np.count_nonzero(is_asked))
        return Csr(
            np.concatenate([[0], np.cumsum(is_asked * len(best))]),
            np.tile(self.ranking[best], n_asked),
            np.tile(self.scores[best], n_asked),
            len(self.products),
        )
