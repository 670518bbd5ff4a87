"""Examples: what does a step of training look at?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.matchers.dssm.config import DssmConfig
from matchset.matrices import Csr, Ids, Offsets

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Texts as their n-grams, and which products a query led to."""

    queries: Csr  # training queries x n-grams
    titles: Csr  # products x n-grams
    positives: Csr  # training queries x products
    impressed: Csr  # training queries x products that it was shown in vain


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Pairs, and their products as columns: every query is compared with every column."""

    queries: Places  # (n_pairs,)
    products: Places  # distinct, (n_columns,)
    target: Places  # column of each pair's product, (n_pairs,)
    positives: tuple[Places, Places]  # pairs and columns that are positive, targets too
    impressed: tuple[Places, Places]  # pairs and columns that were shown in vain


def hold_back(examples: Examples, config: DssmConfig) -> tuple[tuple[Places, Places], Places]:
    """Pairs to train on, as queries and products, and the queries held back to measure recall."""
    answered = np.flatnonzero(np.diff(examples.positives.offsets))
    n_held = min(int(config.validation_share * len(answered)), config.validation_queries)
    order = np.random.default_rng(config.seed).permutation(answered)
    is_held = np.zeros(len(examples.queries), dtype=np.bool_)
    is_held[order[:n_held]] = True
    query = examples.positives.row_of_entry.astype(np.int64)
    is_trained = ~is_held[query]
    pairs = query[is_trained], examples.positives.columns[is_trained].astype(np.int64)
    return pairs, np.flatnonzero(is_held)


def draw_batches(
    examples: Examples,
    pairs: tuple[Places, Places],
    rng: np.random.Generator,
    config: DssmConfig,
) -> Iterator[Batch]:
    """All pairs once, in an order by chance, each batch with further products to compare with."""
    titled = np.flatnonzero(np.diff(examples.titles.offsets))
    order = rng.permutation(len(pairs[0]))
    column_of = np.full(len(examples.titles), -1, dtype=np.int64)
    for rows in np.array_split(order, count_batches(pairs, config)):
        queries, bought = pairs[0][rows], pairs[1][rows]
        asking = np.repeat(queries, config.n_impressed if config.loss == "hinge" else 0)
        shown = draw_from_rows(examples.impressed, asking, rng)
        drawn = titled[rng.integers(0, len(titled), config.n_random)]
        products = np.unique(np.concatenate([bought, shown, drawn]))
        column_of[products] = np.arange(len(products))
        yield Batch(
            queries,
            products,
            column_of[bought],
            _find_columns(examples.positives, queries, column_of),
            _find_columns(examples.impressed, queries, column_of),
        )
        column_of[products] = -1


def count_batches(pairs: tuple[Places, Places], config: DssmConfig) -> int:
    """Batches per epoch, of almost equal size."""
    return math.ceil(len(pairs[0]) / config.batch_size)


def draw_from_rows(matrix: Csr, rows: Places, rng: np.random.Generator) -> Places:
    """A column by chance of each row; rows without one are left out."""
    starts, sizes = matrix.offsets[rows], np.diff(matrix.offsets)[rows]
    chosen = starts + (rng.random(len(rows)) * sizes).astype(np.int64)
    return matrix.columns[chosen[sizes > 0]].astype(np.int64)


def take_rows(matrix: Csr, rows: Places) -> tuple[Ids, Offsets]:
    """The columns of some rows, one row after another, and where each row starts."""
    sizes = np.diff(matrix.offsets)[rows]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    entries = np.arange(starts[-1]) + np.repeat(matrix.offsets[rows] - starts[:-1], sizes)
    return matrix.columns[entries], starts


def _find_columns(matrix: Csr, queries: Places, column_of: Places) -> tuple[Places, Places]:
    """Which pairs of place in `queries` and column the matrix has."""
    products, starts = take_rows(matrix, queries)
    columns = column_of[products]
    is_there = columns >= 0
    return np.repeat(np.arange(len(queries)), np.diff(starts))[is_there], columns[is_there]
