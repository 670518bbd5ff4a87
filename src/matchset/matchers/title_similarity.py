"""Title similarity: which titles say what the query says?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self, overload

from matchset.config import VectorizerConfig
from matchset.data.catalog import Catalog
from matchset.features.vectorizer import Vectorizer
from matchset.features.vocabulary import read_vocabulary, store_vocabulary
from matchset.filters.filter import Filter, Where
from matchset.matchers.base import DEFAULT_K, answer
from matchset.matchers.match import Match, Matches
from matchset.matchers.registry import load_matcher, save_matcher
from matchset.matrices import Csr, from_scipy
from matchset.model.postings import Postings, read_postings, store_postings
from matchset.model.products import Products, make_products, read_products, store_products
from matchset.storage.sections import Part
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
    def from_catalog(
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

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write it to a folder, at once or not at all."""
        parts = {
            "products": store_products(self.products),
            "vectorizer": store_vocabulary(self.vectorizer.vocabulary),
            "postings": store_postings(self.postings),
        }
        save_matcher(path, KIND, parts, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TitleSimilarity:
        """Open a folder that `save` wrote, memory-mapped."""

        def read(parts: Mapping[str, Part]) -> TitleSimilarity:
            return cls(
                read_products(parts["products"]),
                Vectorizer.of(read_vocabulary(parts["vectorizer"])),
                read_postings(parts["postings"]),
            )

        return load_matcher(path, KIND, read)

    def __post_init__(self) -> None:
        self.postings.require(self.vectorizer.n_features, len(self.products))

    def _search(self, queries: Strings, k: int, where: Filter | None) -> Csr:
        X = from_scipy(self.vectorizer.transform(queries))
        return self.postings.rank(X, k, allowed=None if where is None else where.allowed)
