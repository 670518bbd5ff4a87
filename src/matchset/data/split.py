"""Split: which part of a log is for training, and which for testing?"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Literal, TypeAlias

import numpy as np

from matchset.config import as_int
from matchset.data.arrow import NO_DAY
from matchset.data.events import EventRule
from matchset.data.log import Log
from matchset.data.positives import Positives, positives, relevance
from matchset.errors import DataError, ParameterError
from matchset.matrices import rows_of

logger = logging.getLogger(__name__)

SplitBy: TypeAlias = Literal["auto", "time", "query", "none"]
DEFAULT_SAMPLE = 100_000  # queries of a test
_EPOCH = date(1970, 1, 1)
_COARSE = 7  # days between two times


@dataclass(frozen=True, slots=True)
class SplitReport:
    """What the paper reports about a split; pairs are those that are positive on each side."""

    train_pairs: int
    train_queries: int
    train_products: int
    test_pairs: int
    test_queries: int
    test_products: int
    # Without a test pair, the next three are NaN; the report as text says why.
    unseen_products: float  # share of the test products without a training pair
    unseen_queries: float  # share of the test queries without a training pair
    seen_limit: float  # the best mean recall at k with products seen in training only
    k: int
    test_rule: EventRule  # decides which test pairs are relevant

    def __str__(self) -> str:
        sides = (
            f"train: {self.train_pairs:,} pairs of {self.train_queries:,} queries and "
            f"{self.train_products:,} products\n"
            f"test:  {self.test_pairs:,} pairs of {self.test_queries:,} queries and "
            f"{self.test_products:,} products\n"
        )
        if self.test_pairs == 0:
            events = " or ".join(map(repr, filter(None, self.test_rule.weights))) or "rows"
            return (
                f"{sides}nothing to test: no pair on the test side reaches a count of "
                f"{self.test_rule.min_count:g} by {events}"
            )
        return (
            f"{sides}never seen in training: {self.unseen_products:.1%} of the test products, "
            f"{self.unseen_queries:.1%} of the test queries\n"
            f"with products seen in training, Recall@{self.k} is at most {self.seen_limit:.1%}"
        )


@dataclass(frozen=True, slots=True)
class Split:
    """A log in two: `train, test = split`. Each side has only its own queries and products."""

    train: Log
    test: Log
    undated: int = 0  # rows that are on neither side because they have no time

    def __iter__(self) -> Iterator[Log]:
        return iter((self.train, self.test))

    def report(
        self, *, train: Positives | None = None, test: Positives | None = None, k: int = 100
    ) -> SplitReport:
        """Compare the positive pairs of both sides: the default ones, unless others are given."""
        return compare(
            train if train is not None else positives(self.train),
            test if test is not None else relevance(self.test),
            k=k,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOptions:
    """How a log is split into training and test, and what the test asks."""

    split: SplitBy | None = None
    "By time, by query, auto (by time if the log has times) or none (the whole log is the test)."
    test_days: int = 30
    "Days at the end of the log that are the test of a split by time."
    folds: int = 5
    "Number of parts of the queries in a split by query; one part is the test."
    fold: int = 0
    "Which part is the test."
    relevant: dict[str, float] | None = None
    "Weight of each event that makes a test product relevant (default: as --events or purchases)."
    sample: int = DEFAULT_SAMPLE
    "Maximum number of test queries."

    def divide(self, log: Log, *, seed: int) -> Split:
        """Split a log; by default split by time if the log has times."""
        if self.split == "none":
            rule = "must be auto, time or query, to train and test; got 'none'"
            raise ParameterError(rule, parameter="split")
        if self.split == "time" or (self.split != "query" and log.days):
            return split_by_time(log, test_days=self.test_days)
        return split_by_query(log, folds=self.folds, fold=self.fold, seed=seed)


def split_by_time(
    log: Log, *, test_from: str | date | None = None, test_days: int | None = None
) -> Split:
    """Train on everything before a day; test on that day (in UTC) and all later days.

    `test_from` is that day, as a date or ISO text. Otherwise the last `test_days` days of the log
    are the test set. Rows without a time are on neither side, and a warning counts them.
    """
    if (test_from is None) == (test_days is None):
        raise ValueError(
            f"either test_from or test_days must be given; got {test_from!r} and {test_days!r}"
        )
    if log.days is None:
        raise DataError(
            "a split by time needs times; the log has none (a split by query needs none)"
        )
    if test_days is not None:
        n_days = as_int(test_days)
        if n_days is None or n_days < 1:
            rule = "must be a positive integer"
            raise ParameterError(f"{rule}; got {test_days}", parameter="test_days")
        first_test_day = (log.days[1] - _EPOCH).days - n_days + 1
        _warn_if_coarse(log, first_test_day)
    else:
        first_test_day = (_to_date(test_from) - _EPOCH).days
    is_dated = log.day != NO_DAY
    is_test = log.day >= first_test_day
    if not is_test.any() or not (is_dated & ~is_test).any():
        raise DataError(
            f"a split must leave rows on both sides; got {test_from or f'{test_days} days'} "
            f"for a log from {log.days[0]} to {log.days[1]}"
        )
    undated = int(np.count_nonzero(~is_dated))
    if undated:
        logger.warning("%s rows without a time are in neither train nor test", f"{undated:,}")
    return Split(log.select(is_dated & ~is_test), log.select(is_test), undated)


def _warn_if_coarse(log: Log, first_test_day: int) -> None:
    days = np.unique(log.day[log.day != NO_DAY])
    if len(days) > 2 and np.median(np.diff(days)) >= _COARSE:
        rule = "times are coarse, such as months: the test has %s of the log's %s distinct days"
        logger.warning(rule, int((days >= first_test_day).sum()), len(days))


def split_by_query(
    log: Log, *, folds: int = 5, fold: int = 0, seed: int = 0, test_share: float | None = None
) -> Split:
    """Test on one of `folds` equal random parts of the queries, and train on the others.

    Use it for logs without times, and to measure how well unseen queries are answered: no test
    query is in training. With `test_share`, that share of the queries is the test set, and folds do
    not matter.
    """
    n_queries = len(log.queries)
    if test_share is None:
        if folds < 2:
            raise ParameterError(f"must be at least 2; got {folds}", parameter="folds")
        if not 0 <= fold < folds:
            raise ParameterError(f"must be from 0 to {folds - 1}; got {fold}", parameter="fold")
        if n_queries < folds:
            rule = f"a log must have at least {folds} queries, one per fold"
            raise DataError(f"{rule}; got {n_queries}")
    elif not 0 < test_share < 1:
        raise ParameterError(f"must be between 0 and 1; got {test_share}", parameter="test_share")
    elif not 0 < round(test_share * n_queries) < n_queries:
        got = f"{test_share} of {n_queries:,} queries"
        raise DataError(f"a split must leave queries on both sides; got {got}")
    number = np.random.default_rng(seed).permutation(n_queries)
    is_in = number % folds == fold if test_share is None else number < round(test_share * n_queries)
    is_test = is_in[log.query]
    return Split(log.select(~is_test), log.select(is_test))


def compare(train: Positives, test: Positives, *, k: int = 100) -> SplitReport:
    """Compare what the test asks for with what occurs in training."""
    if k < 1:
        raise ValueError(f"k must be positive; got {k}")
    is_seen = train.products.index_of(test.products) >= 0
    is_known = train.queries.index_of(test.queries) >= 0
    n_relevant = np.diff(test.pairs.indptr)
    row = rows_of(test.pairs.indptr)  # query of each pair
    n_seen = np.bincount(row[is_seen[test.pairs.indices]], minlength=len(n_relevant))
    best = np.minimum(n_seen, k) / n_relevant
    return SplitReport(
        train_pairs=len(train),
        train_queries=len(train.queries),
        train_products=len(train.products),
        test_pairs=len(test),
        test_queries=len(test.queries),
        test_products=len(test.products),
        unseen_products=_share(~is_seen),
        unseen_queries=_share(~is_known),
        seen_limit=_share(best),
        k=k,
        test_rule=test.rule,
    )


def _share(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _to_date(value: str | date | None) -> date:
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo else value).date()
    if isinstance(value, date):
        return value
    try:
        return _to_date(datetime.fromisoformat(str(value)))
    except ValueError as error:
        rule = f"must be a date such as 2026-10-01; got {value!r}"
        raise ParameterError(rule, parameter="test_from") from error
