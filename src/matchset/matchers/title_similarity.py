"""Title similarity: which titles share n-grams with the query?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from matchset.config import AUTO, VectorizerConfig
from matchset.data.catalog import Catalog
from matchset.features.vectorizer import Vectorizer
from matchset.filters.filter import Filter
from matchset.matchers.base import Matcher
from matchset.matrices import Csr, from_scipy
from matchset.model.postings import Postings
from matchset.model.products import Products, make_products
from matchset.strings import Strings


@dataclass(frozen=True, eq=False)
class TitleSimilarity(Matcher):
    """Products by the cosine of query and title, with TF-IDF over n-grams of the titles.

    It uses only the catalog, so it finds a product from its first day, but only by n-grams of its
    title.
    """

    kind: ClassVar[str] = "title_similarity"
    products: Products
    vectorizer: Vectorizer
    postings: Postings  # n-grams x products

    @classmethod
    def from_catalog(
        cls,
        catalog: Catalog,
        config: VectorizerConfig | None = None,
        *,
        language: str | None = AUTO,
        threads: int | None = None,
    ) -> Self:
        """Fit a vectorizer with this `language` to the titles, and index them by n-gram."""
        vectorizer = Vectorizer(config, language=language).fit(catalog.titles, threads=threads)
        titles = from_scipy(vectorizer.transform(catalog.titles, threads=threads))
        return cls(make_products(catalog.ids, catalog), vectorizer, Postings.of(titles))

    def __post_init__(self) -> None:
        self.postings.require(self.vectorizer.n_features, len(self.products))

    def _search(self, queries: Strings, k: int, where: Filter | None) -> Csr:
        X = from_scipy(self.vectorizer.transform(queries))
        return self.postings.rank(X, k, allowed=None if where is None else where.allowed)
