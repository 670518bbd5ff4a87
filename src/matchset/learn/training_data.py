"""Training data: what do a log and its catalog give to learn from?"""

from __future__ import annotations

import logging
from dataclasses import dataclass, fields

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from matchset.config import TrainConfig, VectorizerConfig, count_threads
from matchset.data.catalog import Catalog
from matchset.data.events import hint_at_counts
from matchset.data.log import Log
from matchset.data.positives import Positives, positives
from matchset.data.recency import count_recent
from matchset.errors import DataError
from matchset.features.analysis import choose_language, sample_texts
from matchset.features.vectorizer import Vectorizer
from matchset.learn.private_words import forget_private_words
from matchset.matrices import Csr, Floats, from_scipy
from matchset.model.products import Products, make_products
from matchset.strings import Strings
from matchset.text import normalize_strings

logger = logging.getLogger(__name__)


class NothingToLearnError(DataError):
    """A log has no positive pair."""


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """The matrices to train on; rows of X, Y and the optional pair matrices are instances."""

    X: Csr  # instances x features
    Y: Csr  # instances x labels: counts of the positive pairs, no stored zeros
    label_vectors: Csr | None = None  # labels x anything
    pair_weights: Csr | None = None  # instances x labels: weights of Y's pairs
    negatives: Csr | None = None  # instances x labels: train the clusters of these labels too
    instance_weights: Floats | None = None  # multiply the weights of positives, (n_instances,)

    def head(self, n_rows: int) -> Examples:
        """Return the first instances with what they are positive for; nothing is copied."""
        return Examples(self.X.slice(0, n_rows), self.Y.slice(0, n_rows))


@dataclass(frozen=True, slots=True, eq=False)
class TrainingPairs:
    """What a log and its catalog give, before texts become features."""

    products: Products
    positives: Positives
    n_queries_of: NDArray[np.int64]  # positive queries of each product, (n_products,)
    recent: NDArray[np.float64]  # weighted events of each product, the older the less
    n_missing: int  # products with positive queries that are not in the catalog
    counts: NDArray[np.float64]  # how often each positive query occurred, (n_queries,)
    queries: Strings  # the positive queries without private words, (n_queries,)
    language: str | None  # in which words are stemmed; None: they are not


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """The texts as features."""

    vectorizer: Vectorizer
    examples: Examples  # queries, then titles if there are any
    X_more: Csr | None = None  # products x features of the text beside titles


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TrainingData(TrainingPairs):
    """Queries, and titles if there are any, as instances; products as labels."""

    vectorizer: Vectorizer
    examples: Examples
    X_more: Csr | None = None  # products x features of the text beside titles

    @classmethod
    def of(cls, pairs: TrainingPairs, features: Features) -> TrainingData:
        """Put pairs and features together."""
        parts = (pairs, features)
        return cls(**{one.name: getattr(part, one.name) for part in parts for one in fields(part)})

    @property
    def X(self) -> Csr:  # noqa: N802 (one meaning everywhere)
        """Queries x features."""
        return self.examples.X.slice(0, len(self.positives.queries))

    @property
    def Y(self) -> Csr:  # noqa: N802
        """Queries x products."""
        return self.examples.Y.slice(0, len(self.positives.queries))

    @property
    def queries_alone(self) -> Examples:
        """The examples without titles."""
        return self.examples.head(len(self.positives.queries))

    @property
    def titles(self) -> Csr:
        """Titles x features, for what reads them."""
        if self.X_titles is None:
            raise RuntimeError("parts that read titles must have some")
        return self.X_titles

    @property
    def X_titles(self) -> Csr | None:  # noqa: N802
        """Titles x features; None if titles are no instances."""
        n_queries, X = len(self.positives.queries), self.examples.X
        return None if len(X) == n_queries else X.slice(n_queries, len(X))


def prepare_training_data(
    log: Log, catalog: Catalog | None, config: TrainConfig, *, threads: int | None = None
) -> TrainingData:
    """Find the positive pairs, number the products, fit the vectorizer, make the matrices."""
    pairs = find_pairs(log, catalog, config, threads=threads)
    return TrainingData.of(pairs, make_features(pairs, config, threads=threads))


def find_pairs(
    log: Log, catalog: Catalog | None, config: TrainConfig, *, threads: int | None = None
) -> TrainingPairs:
    """Find the positive pairs, number the products, and drop private words."""
    n_threads = count_threads(threads)
    pairs = positives(log, events=config.events, min_count=config.min_count, threads=n_threads)
    if len(pairs) == 0:
        if len(log) == 0:
            raise NothingToLearnError("a log must have rows to learn from; got none")
        raise NothingToLearnError(
            f"a log must have a positive pair to learn from; got none in {len(log):,} rows "
            f"with {dict(pairs.rule.weights)} and min_count {pairs.rule.min_count:g}"
            f"{hint_at_counts(pairs.rule)}"
        )
    has_titles = catalog is not None and config.titles == "instances"
    products = make_products(pairs.products, catalog, with_unseen=has_titles)
    queries, counts = pairs.queries, count_queries(log, pairs, threads=n_threads)
    sample = sample_texts(list(list_texts(queries, products, config).values()))
    sample = normalize_strings(sample, threads=n_threads)
    language = choose_language(config.language, [sample], threads=n_threads)
    if config.parts != ("tree",):  # XR-Linear of the paper learns from every word
        _, *public = list_texts(queries, products, config).values()
        queries = forget_private_words(
            queries,
            counts,
            Strings.concatenate(public) if public else None,
            least=config.min_query_count,
            language=language,
            threads=n_threads,
        )
    n_queries_of = np.zeros(len(products), dtype=np.int64)
    n_queries_of[: len(pairs.products)] = np.bincount(
        pairs.pairs.indices, minlength=len(pairs.products)
    )
    recent = count_recent(log, pairs.rule.weights, threads=n_threads)
    return TrainingPairs(
        products,
        pairs,
        n_queries_of,
        name_products(recent, log.products, products, threads=n_threads),
        n_missing=0 if catalog is None else _count_missing(pairs.products, catalog),
        counts=counts,
        queries=queries,
        language=language,
    )


