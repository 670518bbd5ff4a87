"""Lessons: what does a log, with its catalogue, give to learn from?"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from matchset.config import LearnConfig, TrainConfig, VectorizerConfig
from matchset.data.catalog import Catalog
from matchset.data.events import hint_at_counts
from matchset.data.log import Log
from matchset.data.positives import Positives, apply_rule, positives
from matchset.errors import DataError
from matchset.features.vectorizer import Vectorizer
from matchset.learn.layers import weigh_positives
from matchset.learn.train import Examples
from matchset.matrices import Csr, from_scipy
from matchset.model.products import Products, make_products
from matchset.strings import Strings

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Lessons:
    """Queries, and perhaps titles, as instances; products as labels."""

    products: Products
    vectorizer: Vectorizer
    examples: Examples
    config: LearnConfig  # for `learn.train.train`
    positives: Positives
    n_queries_of: NDArray[np.int64]  # positive queries of each product, (n_products,)
    n_missing: int  # products of the positive pairs that the catalogue does not have
    n_left_out: int  # pairs with an event that counts, but too few of them


def prepare(
    log: Log, catalog: Catalog | None, config: TrainConfig, *, threads: int | None = None
) -> Lessons:
    """Decide what is positive, number the products, fit the vectorizer, make the matrices."""
    pairs = positives(log, events=config.events, min_count=config.min_count)
    if len(pairs) == 0:
        raise DataError(
            f"a log must have a positive pair to learn from; got none of its {len(log):,} rows "
            f"with {dict(pairs.rule.weights)} and min_count {pairs.rule.min_count:g}"
            f"{hint_at_counts(pairs.rule)}"
        )
    teaches_titles = catalog is not None and config.titles == "instances"
    products = make_products(pairs.products, catalog, with_unseen=teaches_titles)
    n_missing = 0 if catalog is None else _count_missing(pairs.products, catalog)
    titles = products.titles if teaches_titles else None
    vectorizer = fit_vectorizer(
        log,
        pairs,
        titles,
        config.vectorizer,
        min_query_count=config.min_query_count,
        threads=threads,
    )
    X, Y, weights = _make_matrices(vectorizer, pairs, titles, config, threads=threads)
    n_queries_of = np.zeros(len(products), dtype=np.int64)
    n_queries_of[: len(pairs.products)] = np.bincount(
        pairs.pairs.indices, minlength=len(pairs.products)
    )
    # Titles have a weight of their own, so with them every pair's weight is given.
    learn = config.learn if weights is None else replace(config.learn, weights="given")
    examples = Examples(X, Y, pair_weights=weights)
    n_left_out = len(apply_rule(log, replace(pairs.rule, min_count=1e-9))) - len(pairs)
    return Lessons(
        products, vectorizer, examples, learn, pairs, n_queries_of, n_missing, n_left_out
    )


def _count_missing(known: Strings, catalog: Catalog) -> int:
    n_missing = int(np.count_nonzero(catalog.ids.index_of(known) < 0))
    if n_missing:
        logger.warning(
            "%s of the %s products with positive queries are not in the catalogue: "
            "they are matched, without a title",
            f"{n_missing:,}",
            f"{len(known):,}",
        )
    return n_missing


def fit_vectorizer(
    log: Log,
    pairs: Positives,
    titles: Strings | None,
    config: VectorizerConfig,
    *,
    min_query_count: float,
    threads: int | None,
) -> Vectorizer:
    """Learn the n-grams of the positive queries and of the titles; the latter may all be shown."""
    texts = [pairs.queries]
    shown = [log.shown(min_query_count)[log.queries.index_of(pairs.queries)]]
    if titles is not None:
        texts.append(titles)
        shown.append(np.ones(len(titles), dtype=np.bool_))
    vectorizer = Vectorizer(config)
    return vectorizer.fit(Strings.concatenate(texts), shown=np.concatenate(shown), threads=threads)


def _make_matrices(
    vectorizer: Vectorizer,
    pairs: Positives,
    titles: Strings | None,
    config: TrainConfig,
    *,
    threads: int | None,
) -> tuple[Csr, Csr, Csr | None]:
    """X, Y and, where titles are instances too, the weights of Y's pairs."""
    X = vectorizer.transform(pairs.queries, threads=threads)
    Y = pairs.pairs
    if titles is None:
        return from_scipy(X), from_scipy(Y), None
    X = sp.vstack([X, vectorizer.transform(titles, threads=threads)], format="csr")
    own = sp.eye_array(len(titles), format="csr", dtype=np.float32)
    wide = sp.csr_array((Y.data, Y.indices, Y.indptr), shape=(Y.shape[0], len(titles)))
    Y = sp.vstack([wide, own], format="csr")
    weights = Y.copy()
    weights.data[: wide.nnz] = 1.0
    if config.learn.weights != "binary":
        weights.data[: wide.nnz] = weigh_positives(wide.data, config.learn.weights)
    weights.data[wide.nnz :] = config.title_weight
    return from_scipy(X), from_scipy(Y), from_scipy(weights)
