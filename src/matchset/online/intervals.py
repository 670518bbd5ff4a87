"""Intervals: how precise is a rate of an arm, and is the difference between two arms chance?

Customers come back, so searches are not independent of each other: units (users or sessions) are.
A rate is a ratio of two sums over units, and its variance follows by the delta method: Deng,
Knoblich and Lu, "Applying the Delta Method in Metric Analytics", KDD 2018, section 3.

Who looks every day and stops at the first difference is wrong far more often than in 5 % of the
cases. The second interval of an effect stays valid then: the asymptotic confidence sequence of
Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform central limit theory and asymptotic
confidence sequences", Annals of Statistics 2024, theorem 2.2 (the normal mixture of Robbins, 1970).
Its clock counts searches, as units come back and an experiment goes on when no new unit comes.
Later searches of a unit tell less than its first ones, which makes the interval wider and does no
harm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from matchset.evaluate.significance import ALPHA, Values

PLANNED_SEARCHES = 20_000  # of all arms; the always valid interval is narrowest about here
LEAST_UNITS = 20  # of an arm; with fewer, a normal distribution says little
NORMAL = NormalDist()


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Sums over units of x, y, their squares and product; x / y is the rate of the arm.

    Every field is a number or an array of one shape, such as one entry per random half.
    """

    n: Values  # units
    x: Values
    y: Values
    xx: Values
    xy: Values
    yy: Values

    @classmethod
    def of(cls, x: ArrayLike, y: ArrayLike) -> Self:
        """Sum up events x and searches y of each unit, (n_units,)."""
        return cls(*products_of(x, y).sum(axis=0))

    @property
    def rate(self) -> Values:
        """Ratio of the sums; NaN where there is nothing."""
        return _divide(self.x, self.y)

    @property
    def variance(self) -> Values:
        """Variance of the rate by the delta method: that of x - rate * y over units."""
        rate = self.rate
        squares = self.xx - 2 * rate * self.xy + rate**2 * self.yy
        spread = np.maximum(squares, 0.0) * _divide(self.n, self.n - 1.0)
        return _divide(spread, np.square(self.y))


def products_of(x: ArrayLike, y: ArrayLike) -> Values:
    """Return what `Moments` sums up of each unit, (n_units, 6)."""
    events, searches = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    squares = events**2, events * searches, searches**2
    return np.stack([np.ones_like(searches), events, searches, *squares], axis=1)


class Effect(NamedTuple):
    """A difference of two rates, and its two intervals of 95 %; NaN where nothing varies."""

    value: float
    low: float  # for one reading, at the planned end
    high: float
    always_low: float  # for a reading at any time, as often as one likes
    always_high: float

    def is_sure(self, *, at_end: bool = False) -> bool:
        """Return whether 0 is outside the interval for any time, or for one planned reading."""
        low, high = (self.low, self.high) if at_end else (self.always_low, self.always_high)
        return low > 0 or high < 0


def compare_rates(
    first: Moments, second: Moments, *, alpha: float = ALPHA, planned: float = PLANNED_SEARCHES
) -> Effect:
    """Subtract the rate of the first arm from that of the second.

    `planned` is the number of searches that both arms were planned for.
    """
    error = math.sqrt(float(first.variance + second.variance))
    searches = float(first.y + second.y)
    return _make_effect(float(second.rate - first.rate), error, searches, alpha, planned)


def measure_rate(
    moments: Moments,
    *,
    against: float = 0.0,
    searches: float | None = None,
    planned: float = PLANNED_SEARCHES,
) -> Effect:
    """Subtract a number from a rate, such as one half from a preference.

    `searches` are those until now, unless y of the moments counts them.
    """
    error = math.sqrt(float(moments.variance))
    clock = float(moments.y) if searches is None else searches
    return _make_effect(float(moments.rate) - against, error, clock, ALPHA, planned)


def relative_effect(first: Moments, second: Moments, *, alpha: float = ALPHA) -> Values:
    """Return the second rate by the first minus 1, and its interval for one reading, (3,).

    The delta method on the logarithm; NaN unless both rates are positive, and the ends are NaN
    where nothing varies.
    """
    rates = np.array([first.rate, second.rate], dtype=np.float64)
    if not (rates > 0).all():
        return np.full(3, np.nan)
    variances = np.array([first.variance, second.variance], dtype=np.float64)
    error = math.sqrt(float((variances / rates**2).sum())) or math.nan
    step = NORMAL.inv_cdf(1 - alpha / 2) * error
    return np.asarray(rates[1] / rates[0] * np.exp([0.0, -step, step]) - 1.0)


def always_valid_width(
    n: ArrayLike, *, alpha: float = ALPHA, planned: float = PLANNED_SEARCHES
) -> NDArray[Any]:
    """Return standard errors on each side of an estimate after n searches (1.96 for one reading).

    The parameter of the mixture is the paper's choice for the narrowest interval at `planned`
    searches. It must be fixed before the experiment begins.
    """
    if not planned > 0:
        raise ValueError(f"planned must be positive; got {planned}")
    likely = -2.0 * math.log(alpha)
    scaled = np.asarray(n, dtype=np.float64) * (likely + math.log(likely + 1.0)) / planned
    with np.errstate(divide="ignore", invalid="ignore"):
        width = np.sqrt((1.0 + 1.0 / scaled) * (np.log1p(scaled) + likely))
    return np.where(scaled > 0, width, np.inf)


def _make_effect(
    value: float, error: float, searches: float, alpha: float, planned: float
) -> Effect:
    error = error or math.nan  # values that are all the same do not tell how precise they are
    once = NORMAL.inv_cdf(1 - alpha / 2) * error
    always = float(always_valid_width(searches, alpha=alpha, planned=planned)) * error
    return Effect(value, value - once, value + once, value - always, value + always)


def _divide(sums: ArrayLike, totals: ArrayLike) -> Values:
    above, below = np.broadcast_arrays(
        np.asarray(sums, dtype=np.float64), np.asarray(totals, dtype=np.float64)
    )
    result = np.full(above.shape, np.nan)
    np.divide(above, below, out=result, where=below > 0)
    return result
