"""Checks: can the numbers of an experiment be believed at all?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.evaluate.significance import ALPHA, Values
from matchset.online.intervals import NORMAL, PLANNED_SEARCHES, Moments, always_valid_width

MISMATCH = 0.001  # a smaller p-value of the sample ratio is no chance
AA_RUNS = 1_000
_CELLS = 1 << 24  # in a block of random assignments


@dataclass(frozen=True, slots=True)
class SampleRatio:
    """How many units each arm has, and how likely that is with the shares it should have.

    A mismatch means that units were lost or added after the assignment: Fabijan and others,
    "Diagnosing Sample Ratio Mismatch in Online Controlled Experiments", KDD 2019.
    """

    units: Mapping[str, int]
    expected: Mapping[str, float]
    p_value: float

    @property
    def is_mismatch(self) -> bool:
        """Whether the ratio is not due to chance."""
        return self.p_value < MISMATCH


def check_sample_ratio(units: Mapping[str, int], shares: Mapping[str, float]) -> SampleRatio:
    """Test the units of each arm against its share, by chi-square."""
    arms = list(shares)
    strange = sorted(set(units) - set(arms))
    if strange:
        raise ValueError(f"arms must be among {', '.join(arms)}; got {', '.join(strange)}")
    counts = np.array([units.get(arm, 0) for arm in arms], dtype=np.float64)
    parts = np.array([shares[arm] for arm in arms], dtype=np.float64)
    expected = counts.sum() * parts / parts.sum()
    from scipy.stats import chisquare  # 30 MB that a server does not need

    p_value = float(chisquare(counts, expected).pvalue) if counts.sum() else 1.0
    return SampleRatio(
        {arm: int(n) for arm, n in zip(arms, counts, strict=True)},
        dict(zip(arms, expected.tolist(), strict=True)),
        p_value,
    )


def compare_exposure(assigned: Mapping[str, int], exposed: Mapping[str, int]) -> float:
    """Chance that arms lose units as differently as this; chi-square of exposed and lost by arm."""
    seen = np.array([exposed.get(arm, 0) for arm in assigned])
    table = np.stack([seen, np.array([*assigned.values()]) - seen], axis=1)
    table = table[table.sum(axis=1) > 0]
    if len(table) < 2 or (table.sum(axis=0) == 0).any():
        return 1.0
    from scipy.stats import chi2_contingency

    return float(chi2_contingency(table, correction=False).pvalue)


@dataclass(frozen=True, slots=True)
class Calibration:
    """How often experiments without a difference show one."""

    runs: int
    once: float  # share of runs with a difference at the end
    ever: float  # with one in any of the looks, by the interval that allows them
    looks: int

    @property
    def bounds(self) -> tuple[float, float]:
        """Where `once` is in 999 of 1,000 cases if the intervals are right."""
        from scipy.stats import binom

        low, high = binom.interval(0.999, self.runs, ALPHA)
        return float(low) / self.runs, float(high) / self.runs


def calibrate(
    x: Values,
    y: Values,
    *,
    runs: int = AA_RUNS,
    alpha: float = ALPHA,
    planned: float = PLANNED_SEARCHES,
    seed: int = 0,
) -> Calibration:
    """Assign the units of a log to two arms at random, many times: no difference is real.

    `x` and `y` are the events and searches of each unit up to each look, (n_units, n_looks).
    """
    if x.ndim != 2 or x.shape != y.shape or 0 in x.shape:
        raise ValueError(f"x and y must be of one shape (units, looks); got {x.shape}, {y.shape}")
    # A unit that has not come yet is no unit of a look.
    parts = np.concatenate([y > 0, x, y, x**2, x * y, y**2], axis=1).astype(np.float64)
    both = Moments(*np.split(parts.sum(axis=0), 6))
    width = always_valid_width(both.y, alpha=alpha, planned=planned)

    def measure(is_second: Values) -> Values:
        second = Moments(*np.split(is_second @ parts, 6, axis=1))
        return standardize(both - second, second)

    return _repeat(measure, len(x), width, runs=runs, alpha=alpha, seed=seed)


def calibrate_credits(
    first: Values,
    second: Values,
    searches: Values,
    *,
    runs: int = AA_RUNS,
    alpha: float = ALPHA,
    planned: float = PLANNED_SEARCHES,
    seed: int = 0,
) -> Calibration:
    """Exchange the two arms of interleaved units at random, many times: no preference is real.

    `first` and `second` are the credits of each unit up to each look, (n_units, n_looks),
    `searches` those of all units, (n_looks,).
    """
    y = first + second
    as_is, exchanged = (
        np.concatenate([y > 0, x, y, x**2, x * y, y**2], axis=1).astype(np.float64)
        for x in (second, first)
    )
    width = always_valid_width(searches, alpha=alpha, planned=planned)

    def measure(is_exchanged: Values) -> Values:
        sums = as_is.sum(axis=0) + is_exchanged @ (exchanged - as_is)
        moments = Moments(*np.split(sums, 6, axis=1))
        error = np.sqrt(moments.variance)
        distance = np.zeros(np.shape(error))
        np.divide(moments.rate - 0.5, error, out=distance, where=error > 0)
        return distance

    return _repeat(measure, len(y), width, runs=runs, alpha=alpha, seed=seed)


def _repeat(
    measure: Callable[[Values], Values],
    n_units: int,
    width: Values,
    *,
    runs: int,
    alpha: float,
    seed: int,
) -> Calibration:
    """Throw a coin for each unit, many times; `measure` gives standard errors, (size, looks)."""
    rng = np.random.default_rng(seed)
    at_end, ever = np.zeros(runs, np.bool_), np.zeros(runs, np.bool_)
    block = max(1, _CELLS // n_units)
    for begin in range(0, runs, block):
        size = min(block, runs - begin)
        coins = rng.random((size, n_units), dtype=np.float32) < 0.5
        distance = np.abs(measure(coins.astype(np.float64)))
        at_end[begin : begin + size] = distance[:, -1] > NORMAL.inv_cdf(1 - alpha / 2)
        ever[begin : begin + size] = (distance > width).any(axis=1)
    return Calibration(runs, float(at_end.mean()), float(ever.mean()), len(width))


def standardize(first: Moments, second: Moments) -> NDArray[np.float64]:
    """Differences of rates in standard errors; 0 where nothing is known."""
    error = np.sqrt(first.variance + second.variance)
    distance = np.zeros(np.shape(error))
    np.divide(second.rate - first.rate, error, out=distance, where=error > 0)
    return distance
