"""Batches: which queries, titles and pairs does DSSM learn from, and in what batches?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from matchset.data.catalog import Catalog
from matchset.data.log import Log
from matchset.data.positives import Positives, positives
from matchset.errors import DataError
from matchset.features.vectorizer import Vectorizer
from matchset.lab.dssm.settings import DSSMConfig
from matchset.learn.training_data import count_queries, fit_vectorizer
from matchset.matrices import Csr, Ids, Offsets, from_scipy, rows_of, take_entries
from matchset.model.products import Products, make_products
from matchset.strings import Strings

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Texts as their n-grams, and which products a query led to."""

    queries: Csr  # training queries x n-grams
    titles: Csr  # products x n-grams
    positives: Csr  # training queries x products


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Pairs, and their products as columns: every query is compared with every column."""

    queries: Indices  # (n_pairs,)
    products: Indices  # distinct, (n_columns,)
    target: Indices  # column of each pair's product, (n_pairs,)
    positives: tuple[Indices, Indices]  # pairs and columns that are positive, targets too


def split_validation(
    examples: Examples, config: DSSMConfig
) -> tuple[tuple[Indices, Indices], Indices]:
    """Return pairs to train on, as queries and products, and the queries that measure recall."""
    answered = np.flatnonzero(np.diff(examples.positives.indptr))
    n_validation = min(int(config.validation_share * len(answered)), config.validation_queries)
    order = np.random.default_rng(config.seed).permutation(answered)
    is_validation = np.zeros(len(examples.queries), dtype=np.bool_)
    is_validation[order[:n_validation]] = True
    query = examples.positives.row_of_entry.astype(np.int64)
    is_trained = ~is_validation[query]
    pairs = query[is_trained], examples.positives.indices[is_trained].astype(np.int64)
    return pairs, np.flatnonzero(is_validation)


def draw_batches(
    examples: Examples,
    pairs: tuple[Indices, Indices],
    rng: np.random.Generator,
    config: DSSMConfig,
) -> Iterator[Batch]:
    """Yield all pairs once, in random order."""
    order = rng.permutation(len(pairs[0]))
    column_of = np.full(len(examples.titles), -1, dtype=np.int64)
    for rows in np.array_split(order, count_batches(pairs, config)):
        queries, targets = pairs[0][rows], pairs[1][rows]
        products = np.unique(targets)
        column_of[products] = np.arange(len(products))
        yield Batch(
            queries,
            products,
            column_of[targets],
            _find_columns(examples.positives, queries, column_of),
        )
        column_of[products] = -1


def count_batches(pairs: tuple[Indices, Indices], config: DSSMConfig) -> int:
    """Count the batches of an epoch, of almost equal size."""
    return math.ceil(len(pairs[0]) / config.batch_size)


def take_rows(matrix: Csr, rows: Indices) -> tuple[Ids, Offsets]:
    """Return the columns of some rows, one row after another, and where each row starts."""
    entries, starts = take_entries(matrix.indptr, rows)
    return matrix.indices[entries], starts


def _find_columns(matrix: Csr, queries: Indices, column_of: Indices) -> tuple[Indices, Indices]:
    """Return the entries of these rows, as indices into `queries` and columns of the batch."""
    products, starts = take_rows(matrix, queries)
    columns = column_of[products]
    is_there = columns >= 0
    return rows_of(starts)[is_there].astype(np.int64), columns[is_there]


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
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


def prepare_training_data(
    log: Log, catalog: Catalog, config: DSSMConfig, *, threads: int
) -> TrainingData:
    """Decide which pairs are positive, number the products, fit the n-grams."""
    pairs = positives(log, events=config.events, min_count=config.min_count)
    products = make_products(pairs.products, catalog, with_unseen=True)
    titles = Strings.of([]) if products.titles is None else products.titles
    vectorizer = fit_vectorizer(
        pairs.queries,
        count_queries(log, pairs, threads=threads),
        titles,
        config.vectorizer,
        min_query_count=config.min_query_count,
        threads=threads,
    )
    X = vectorizer.transform(pairs.queries, threads=threads)
    T = vectorizer.transform(titles, threads=threads)
    Y = _leave_out(pairs.pairs, np.diff(X.indptr) == 0, np.diff(T.indptr) == 0)
    if Y.nnz == 0:
        raise DataError(
            f"a log must have a positive pair with a title to learn from; got none of its "
            f"{len(log):,} rows with {dict(pairs.rule.weights)} and min_count "
            f"{pairs.rule.min_count:g}, and {len(catalog):,} titles"
        )
    examples = Examples(from_scipy(X), from_scipy(T), from_scipy(Y))
    return TrainingData(products, titles, vectorizer, examples, pairs)


def _leave_out(
    matrix: sp.csr_array, rows: NDArray[np.bool_], columns: NDArray[np.bool_]
) -> sp.csr_array:
    """Return a matrix of ones with as many columns as are given, without some entries."""
    entries = matrix.tocoo()
    is_kept = ~(rows[entries.row] | columns[entries.col])
    indices = (entries.row[is_kept], entries.col[is_kept])
    ones = np.ones(len(indices[0]), dtype=np.float32)
    return sp.csr_array((ones, indices), shape=(len(rows), len(columns)))
