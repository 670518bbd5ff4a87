"""Searches: what came of each search, and who made it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import NO_DAY
from matchset.data.events import EventKind, EventWeights, kind_of, relevance_rule
from matchset.evaluate.significance import Values
from matchset.online.checks import AA_RUNS, FalseAlarms, count_false_alarms
from matchset.online.intervals import Moments
from matchset.online.session_rows import SECONDS, SessionRows

PURCHASE, CART, CLICK = "purchase rate", "cart rate", "click rate"
EVENT = "event rate"  # of a log whose events have names of their own
REVENUE, EMPTY, LATENCY = "revenue per search", "zero results", "latency, ms"
KINDS: Mapping[str, EventKind] = {PURCHASE: "purchase", CART: "cart", CLICK: "click"}
METRICS = (*KINDS, REVENUE, EMPTY, LATENCY)  # what decides comes first
RATES = (*KINDS, EMPTY)  # shares of the searches
LESS_IS_BETTER = (EMPTY, LATENCY)
_AA_UNITS = 20_000  # as many as an A/A test takes at most


@dataclass(frozen=True, slots=True, eq=False)
class Searches:
    """What came of each search, a value per metric; searches of a unit depend on each other."""

    unit: NDArray[np.int64]  # number of the unit, from 0, (n_searches,)
    day: NDArray[np.int64]  # since 1970, NO_DAY if unknown, (n_searches,)
    values: Mapping[str, Values]  # of each metric, NaN if unknown, (n_searches,)

    def __len__(self) -> int:
        return len(self.unit)

    @property
    def n_units(self) -> int:
        """Number of units."""
        return int(self.unit.max(initial=-1)) + 1

    @property
    def n_days(self) -> int:
        """Number of days, from the first to the last; 0 without times."""
        known = self.day[self.is_dated]
        return int(np.ptp(known)) + 1 if len(known) else 0

    @property
    def is_dated(self) -> NDArray[np.bool_]:
        """Which searches have a time, (n_searches,)."""
        return np.asarray(self.day != NO_DAY)

    def has(self, metric: str) -> bool:
        """Return whether anything of a metric happened; revenue may not be recorded."""
        return metric in self.values and bool((self.values[metric] > 0).any())

    def select(self, chosen: NDArray[np.bool_]) -> Searches:
        """Return some of the searches; units are numbered anew."""
        _, unit = np.unique(self.unit[chosen], return_inverse=True)
        values = {name: value[chosen] for name, value in self.values.items()}
        return Searches(unit.astype(np.int64), self.day[chosen], values)

    def moments(self, metric: str) -> Moments:
        """Sum up a metric and the searches that it is known of, by unit."""
        return Moments.of(*self._sums_by_unit(metric))

    def count_false_alarms(self, metric: str, *, runs: int = AA_RUNS, seed: int = 0) -> FalseAlarms:
        """Return how often random halves of (at most 20,000) units show a difference."""
        x, y = self._sums_by_unit(metric)
        chosen = np.random.default_rng(seed).permutation(len(x))[:_AA_UNITS]
        return count_false_alarms(x[chosen], y[chosen], runs=runs, seed=seed)

    def _sums_by_unit(self, metric: str) -> tuple[Values, Values]:
        is_known = ~np.isnan(self.values[metric])
        _, unit = np.unique(self.unit[is_known], return_inverse=True)
        x = np.bincount(unit, self.values[metric][is_known])
        return np.asarray(x, np.float64), np.asarray(np.bincount(unit), np.float64)


def searches_of(rows: SessionRows, events: EventWeights | None = None) -> Searches:
    """Return the searches of a log; one of which the log has no row is not among them.

    There is a metric for each kind of event, or one for all `events` with a weight above 0.
    """
    number, first = rows.searches()
    values = {}
    for metric, names in events_by_metric(rows.events, events).items():
        is_counted = np.array([name in names for name in rows.events])[rows.event]
        values[metric] = np.zeros(len(first))
        values[metric][number[is_counted]] = 1.0
    return Searches(rows.unit[first], rows.began() // SECONDS, values)


def events_by_metric(
    names: Sequence[str], events: EventWeights | None = None
) -> dict[str, frozenset[str]]:
    """Return the names of the events that each metric counts."""
    if events is None:
        return {
            metric: frozenset(name for name in names if kind_of(name) == kind)
            for metric, kind in KINDS.items()
        }
    weights = relevance_rule(names, weights=events).weights
    return {EVENT: frozenset(name for name, weight in weights.items() if weight > 0)}


def independent_searches(events: float, searches: float) -> Moments:
    """Return the moments of searches that are each of another unit; some led to an event."""
    n, x = np.float64(searches), np.float64(events)
    return Moments(*(np.asarray(part) for part in (n, x, n, x, x, n)))
