"""Holding back: on which positives of a log are the weights of a match set learned?"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from matchset.config import TrainConfig
from matchset.data.arrow import NO_DAY
from matchset.data.events import kind_of, relevance_rule
from matchset.data.log import Log
from matchset.data.positives import Positives, positives, relevance
from matchset.matrices import Csr, from_scipy, rows_of
from matchset.strings import Strings
from matchset.work.forms import keepable

logger = logging.getLogger(__name__)

SHARE = 0.1  # of the positives
MOST_QUERIES = 20_000
LEAST_DAYS = 14  # of a log whose end is held back


@keepable
@dataclass(frozen=True, slots=True, eq=False)
class HeldBack:
    """A log without some of its positives, and those positives."""

    rest: Log
    queries: Strings  # (n_queries,)
    pairs: Csr  # (n_queries, n_products); 1: of the first half of the days, 2: the second, 3: both
    products: Strings  # ids of the columns
    is_complete: NDArray[np.bool_]  # whether all positives of the query are here, (n_queries,)
    n_days: int = 0  # that are held back; none where the seed decided
    shown: Strings | None = None  # products of the whole log; None where it lacks what was shown

    @property
    def is_by_time(self) -> bool:
        """Whether the most recent days are held back."""
        return self.n_days > 0


def hold_back(log: Log, config: TrainConfig, *, threads: int = 1) -> HeldBack:
    """A tenth of the positives, of at most 20,000 queries.

    The most recent ones where the log has times and spans two weeks. Otherwise by the seed: half of
    them are all positives of some queries, half are single events of queries that stay, so that
    new and known queries are both judged.
    """
    days = log.days
    is_long = days is not None and (days[1] - days[0]).days + 1 >= LEAST_DAYS
    hold = _hold_back_recent if is_long else _hold_back_random
    shown = log.products if _tells_impressions(log) else None
    return replace(hold(log, config, threads), shown=shown)


def _tells_impressions(log: Log) -> bool:
    """Whether most events are impressions, so that products without a row were hardly shown."""
    is_impression = np.array([kind_of(name) == "impression" for name in log.events], dtype=np.bool_)
    return bool(2 * log.count[is_impression[log.event]].sum() > log.count.sum())


def _hold_back_recent(log: Log, config: TrainConfig, threads: int) -> HeldBack:
    wanted = relevance_rule(log.events, weights=config.events, min_count=config.min_count).weights
    counts = np.array([wanted.get(name, 0.0) > 0 for name in log.events])
    is_dated = log.day != NO_DAY
    day = log.day[is_dated & counts[log.event]]
    if not len(day):  # only other events have one
        return _hold_back_random(log, config, threads)
    place = len(day) - max(1, int(SHARE * len(day)))
    day.partition(place)
    first, last = int(day[place]), int(day[place:].max())
    # Whole days: the first one goes to the side that makes the held-back part at most a tenth.
    later = day[place:][day[place:] > first]
    first = int(later.min()) if len(later) else first
    is_recent = is_dated & (log.day >= first)
    recent = log.select(is_recent, threads=threads)
    found = _find_relevant(recent, config, threads)
    rows = _choose(len(found.queries), MOST_QUERIES, config.learn.seed)
    return HeldBack(
        log.select(~is_recent, threads=threads),
        found.queries.take(rows),
        _mark_halves(recent, found, config, threads).take(rows),
        found.products,
        np.ones(len(rows), dtype=np.bool_),
        n_days=last + 1 - first,
    )


def _find_relevant(log: Log, config: TrainConfig, threads: int) -> Positives:
    return relevance(log, events=config.events, min_count=config.min_count, threads=threads)


def _mark_halves(recent: Log, found: Positives, config: TrainConfig, threads: int) -> Csr:
    """The positives, each with the halves of the days in which it is one: bits 1 and 2."""
    pairs = from_scipy(found.pairs)
    width = np.int64(len(found.products))
    keys = pairs.row_of_entry * width + pairs.indices
    halves = np.zeros(len(keys), dtype=np.float32)
    middle = (int(recent.day.min()) + int(recent.day.max()) + 1) // 2
    for bit, is_mine in ((1, recent.day < middle), (2, recent.day >= middle)):
        part = _find_relevant(recent.select(is_mine, threads=threads), config, threads)
        own = from_scipy(part.pairs)
        row = found.queries.index_of(part.queries, threads=threads)[own.row_of_entry]
        column = found.products.index_of(part.products, threads=threads)[own.indices]
        halves[np.isin(keys, row * width + column)] += bit
    # What only both halves together made a positive is one of both.
    return Csr(pairs.indptr, pairs.indices, np.where(halves > 0, halves, 3), pairs.n_cols)


def _choose(n: int, most: int, seed: int) -> NDArray[np.int64]:
    """At most `most` numbers below n by chance, ascending."""
    return np.sort(np.random.default_rng(seed).permutation(n)[:most])


def _hold_back_random(log: Log, config: TrainConfig, threads: int) -> HeldBack:
    rng = np.random.default_rng(config.learn.seed)
    found = positives(log, events=config.events, min_count=config.min_count, threads=threads)
    pairs = from_scipy(found.pairs)
    whole = _choose_whole(pairs, rng)
    single = _choose_single(log, found, pairs, whole, config, rng)
    query_of = log.queries.index_of(found.queries)  # in the log
    is_out = np.zeros(len(log.queries), dtype=np.bool_)
    is_out[query_of[whole]] = True
    rest = _take_events(log, single, config.min_count).select(
        _keep_rows(log, is_out, single, config)
    )
    row_of = np.full(len(log.queries), -1, dtype=np.int64)
    row_of[query_of] = np.arange(len(query_of))
    own = found.products.index_of(log.products)
    singles = row_of[log.query[single]], own[log.product[single]]
    taken = pairs.take(whole)
    ids = np.concatenate([taken.indices, singles[1].astype(np.int32)])
    offsets = np.concatenate([taken.indptr, taken.indptr[-1] + 1 + np.arange(len(single))])
    held = Csr(offsets.astype(np.int64), ids, np.full(len(ids), 3, np.float32), pairs.n_cols)
    return HeldBack(
        rest,
        found.queries.take(np.concatenate([whole, singles[0]])),
        held,
        found.products,
        np.arange(len(held)) < len(whole),
    )


def _choose_whole(pairs: Csr, rng: np.random.Generator) -> NDArray[np.int64]:
    """Queries by chance that have half of what is held back."""
    order = rng.permutation(len(pairs))
    n_before = np.cumsum(np.diff(pairs.indptr)[order])
    n = int(np.searchsorted(n_before, SHARE / 2 * len(pairs.indices)))
    return np.sort(order[: min(n, MOST_QUERIES // 2)])


def _choose_single(
    log: Log,
    found: Positives,
    pairs: Csr,
    whole: NDArray[np.int64],
    config: TrainConfig,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Rows of the log by chance, one per query, whose query keeps a positive without its event."""
    n_pairs = np.diff(pairs.indptr)
    n_pairs_of = np.zeros(len(log.queries), dtype=np.int64)
    query_of, product_of = (
        log.queries.index_of(found.queries),
        log.products.index_of(found.products),
    )
    n_pairs_of[query_of] = n_pairs
    n_pairs_of[query_of[whole]] = 0
    width = np.int64(len(log.products))
    keys = query_of[rows_of(pairs.indptr)] * width + product_of[pairs.indices]
    is_positive = np.isin(log.query * width + log.product, keys)
    weight = np.array([found.rule.weights.get(name, 0.0) for name in log.events])[log.event]
    stays = (n_pairs_of[log.query] >= 2) | _has_another(log, config.min_count)
    rows = np.flatnonzero(is_positive & (weight > 0) & (n_pairs_of[log.query] >= 1) & stays)
    rows = rows[rng.permutation(len(rows))]
    _, first = np.unique(log.query[rows], return_index=True)
    rows = rows[np.sort(first)]
    n = min(int(SHARE / 2 * len(pairs.indices)), MOST_QUERIES // 2)
    return np.sort(rows[:n])


def _has_another(log: Log, min_count: float) -> NDArray[np.bool_]:
    """Whether a row would still be positive with an event less."""
    return np.asarray(log.count - _unit(min_count) >= min_count)


def _unit(min_count: float) -> float:
    """What one event is worth: ratings are never cut in parts."""
    return max(1.0, min_count)


def _take_events(log: Log, rows: NDArray[np.int64], min_count: float) -> Log:
    count = log.count.copy()
    count[rows] = np.maximum(count[rows] - _unit(min_count), 0.0)
    return replace(log, count=count)


def _keep_rows(
    log: Log, is_out: NDArray[np.bool_], single: NDArray[np.int64], config: TrainConfig
) -> NDArray[np.bool_]:
    is_kept = ~is_out[log.query]
    is_kept[single] = _has_another(log, config.min_count)[single]
    return is_kept
