"""Holding back: which queries, products, events and words does the re-ranker learn from?

What is held back must look like what will come: queries that training does not know, products that
it does not know, new pairs of what it knows, and words that no query had. Where time decides, the
most recent days hold all of these in their natural shares; what they hold too little of is added.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from matchset.config import TrainConfig
from matchset.data.arrow import NO_DAY
from matchset.data.catalog import Catalog
from matchset.data.events import kind_of, relevance_rule
from matchset.data.log import Log
from matchset.data.positives import Positives, relevance
from matchset.learn.held_kinds import MOST, RECENT, Choice, HeldBack
from matchset.matrices import Csr, from_scipy
from matchset.strings import Strings

SHARE = 0.1  # of the positives, in the most recent days
_MOST_ROUNDS, _ENOUGH_QUERIES = 3, 24_000
LEAST_DAYS = 14  # of a log whose end is held back


def count_rounds(log: Log) -> int:
    """Return the number of rounds where time can't tell: more, the fewer queries there are."""
    if _is_long(log):
        return 1
    return max(1, min(_MOST_ROUNDS, round(_ENOUGH_QUERIES / max(1, len(log.queries)))))


def _is_long(log: Log) -> bool:
    days = log.days
    return days is not None and (days[1] - days[0]).days + 1 >= LEAST_DAYS


def hold_back(
    log: Log, catalog: Catalog | None, config: TrainConfig, *, number: int = 0, threads: int = 1
) -> HeldBack:
    """Hold back a fifth of the positives at most, chosen by log, catalog and seed alone.

    Where the log has times and spans two weeks, the most recent days are held back: a tenth of the
    events. Rounds of another `number` hold others back.
    """
    recent = _hold_back_recent(log, config, threads) if _is_long(log) else None
    base = log if recent is None else recent.rest
    held = Choice(base, catalog, config, number, threads).make(recent)
    shown = log.products if _has_impressions(log) else None
    unseen = 0.0 if catalog is None else float((log.products.index_of(catalog.ids) < 0).mean())
    return replace(held, shown=shown, share_unseen=unseen)


def _has_impressions(log: Log) -> bool:
    """Return whether most events are impressions: then products without a row were hardly shown."""
    is_impression = np.array([kind_of(name) == "impression" for name in log.events], dtype=np.bool_)
    return bool(2 * log.count[is_impression[log.event]].sum() > log.count.sum())


def _hold_back_recent(log: Log, config: TrainConfig, threads: int) -> HeldBack | None:
    """Hold back the most recent days; None where no event that counts has a day."""
    wanted = relevance_rule(log.events, weights=config.events, min_count=config.min_count).weights
    counts = np.array([wanted.get(name, 0.0) > 0 for name in log.events])
    is_dated = log.day != NO_DAY
    day = log.day[is_dated & counts[log.event]]
    if not len(day):
        return None
    place = len(day) - max(1, int(SHARE * len(day)))
    day.partition(place)
    first, last = int(day[place]), int(day[place:].max())
    # Whole days: the first one goes to the side that makes the held-back part at most a tenth.
    later = day[place:][day[place:] > first]
    first = int(later.min()) if len(later) else first
    is_recent = is_dated & (log.day >= first)
    recent = log.select(is_recent, threads=threads)
    found = _find_relevant(recent, config, threads)
    rows = _choose(len(found.queries), MOST[RECENT], config.learn.seed)
    return HeldBack(
        log.select(~is_recent, threads=threads),
        found.queries.take(rows),
        _mark_halves(recent, found, config, threads).take(rows),
        found.products,
        np.full(len(rows), RECENT, dtype=np.uint8),
        Strings.of([]),
        Strings.of([]),
        n_days=last + 1 - first,
    )


def _find_relevant(log: Log, config: TrainConfig, threads: int) -> Positives:
    return relevance(log, events=config.events, min_count=config.min_count, threads=threads)


def _mark_halves(recent: Log, found: Positives, config: TrainConfig, threads: int) -> Csr:
    """Mark each positive with the halves of the days in which it is one: bits 1 and 2."""
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
