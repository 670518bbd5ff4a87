"""Searches: what came of each search, and who made it?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.data.events import EventKind
from matchset.data.session_rows import SessionRows
from matchset.evaluate.significance import Values
from matchset.online.checks import AA_RUNS, Calibration, calibrate
from matchset.online.intervals import PLANNED_UNITS, Moments

PURCHASE, CART, CLICK = "purchase rate", "cart rate", "click rate"
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
    day: NDArray[np.int64]  # since 1970, (n_searches,)
    values: Mapping[str, Values]  # of each metric, (n_searches,)

    def __len__(self) -> int:
        return len(self.unit)

    @property
    def n_units(self) -> int:
        """How many units there are."""
        return int(self.unit.max(initial=-1)) + 1

    @property
    def n_days(self) -> int:
        """How many days there are, from the first to the last."""
        return int(np.ptp(self.day)) + 1 if len(self) else 0

    def has(self, metric: str) -> bool:
        """Whether anything of a metric happened; latency and revenue may not be recorded."""
        return metric in self.values and bool((self.values[metric] > 0).any())

    def select(self, chosen: NDArray[np.bool_]) -> Searches:
        """Some of the searches; units are numbered anew."""
        _, unit = np.unique(self.unit[chosen], return_inverse=True)
        values = {name: value[chosen] for name, value in self.values.items()}
        return Searches(unit.astype(np.int64), self.day[chosen], values)

    def moments(self, metric: str) -> Moments:
        """Sums over units of a metric and of searches."""
        x = np.bincount(self.unit, self.values[metric], minlength=self.n_units)
        return Moments.of(x, np.bincount(self.unit, minlength=self.n_units))

    def calibrate(
        self,
        metric: str,
        *,
        runs: int = AA_RUNS,
        planned: float = PLANNED_UNITS,
        seed: int = 0,
    ) -> Calibration:
        """How often halves of the units, which differ in nothing, show a difference."""
        chosen = self
        if self.n_units > _AA_UNITS:
            kept = np.random.default_rng(seed).permutation(self.n_units) < _AA_UNITS
            chosen = self.select(kept[self.unit])
        looks = min(chosen.n_days, _AA_LOOKS)
        look = (chosen.day - chosen.day.min()) * looks // max(chosen.n_days, 1)
        shape = chosen.n_units, looks
        at = chosen.unit * looks + look
        size = shape[0] * shape[1]
        x, y = (
            np.cumsum(np.bincount(at, each, size).reshape(shape), axis=1, dtype=np.float64)
            for each in (chosen.values[metric], np.ones(len(chosen)))
        )
        return calibrate(x, y, runs=runs, planned=planned, seed=seed)


def searches_of(rows: SessionRows) -> Searches:
    """The searches of a log; one of which the log has no row is not among them."""
    number, first = rows.searches()
    values = {}
    for metric, kind in KINDS.items():
        seen = np.zeros(len(first))
        seen[number[rows.is_kind(kind)]] = 1.0
        values[metric] = seen
    return Searches(rows.unit[first], rows.day[first], values)


def independent_searches(events: float, searches: float) -> Moments:
    """As many searches, each of a unit of its own, of which some led to an event."""
    n, x = np.float64(searches), np.float64(events)
    return Moments(*(np.asarray(part) for part in (n, x, n, x, x, n)))
