"""Lessons of DSSM: what does a log, with its titles, give to learn from?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from matchset.data.catalog import Catalog
from matchset.data.events import EventRule
from matchset.data.log import Log
from matchset.data.positives import Positives, apply_rule, positives
from matchset.errors import DataError
from matchset.features.vectorizer import Vectorizer
from matchset.learn.lessons import fit_vectorizer
from matchset.matchers.dssm.config import DssmConfig
from matchset.matchers.dssm.examples import Examples
from matchset.matrices import from_scipy
from matchset.model.products import Products, make_products
from matchset.strings import Strings

_ANY_COUNT = 1e-30  # every pair of the log reaches it


@dataclass(frozen=True, slots=True, eq=False)
class Lessons:
    """Queries and titles as n-grams, and the pairs between them."""

    products: Products
    titles: Strings  # (n_products,)
    vectorizer: Vectorizer
    examples: Examples
    positives: Positives

    @property
    def n_queries_of(self) -> NDArray[np.int64]:
        """Positive queries of each product, (n_products,)."""
        return np.bincount(self.positives.pairs.indices, minlength=len(self.products))


def prepare(log: Log, catalog: Catalog, config: DssmConfig, *, threads: int) -> Lessons:
    """Decide what is positive and what was shown in vain, number the products, fit the n-grams."""
    pairs = positives(log, events=config.events, min_count=config.min_count)
    products = make_products(pairs.products, catalog, with_unseen=True)
    titles = Strings.of([]) if products.titles is None else products.titles
    vectorizer = fit_vectorizer(
        log,
        pairs,
        titles,
        config.vectorizer,
        min_query_count=config.min_query_count,
        threads=threads,
    )
    X = vectorizer.transform(pairs.queries, threads=threads)
    T = vectorizer.transform(titles, threads=threads)
    Y, shown = _find_pairs(log, pairs, products)
    is_empty = (np.diff(X.indptr) == 0, np.diff(T.indptr) == 0)
    Y, shown = _leave_out(Y, *is_empty), _leave_out(shown, *is_empty)
    if Y.nnz == 0:
        raise DataError(
            f"a log must have a positive pair with a title to learn from; got none of its "
            f"{len(log):,} rows with {dict(pairs.rule.weights)} and min_count "
            f"{pairs.rule.min_count:g}, and {len(catalog):,} titles"
        )
    examples = Examples(from_scipy(X), from_scipy(T), from_scipy(Y), from_scipy(shown))
    return Lessons(products, titles, vectorizer, examples, pairs)


def _find_pairs(
    log: Log, pairs: Positives, products: Products
) -> tuple[sp.csr_array, sp.csr_array]:
    """Positive pairs, and pairs with any event that are not positive, (n_queries, n_products)."""
    Y = pairs.pairs
    shape = (Y.shape[0], len(products))
    Y = sp.csr_array((np.ones_like(Y.data), Y.indices, Y.indptr), shape=shape)
    rule = EventRule(dict.fromkeys(log.events, 1.0), _ANY_COUNT)
    seen = apply_rule(log, rule)
    entries = seen.pairs.tocoo()
    query = pairs.queries.find(seen.queries)[entries.row]
    product = products.ids.find(seen.products)[entries.col]
    is_known = (query >= 0) & (product >= 0)
    places = (query[is_known], product[is_known])
    shown = sp.csr_array((np.ones(len(places[0]), dtype=np.float32), places), shape=shape)
    shown = sp.csr_array(shown - Y)
    shown.data = np.maximum(shown.data, 0)
    shown.eliminate_zeros()
    return Y, shown


def _leave_out(
    matrix: sp.csr_array, rows: NDArray[np.bool_], columns: NDArray[np.bool_]
) -> sp.csr_array:
    """The matrix without the entries of these rows and of these columns."""
    entries = matrix.tocoo()
    is_kept = ~(rows[entries.row] | columns[entries.col])
    places = (entries.row[is_kept], entries.col[is_kept])
    return sp.csr_array((entries.data[is_kept], places), shape=matrix.shape)
