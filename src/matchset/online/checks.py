"""Checks: can the numbers of an experiment be believed at all?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from matchset.evaluate.significance import ALPHA
from matchset.online.intervals import NORMAL, Moments, products_of

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
    strange = sorted(set(units) - set(shares))
    if strange:
        raise ValueError(f"arms must be among {', '.join(shares)}; got {', '.join(strange)}")
    counts = {arm: units.get(arm, 0) for arm in shares}
    total = sum(counts.values())
    expected = {arm: total * share / sum(shares.values()) for arm, share in shares.items()}
    from scipy.stats import chisquare  # 30 MB that a server does not need

    observed, wanted = list(counts.values()), list(expected.values())
    p_value = float(chisquare(observed, wanted).pvalue) if total else 1.0
    return SampleRatio(counts, expected, p_value)


@dataclass(frozen=True, slots=True)
class FalseAlarms:
    """How often random halves of the same units, which differ in nothing, show a difference."""

    share: float  # about 0.05 if the intervals are right
    runs: int

    @property
    def bounds(self) -> tuple[float, float]:
        """Where `share` is in 999 of 1,000 cases if the intervals are right."""
        from scipy.stats import binom

        low, high = binom.interval(0.999, self.runs, ALPHA)
        return float(low) / self.runs, float(high) / self.runs


def count_false_alarms(
    x: ArrayLike, y: ArrayLike, *, runs: int = AA_RUNS, seed: int = 0
) -> FalseAlarms:
    """Assign the units of a log to two arms at random, many times (A/A tests).

    `x` and `y` are the events and searches of each unit, (n_units,).
    """
    parts = products_of(x, y)
    if len(parts) == 0:
        raise ValueError("A/A tests must have units; got none")
    rng, total = np.random.default_rng(seed), parts.sum(axis=0)
    block = max(1, _CELLS // len(parts))
    alarms = 0
    for begin in range(0, runs, block):
        coins = rng.random((min(block, runs - begin), len(parts)), dtype=np.float32) < 0.5
        sums = coins.astype(np.float64) @ parts  # (block, 6)
        first, second = Moments(*(total - sums).T), Moments(*sums.T)
        error = np.sqrt(first.variance + second.variance)
        alarms += int((np.abs(second.rate - first.rate) > _WIDTH * error).sum())
    return FalseAlarms(alarms / runs, runs)


_WIDTH = NORMAL.inv_cdf(1 - ALPHA / 2)
