"""Tree matcher: XR-Linear over text, which the paper is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import TrainConfig
from matchset.features.vectorizer import Vectorizer
from matchset.matchers.match import Match, Matches
from matchset.matchers.protocol import DEFAULT_K, answer
from matchset.matrices import Csr
from matchset.model.filters import Filter, Where, make_filter
from matchset.model.packed import PackedTree
from matchset.model.products import Products
from matchset.model.search import search_rule
from matchset.strings import Strings
from matchset.text import normalize_strings
from matchset.threads import count_threads

DEFAULT_BEAM = 10


@dataclass(frozen=True, slots=True, eq=False)
class TreeMatcher:
    """What `matchset.train` learned: a vectorizer, a tree of classifiers, and the products.

    Nothing in it changes, so any number of threads may ask at once.
    """

    vectorizer: Vectorizer
    tree: PackedTree
    products: Products
    config: TrainConfig
    query_hashes: NDArray[np.uint64]  # of the queries trained on, ascending
    n_queries_of: NDArray[np.int64]  # positive queries of each product, (n_products,)
    provenance: Mapping[str, Any] = field(default_factory=dict)  # when, from what, how

    @overload
    def match(  # type: ignore[overload-overlap]
        self,
        queries: str,
        k: int = ...,
        *,
        beam: int = ...,
        where: Where | None = ...,
        min_score: float | None = ...,
        threads: int | None = ...,
    ) -> Match: ...
    @overload
    def match(
        self,
        queries: Iterable[str],
        k: int = ...,
        *,
        beam: int = ...,
        where: Where | None = ...,
        min_score: float | None = ...,
        threads: int | None = ...,
    ) -> Matches: ...
    def match(
        self,
        queries: str | Iterable[str],
        k: int = DEFAULT_K,
        *,
        beam: int = DEFAULT_BEAM,
        where: Where | None = None,
        min_score: float | None = None,
        threads: int | None = None,
    ) -> Match | Matches:
        """The k best products of one query, or of each of many.

        A wider `beam` looks at more of the tree: slower, and better up to a point. `where` allows
        some products only (see `filter`). Products below `min_score` are left out. A query without
        a known n-gram gets no products.
        """

        def search(texts: Strings, most: int, chosen: Filter | None) -> Csr:
            rule = search_rule(most, beam, min_score=min_score)
            allowed = None if chosen is None else self.tree.allow(chosen.allowed)
            return self.tree.search_texts(
                self._vocabulary, texts, rule, allowed, threads=count_threads(threads)
            )

        return answer(self.products, queries, k, where=where, search=search)

    def filter(self, what: Where) -> Filter:
        """A filter to use again and again: `match(..., where=filter)`.

        From an expression such as "in_stock and price < 20", product ids, or a boolean array.
        """
        return make_filter(self.products, what)

    def is_seen(self, queries: Strings) -> NDArray[np.bool_]:
        """Which queries it was trained on, (n_queries,)."""
        hashes = normalize_strings(queries).hashes()
        places = np.searchsorted(self.query_hashes, hashes)
        found = self.query_hashes[np.minimum(places, len(self.query_hashes) - 1)]
        return np.asarray(found == hashes)

    def is_warm(self, ids: Strings) -> NDArray[np.bool_]:
        """Which products had a positive query in training, (n_ids,)."""
        labels = self.products.ids.find(ids)
        return np.asarray((labels >= 0) & (self.n_queries_of[labels] > 0))

    def __repr__(self) -> str:
        return (
            f"TreeMatcher({len(self.products):,} products, "
            f"{self.vectorizer.n_features:,} features, {self.tree.n_weights:,} weights)"
        )

    @property
    def _vocabulary(self) -> _native.Vocabulary:
        return self.vectorizer.native
