"""Reading: which arm of an experiment sells more, and can the answer be believed?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.errors import DataError
from matchset.evaluate.significance import ALPHA
from matchset.online.assignment import assign, hide_unit
from matchset.online.checks import (
    MISMATCH,
    Calibration,
    SampleRatio,
    check_sample_ratio,
    compare_exposure,
)
from matchset.online.definition import INTERLEAVED, Experiment
from matchset.online.intervals import (
    PLANNED_UNITS,
    Effect,
    Moments,
    compare_rates,
    measure_rate,
    relative_effect,
)
from matchset.online.outcomes import Outcomes
from matchset.online.searches import KINDS, METRICS, Searches

LEAST_EVENTS = 20  # of the metric that decides; with fewer, a normal distribution says little


@dataclass(frozen=True, slots=True)
class Compared:
    """A metric of an arm beside the first arm."""

    metric: str
    arm: str
    first: float  # rate of the first arm
    second: float
    effect: Effect
    relative: tuple[float, float, float]  # value, low and high for one reading
    events: float  # sum of both arms


@dataclass(frozen=True, slots=True)
class Preference:
    """What customers chose of the products that only one of two interleaved arms brought."""

    metric: str
    credited: tuple[float, float]  # to the first and the second arm
    effect: Effect  # share of the second arm, minus one half


@dataclass(frozen=True, slots=True)
class AssignmentCheck:
    """Whether units saw the arm that they were assigned to, and as many of each arm."""

    given: int  # units that the shop says it sent
    exposed: Mapping[str, int]  # of them, recorded, by assigned arm
    wrong: int  # with a record of another arm than the assigned one
    unknown: int  # recorded, and not among the given units
    p_value: float  # chance that arms lose units as differently as they did

    @property
    def is_wrong(self) -> bool:
        """Whether units saw another arm, or those of one arm were lost."""
        return self.wrong > 0 or self.p_value < MISMATCH


@dataclass(frozen=True, slots=True)
class Reading:
    """What an experiment shows."""

    experiment: str
    arms: tuple[str, ...]  # the first is what the others are compared with
    searches: Mapping[str, int]
    days: int
    compared: tuple[Compared, ...]
    preferences: tuple[Preference, ...]  # of an interleaved experiment
    ratio: SampleRatio | None  # none where every unit sees both arms
    assignment: AssignmentCheck | None  # none unless the units are given
    calibration: Calibration
    units: int  # in all
    mixed: int  # of them, that saw several arms; they are left out
    n_events: int
    n_strange: int  # events on products that were not in the answer
    is_final: bool  # whether this is the one planned reading
    planned: float
    decides: str  # the metric of the verdict


def analyze(
    outcomes: Outcomes,
    *,
    experiment: Experiment | None = None,
    control: str | None = None,
    units: Sequence[str] | None = None,
    planned: float = PLANNED_UNITS,
    is_final: bool = False,
    seed: int = 0,
) -> Reading:
    """Compare the arms of an experiment with the first of its definition, or with `control`.

    `units` are all that the shop has sent, to check assignment against exposure; this needs the
    definition. `planned` is the number of units that the experiment was planned for.
    """
    if experiment is not None and experiment.name != outcomes.experiment:
        rule = f"must define the recorded experiment {outcomes.experiment!r}"
        raise DataError(f"{rule}; got {experiment.name!r}", parameter="experiment")
    shares, arms = _order_arms(outcomes, experiment, control)
    is_mixed = find_mixed(outcomes)
    kept = ~is_mixed[outcomes.searches.unit]
    found = outcomes.searches.select(kept)
    arm = outcomes.arm[kept]
    side = {name: arm == outcomes.arms.index(name) for name in arms if name in outcomes.arms}
    parts = {name: found.select(mask) for name, mask in side.items()}
    metrics = [metric for metric in METRICS if found.has(metric)]
    decides = next(iter(metrics), METRICS[0])
    preferences = _prefer(outcomes, planned) if outcomes.is_interleaved else ()
    return Reading(
        experiment=outcomes.experiment,
        arms=arms,
        searches={name: len(part) for name, part in (parts or {INTERLEAVED: found}).items()},
        days=found.n_days,
        compared=tuple(_compare(arms, parts, metrics, planned)),
        preferences=preferences,
        ratio=None
        if outcomes.is_interleaved
        else check_sample_ratio({name: part.n_units for name, part in parts.items()}, shares),
        assignment=None if units is None else check_assignment(outcomes, experiment, units),
        calibration=found.calibrate(decides, planned=planned, seed=seed),
        units=outcomes.searches.n_units,
        mixed=int(is_mixed.sum()),
        n_events=outcomes.n_events,
        n_strange=outcomes.n_strange,
        is_final=is_final,
        planned=planned,
        decides=preferences[0].metric if preferences else decides,
    )


def find_mixed(outcomes: Outcomes) -> NDArray[np.bool_]:
    """Which units saw more than one arm, (n_units,)."""
    unit, n = outcomes.searches.unit, outcomes.searches.n_units
    least, most = np.full(n, np.iinfo(np.int32).max), np.full(n, -1)
    np.minimum.at(least, unit, outcomes.arm)
    np.maximum.at(most, unit, outcomes.arm)
    return np.asarray(least < most)


def check_assignment(
    outcomes: Outcomes, experiment: Experiment | None, units: Sequence[str]
) -> AssignmentCheck:
    """Compare what units were assigned to with what the records say that they saw."""
    if experiment is None:
        raise DataError("needs the definition of the experiment", parameter="units")
    if outcomes.is_interleaved:
        raise DataError("needs an A/B test: every unit sees both arms", parameter="units")
    assigned = {hide_unit(experiment, unit): assign(experiment, unit).name for unit in set(units)}
    place = {name: index for index, name in enumerate(outcomes.arms)}
    # -1 for units that were not given, -2 for an arm that nobody saw.
    right = np.array([place.get(assigned[u], -2) if u in assigned else -1 for u in outcomes.units])
    saw_other = np.zeros(len(right), dtype=np.bool_)
    saw_other[outcomes.searches.unit[outcomes.arm != right[outcomes.searches.unit]]] = True
    names = [arm.name for arm in experiment.arms]
    total = dict.fromkeys(names, 0)
    exposed = dict.fromkeys(names, 0)
    for arm in assigned.values():
        total[arm] += 1
    for unit in outcomes.units:
        if unit in assigned:
            exposed[assigned[unit]] += 1
    return AssignmentCheck(
        given=len(assigned),
        exposed=exposed,
        wrong=int((saw_other & (right != -1)).sum()),
        unknown=int((right == -1).sum()),
        p_value=compare_exposure(total, exposed),
    )


def _order_arms(
    outcomes: Outcomes, experiment: Experiment | None, control: str | None
) -> tuple[dict[str, float], tuple[str, ...]]:
    """The share of each arm, and the arms with the one that others are compared with first."""
    if outcomes.is_interleaved:
        names = ("a", "b") if experiment is None else tuple(arm.name for arm in experiment.arms)
        return {}, names
    shares = dict.fromkeys(outcomes.arms, 1.0 / len(outcomes.arms))
    if experiment is not None:
        shares = {arm.name: arm.share for arm in experiment.arms}
    unknown = [name for name in outcomes.arms if name not in shares]
    if unknown:
        raise DataError(
            f"records must be of the arms {', '.join(shares)}; got {', '.join(unknown)}",
            parameter="experiment",
        )
    first = next(iter(shares)) if control is None else control
    if first not in shares:
        rule = f"must be one of the arms {', '.join(shares)}"
        raise DataError(f"{rule}; got {first!r}", parameter="control")
    return shares, (first, *(name for name in shares if name != first))


def _compare(
    arms: tuple[str, ...], parts: Mapping[str, Searches], metrics: Sequence[str], planned: float
) -> list[Compared]:
    rows = []
    alpha = ALPHA / max(len(arms) - 1, 1)  # Bonferroni's correction for several arms
    for arm in arms[1:]:
        if arms[0] not in parts or arm not in parts:
            continue
        for metric in metrics:
            first, second = (parts[name].moments(metric) for name in (arms[0], arm))
            value, low, high = relative_effect(first, second, alpha=alpha).tolist()
            rows.append(
                Compared(
                    metric=metric,
                    arm=arm,
                    first=float(first.rate),
                    second=float(second.rate),
                    effect=compare_rates(first, second, alpha=alpha, planned=planned),
                    relative=(value, low, high),
                    events=float(first.x + second.x),
                )
            )
    return rows


def _prefer(outcomes: Outcomes, planned: float) -> tuple[Preference, ...]:
    """How credits divide between the two arms, by metric; clustered by unit."""
    unit, n = outcomes.searches.unit, outcomes.searches.n_units
    found = []
    for metric in KINDS:
        first, second = (
            np.bincount(unit, outcomes.credited[metric][:, side], minlength=n) for side in (0, 1)
        )
        came = first + second > 0
        if not came.any():
            continue
        moments = Moments.of(second[came], (first + second)[came])
        effect = measure_rate(moments, against=0.5, planned=planned)
        if math.isnan(effect.low):
            continue
        found.append(Preference(metric, (float(first.sum()), float(second.sum())), effect))
    return tuple(found)
