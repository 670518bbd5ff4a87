"""Searches: what came of each search, and who made it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import NO_DAY
from matchset.data.events import EventKind, EventWeights, kind_of, relevance_rule
from matchset.data.log_rows import SECONDS
from matchset.data.session_rows import SessionRows
from matchset.evaluate.significance import Values
from matchset.online.checks import AA_RUNS, Calibration, calibrate, calibrate_credits
from matchset.online.intervals import PLANNED_SEARCHES, Moments

PURCHASE, CART, CLICK = "purchase rate", "cart rate", "click rate"
EVENT = "event rate"  # of a log whose events have names of their own
REVENUE, EMPTY, LATENCY = "revenue per search", "zero results", "latency, ms"
KINDS: Mapping[str, EventKind] = {PURCHASE: "purchase", CART: "cart", CLICK: "click"}
METRICS = (*KINDS, REVENUE, EMPTY, LATENCY)  # what decides comes first
RATES = (*KINDS, EMPTY)  # shares of the searches
LESS_IS_BETTER = (EMPTY, LATENCY)
_AA_UNITS, _AA_LOOKS = 20_000, 30  # as many as a calibration takes at most


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
        """How many units there are."""
        return int(self.unit.max(initial=-1)) + 1

    @property
    def n_days(self) -> int:
        """How many days there are, from the first to the last; 0 without times."""
        known = self.day[self.is_dated]
        return int(np.ptp(known)) + 1 if len(known) else 0

    @property
    def is_dated(self) -> NDArray[np.bool_]:
        """Which searches have a time, (n_searches,)."""
        return np.asarray(self.day != NO_DAY)

    def has(self, metric: str) -> bool:
        """Whether anything of a metric happened; latency and revenue may not be recorded."""
        return metric in self.values and bool((self.values[metric] > 0).any())

    def select(self, chosen: NDArray[np.bool_]) -> Searches:
        """Some of the searches; units are numbered anew."""
        _, unit = np.unique(self.unit[chosen], return_inverse=True)
        values = {name: value[chosen] for name, value in self.values.items()}
        return Searches(unit.astype(np.int64), self.day[chosen], values)

    def moments(self, metric: str) -> Moments:
        """Sums over units of a metric and of the searches that it is known of."""
        known = self._where_known(metric)
        x = np.bincount(known.unit, known.values[metric], minlength=known.n_units)
        return Moments.of(x, np.bincount(known.unit, minlength=known.n_units))

    def calibrate(
        self,
        metric: str,
        *,
        runs: int = AA_RUNS,
        planned: float = PLANNED_SEARCHES,
        seed: int = 0,
    ) -> Calibration:
        """How often halves of the units, which differ in nothing, show a difference.

        Searches without a time are in no look; without any times, there is one look, at the end.
        """
        known = self._where_known(metric)
        x, y = _grow(known, [known.values[metric], np.ones(len(known))], seed)
        return calibrate(x, y, runs=runs, planned=planned, seed=seed)

    def calibrate_credits(
        self, credited: Values, *, planned: float = PLANNED_SEARCHES, seed: int = 0
    ) -> Calibration:
        """How often credits show a preference if the arms of units are exchanged at random.

        `credited` are those of the first and the second arm, (n_searches, 2).
        """
        first, second, y = _grow(self, [credited[:, 0], credited[:, 1], np.ones(len(self))], seed)
        return calibrate_credits(first, second, y.sum(axis=0), planned=planned, seed=seed)

    def _where_known(self, metric: str) -> Searches:
        is_known = ~np.isnan(self.values[metric])
        return self if is_known.all() else self.select(is_known)


def _grow(searches: Searches, values: Sequence[Values], seed: int) -> list[Values]:
    """Sums of values by unit up to each look, (n_units, n_looks) each; of at most so many units."""
    looks = min(max(searches.n_days, 1), _AA_LOOKS)
    chosen = searches.is_dated if searches.n_days else np.ones(len(searches), np.bool_)
    if searches.n_units > _AA_UNITS:
        kept = np.random.default_rng(seed).permutation(searches.n_units) < _AA_UNITS
        chosen = chosen & kept[searches.unit]
    _, unit = np.unique(searches.unit[chosen], return_inverse=True)
    day = searches.day[chosen]
    look = (day - day.min()) * looks // max(searches.n_days, 1)
    shape = int(unit.max(initial=-1)) + 1, looks
    at = unit * looks + look
    return [
        np.cumsum(np.bincount(at, each[chosen], shape[0] * looks).reshape(shape), axis=1)
        for each in values
    ]


def searches_of(rows: SessionRows, events: EventWeights | None = None) -> Searches:
    """The searches of a log; one of which the log has no row is not among them.

    There is a metric for each kind of event, or one for all `events` with a weight above 0.
    """
    number, first = rows.searches()
    values = {}
    for metric, names in count_by(rows.events, events).items():
        seen = np.zeros(len(first))
        seen[number[np.array([each in names for each in rows.events])[rows.event]]] = 1.0
        values[metric] = seen
    return Searches(rows.unit[first], rows.began() // SECONDS, values)


def count_by(names: Sequence[str], events: EventWeights | None = None) -> dict[str, frozenset[str]]:
    """The events of each metric."""
    if events is None:
        return {
            metric: frozenset(name for name in names if kind_of(name) == kind)
            for metric, kind in KINDS.items()
        }
    weights = relevance_rule(names, weights=events).weights
    return {EVENT: frozenset(name for name, weight in weights.items() if weight > 0)}


def independent_searches(events: float, searches: float) -> Moments:
    """As many searches, each of a unit of its own, of which some led to an event."""
    n, x = np.float64(searches), np.float64(events)
    return Moments(*(np.asarray(part) for part in (n, x, n, x, x, n)))