def list_texts(queries: Strings, products: Products, config: TrainConfig) -> dict[str, Strings]:
    """List what becomes features, in this order: queries, titles, and the text beside titles.

    Titles are instances, or nothing is learned from them.
    """
    texts = {"queries": queries}
    if products.titles is not None and config.titles == "instances":
        texts["titles"] = products.titles
        if products.more_text is not None and config.parts != ("tree",):
            texts["more"] = products.more_text
    return texts


def make_features(
    pairs: TrainingPairs, config: TrainConfig, *, threads: int | None = None
) -> Features:
    """Fit the vectorizer, and make the rows of queries, titles and the text beside titles."""
    texts = list_texts(pairs.queries, pairs.products, config)
    _, *public = texts.values()
    vectorizer = fit_vectorizer(
        pairs.queries,
        pairs.counts,
        Strings.concatenate(public) if public else None,
        config.vectorizer,
        min_query_count=config.min_query_count,
        language=pairs.language,
        threads=threads,
    )
    more = texts.pop("more", None)
    X = from_scipy(vectorizer.transform(Strings.concatenate(list(texts.values())), threads=threads))
    X_more = None if more is None else from_scipy(vectorizer.transform(more, threads=threads))
    return Features(vectorizer, make_examples(X, pairs.positives, config.title_weight), X_more)


def name_products(
    values: NDArray[np.float64], ids: Strings, products: Products, *, threads: int = 1
) -> NDArray[np.float64]:
    """Spread values of some products over all of them: those without one have zero."""
    return np.append(values, 0.0)[ids.index_of(products.ids, threads=threads)]


def _count_missing(known: Strings, catalog: Catalog) -> int:
    n_missing = int(np.count_nonzero(catalog.ids.index_of(known) < 0))
    if n_missing:
        logger.warning(
            "%s of the %s products with positive queries are not in the catalog: "
            "they are matched, but have no title",
            f"{n_missing:,}",
            f"{len(known):,}",
        )
    return n_missing


def fit_vectorizer(
    queries: Strings,
    counts: NDArray[np.float64],
    titles: Strings | None,
    config: VectorizerConfig,
    *,
    min_query_count: float,
    language: str | None = None,
    threads: int | None,
) -> Vectorizer:
    """Fit on queries that occurred `counts` times, and on titles, which may always be shown."""
    texts, shown = [queries], [counts >= min_query_count]
    if titles is not None:
        texts.append(titles)
        shown.append(np.ones(len(titles), dtype=np.bool_))
    vectorizer = Vectorizer(config, language=language)
    return vectorizer.fit(Strings.concatenate(texts), shown=np.concatenate(shown), threads=threads)


def count_queries(log: Log, pairs: Positives, *, threads: int) -> NDArray[np.float64]:
    """Count how often each positive query occurred, (n_queries,); see `Log.shown`."""
    at = log.queries.index_of(pairs.queries, threads=threads)
    counts: NDArray[np.float64] = log.query_counts(threads=threads)[at]
    return counts


def make_examples(X: Csr, pairs: Positives, title_weight: float) -> Examples:
    """Put queries with their products and, if X has titles, each title with its own product."""
    Y = from_scipy(pairs.pairs)
    return Examples(X, Y) if len(X) == len(Y) else _weigh_titles(X, Y, title_weight)


def join_titles(X: Csr, Y: Csr, X_titles: Csr, title_weight: float) -> Examples:
    """Put queries with their products above titles, each with its own product."""
    rows = sp.vstack([X.to_scipy(), X_titles.to_scipy()], format="csr")
    return _weigh_titles(from_scipy(rows), Y, title_weight)


def _weigh_titles(X: Csr, Y: Csr, title_weight: float) -> Examples:
    """Add a pair for each title; X has their rows below those of the queries."""
    n_products = len(X) - len(Y)
    weights = np.ones(len(X), dtype=np.float32)
    weights[len(Y) :] = title_weight
    pairs = Csr(
        np.concatenate([Y.indptr, Y.indptr[-1] + 1 + np.arange(n_products)]),
        np.concatenate([Y.indices, np.arange(n_products, dtype=np.int32)]),
        np.concatenate([Y.data, np.ones(n_products, dtype=np.float32)]),
        n_products,
    )
    return Examples(X, pairs, instance_weights=weights)
