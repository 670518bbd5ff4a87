"""Nearest queries: which products answered the training queries most like this one?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Catalog
from matchset.data.positives import Positives
from matchset.features.vectorizer import Vectorizer
from matchset.filters.filter import Filter
from matchset.matchers.base import Matcher
from matchset.matrices import Csr, from_scipy, offsets_of
from matchset.model.postings import Postings
from matchset.model.products import Products, make_products
from matchset.strings import Strings

NEIGHBORS = 100  # training queries that count
POWER = 3  # of their similarity: a larger one favors the nearest


@dataclass(frozen=True, eq=False)
class NearestQueries(Matcher):
    """The products of the most similar training queries.

    A product's score is the sum of `similarity ** power` over those of the nearest `neighbors`
    training queries (by cosine) that led to it. How often they led to it has no influence:
    weighting by counts or shares found less, on a shop's log and on judged pairs. With a filter,
    only training queries that led to an allowed product count. A product that no neighbor led to is
    never returned.
    """

    kind: ClassVar[str] = "nearest_queries"
    products: Products
    vectorizer: Vectorizer
    queries: Postings  # n-grams x training queries
    answers: Postings  # training queries x products
    neighbors: int = NEIGHBORS
    power: int = POWER

    def __post_init__(self) -> None:
        if self.neighbors < 1:
            raise ValueError(f"neighbors must be at least 1; got {self.neighbors}")
        if self.power < 1:
            raise ValueError(f"power must be at least 1; got {self.power}")
        self.queries.require(self.vectorizer.n_features, len(self.answers.lists))
        self.answers.require(self.queries.n_documents, len(self.products))

    @classmethod
    def from_positives(
        cls,
        positives: Positives,
        vectorizer: Vectorizer | None = None,
        catalog: Catalog | None = None,
        *,
        neighbors: int = NEIGHBORS,
        power: int = POWER,
        threads: int | None = None,
    ) -> Self:
        """Index the queries and their products; the catalog gives titles and attributes.

        Without a fitted `vectorizer`, one is fitted to the queries. Its n-grams have no names,
        because names and postings together would reveal queries that must not be shown.
        """
        if vectorizer is None:
            hidden = np.zeros(len(positives.queries), dtype=np.bool_)
            vectorizer = Vectorizer().fit(positives.queries, shown=hidden, threads=threads)
        X = from_scipy(vectorizer.transform(positives.queries, threads=threads))
        products = make_products(positives.products, catalog)
        pairs = from_scipy(positives.pairs)
        answers = replace(pairs, data=np.ones_like(pairs.data))
        return cls(products, vectorizer, Postings.of(X), Postings(answers), neighbors, power)

    def _search(self, queries: Strings, k: int, where: Filter | None) -> Csr:
        X = from_scipy(self.vectorizer.transform(queries))
        if where is None:
            return self.answers.rank(self._weigh(self.queries.rank(X, self.neighbors)), k)
        has_answer = self._mark_answerable(where.allowed)
        near = self.queries.rank(X, self.neighbors, allowed=has_answer)
        return self.answers.rank(self._weigh(near), k, allowed=where.allowed)

    def _weigh(self, near: Csr) -> Csr:
        """Neighbors as rows with ascending columns, weighted by their similarity."""
        order = np.lexsort([near.indices, near.row_of_entry])
        similarity = near.data[order]
        values = similarity.copy()
        for _ in range(self.power - 1):  # unlike pow, the same result on every machine
            values *= similarity
        return Csr(near.indptr, near.indices[order], values, near.n_cols)

    def _mark_answerable(self, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Training queries that led to an allowed product, (n_training_queries,)."""
        answers = self.answers.lists
        is_listed = (
            0 <= answers.indices.min(initial=0) <= answers.indices.max(initial=0) < len(allowed)
        )
        if not is_listed or answers.indptr[0] != 0 or (np.diff(answers.indptr) < 0).any():
            raise ValueError(f"answers must be lists of {len(allowed):,} products; got others")
        n_before = offsets_of(allowed[answers.indices])
        return np.diff(n_before[answers.indptr]) > 0
