"""Title similarity: which titles say what the query says?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self, overload

from matchset.config import VectorizerConfig
from matchset.data.catalog import Catalog
from matchset.features.vectorizer import Vectorizer
from matchset.matchers.match import Match, Matches
from matchset.matchers.protocol import DEFAULT_K, answer
from matchset.matchers.stored import (
    damaged,
    open_matcher,
    open_vectorizer,
    read_csr,
    read_products,
    store_csr,
    store_products,
    write_matcher,
)
from matchset.matrices import Csr, from_scipy
from matchset.model.filters import Filter, Where
from matchset.model.postings import Postings
from matchset.model.products import Products, make_products
from matchset.strings import Strings

KIND = "title similarity"


@dataclass(frozen=True, slots=True, eq=False)
class TitleSimilarity:
    """Products by the cosine between query and title, of our TF-IDF over n-grams of the titles.

    It learns from the catalogue alone, so it knows every product from its first day, and none by
    another word than its title's.
    """

    products: Products
    vectorizer: Vectorizer
    postings: Postings  # n-grams x products

    @classmethod
    def learn(
        cls,
        catalog: Catalog,
        config: VectorizerConfig | None = None,
        *,
        threads: int | None = None,
    ) -> Self:
        """Fit a vectorizer to the titles, and list the titles that have each n-gram."""
        vectorizer = Vectorizer(config).fit(catalog.titles, threads=threads)
        titles = from_scipy(vectorizer.transform(catalog.titles, threads=threads))
        return cls(make_products(catalog.ids, catalog), vectorizer, Postings.of(titles))

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
        """The allowed products whose titles are most similar; none that shares no n-gram."""
        return answer(self.products, queries, k, where=where, search=self._search)

    def save(self, folder: str | Path) -> None:
        """Write it to a new folder."""
        parts = {
            "products": store_products(self.products),
            "postings": store_csr(self.postings.lists),
        }
        write_matcher(folder, KIND, parts, self.vectorizer)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Open a folder that `save` wrote, memory-mapped."""
        parts = open_matcher(folder, KIND)
        vectorizer = open_vectorizer(folder)
        try:
            products = read_products(parts.get("products"))
            postings = Postings(read_csr(parts.get("postings")))
            postings.require(vectorizer.n_features, len(products))
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(folder, error) from None
        return cls(products, vectorizer, postings)

    def _search(self, queries: Strings, k: int, where: Filter | None) -> Csr:
        X = from_scipy(self.vectorizer.transform(queries))
        return self.postings.rank(X, k, allowed=None if where is None else where.allowed)
