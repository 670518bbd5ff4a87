"""Power: how many searches does an experiment need to find an effect?

A/B: the usual normal approximation for two means. The first has the variance of a unit (user or
session) as the log has it; that of the second follows from its rate. Interleaving: a customer sees
products of both arms at once, and a purchase is credited to an arm only if the other one did not
bring the product. With a rate p of purchases per search, of which a share s is disputed in this
way, one search adds p * s to the variance of the difference of credits, where an A/B test of two
arms has 4 * p * (1 - p). So interleaving needs s / (4 * (1 - p)) of its searches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from matchset.errors import DataError, ParameterError
from matchset.evaluate.significance import ALPHA
from matchset.online.intervals import NORMAL, Moments, always_valid_width

POWER = 0.8  # the usual chance to find an effect that is there
EFFECT = 0.02  # relative: 2 % more purchases per search
DISPUTED = 0.2  # share of the purchases that only one arm's match set holds


@dataclass(frozen=True, slots=True)
class ExperimentPlan:
    """How many searches an experiment needs; an arm has half of those of an A/B test."""

    rate: float  # events per search
    effect: float  # the relative effect to find
    searches_per_unit: float
    design_effect: float  # variance of the rate by that of independent searches
    ab_per_arm: float  # searches, read once at the end
    ab_per_arm_always: float  # if it is read every day with the interval that allows it
    interleaved: float  # searches in all, read once at the end
    disputed: float

    @property
    def times_fewer(self) -> float:
        """How many times fewer searches interleaving needs in all."""
        return 2 * self.ab_per_arm / self.interleaved

    @property
    def interleaved_always(self) -> float:
        """Searches in all, if an interleaved experiment is read every day."""
        return self.interleaved * self.ab_per_arm_always / self.ab_per_arm


def plan_experiment(
    moments: Moments, *, effect: float = EFFECT, disputed: float = DISPUTED, power: float = POWER
) -> ExperimentPlan:
    """Plan by the rate of a log; x of the moments are events of a unit, y its searches."""
    _check_options(effect, disputed, power)
    units, searches, rate = float(moments.n), float(moments.y), float(moments.rate)
    if units < 2 or not rate > 0:
        rule = "a plan needs at least two units and one event"
        raise DataError(f"{rule}; got {units:,.0f} units and {float(moments.x):,.0f} events")
    changed = rate * (1.0 + effect)
    if changed <= 0 or rate <= 1 < changed:
        raise ParameterError(
            f"must give a rate between 0 and 1, from {rate:.2%} now; got {effect:g}, which is "
            f"{effect:+,.0%} (0.05 means 5 %)",
            parameter="effect",
        )
    per_search = float(moments.variance) * searches  # variance of the rate, times searches
    design = per_search / (rate * (1.0 - rate) if rate < 1 else rate)
    second = design * (changed * (1.0 - changed) if rate < 1 else changed)
    at_power = NORMAL.inv_cdf(power)
    once = NORMAL.inv_cdf(1 - ALPHA / 2) + at_power
    # The interval that allows peeking, at its planned end; who stops before needs less.
    always = float(always_valid_width(1.0, planned=1.0)) + at_power
    per_arm = (per_search + second) / (rate * effect) ** 2
    return ExperimentPlan(
        rate=rate,
        effect=effect,
        searches_per_unit=searches / units,
        design_effect=design,
        ab_per_arm=once**2 * per_arm,
        ab_per_arm_always=always**2 * per_arm,
        interleaved=once**2 * design * rate * disputed / (rate * effect) ** 2,
        disputed=disputed,
    )


def _check_options(effect: float, disputed: float, power: float) -> None:
    if not 0 < abs(effect) < math.inf:
        raise ParameterError(f"must be a number other than 0; got {effect:g}", parameter="effect")
    if not 0 < disputed <= 1:
        rule = f"must be above 0 and at most 1; got {disputed:g}"
        raise ParameterError(rule, parameter="disputed")
    if not 0 < power < 1:
        raise ParameterError(f"must be above 0 and below 1; got {power:g}", parameter="power")
