"""Reading: which arm of an experiment sells more, and can the answer be believed?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.errors import DataError
from matchset.evaluate.significance import ALPHA
from matchset.online.checks import FalseAlarms, SampleRatio, check_sample_ratio
from matchset.online.definition import INTERLEAVED, Experiment
from matchset.online.intervals import (
    PLANNED_SEARCHES,
    Effect,
    Moments,
    compare_rates,
    measure_rate,
    relative_effect,
)
from matchset.online.outcomes import ORIGINS, Dropped, Outcomes
from matchset.online.searches import KINDS, METRICS, Searches


@dataclass(frozen=True, slots=True)
class Compared:
    """A metric of an arm beside the first arm."""

    metric: str
    arm: str
    first: float  # rate of the first arm
    second: float
    units: tuple[int, int]  # of the first arm and of this one
    effect: Effect
    relative: tuple[float, float, float]  # value, low and high for one reading
    events: float  # sum of both arms


@dataclass(frozen=True, slots=True)
class Preference:
    """What customers chose of the products that only one of two interleaved arms brought."""

    metric: str
    credited: tuple[float, float]  # to the first and the second arm
    units: int  # that any credit came from
    effect: Effect  # share of the second arm, minus one half


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
    false_alarms: FalseAlarms | None  # none where every unit sees both arms
    units: int  # in all
    mixed: int  # of them, that saw several arms; they are left out
    n_events: int
    n_strange: int  # events on products that were not in the answer
    dropped: Dropped
    is_final: bool  # whether this is the one planned reading
    decides: str  # the metric of the verdict


def analyze(
    outcomes: Outcomes,
    *,
    experiment: Experiment | None = None,
    control: str | None = None,
    planned: float = PLANNED_SEARCHES,
    is_final: bool = False,
) -> Reading:
    """Compare the arms of an experiment with the first of its definition, or with `control`.

    `planned` is the number of searches, of all arms, that the experiment was planned for.
    """
    if experiment is not None and experiment.name != outcomes.experiment:
        rule = f"must define the recorded experiment {outcomes.experiment!r}"
        raise DataError(f"{rule}; got {experiment.name!r}", parameter="experiment")
    shares = _find_shares(outcomes, experiment)
    arms = _put_first(control, tuple(shares))
    is_mixed = find_mixed(outcomes)
    is_kept = ~is_mixed[outcomes.searches.unit]
    kept, arm = outcomes.searches.select(is_kept), outcomes.arm[is_kept]
    parts = {
        name: kept.select(arm == outcomes.arms.index(name))
        for name in arms
        if name in outcomes.arms
    }
    metrics = [metric for metric in METRICS if kept.has(metric)]
    decides = metrics[0] if metrics else METRICS[0]
    preferences: tuple[Preference, ...] = ()
    ratio = false_alarms = None
    if outcomes.is_interleaved:
        preferences = _prefer(outcomes, list(shares).index(arms[0]), planned)
        decides = preferences[0].metric if preferences else decides
    else:
        ratio = check_sample_ratio({name: part.n_units for name, part in parts.items()}, shares)
        false_alarms = kept.count_false_alarms(decides) if len(kept) else None
    return Reading(
        experiment=outcomes.experiment,
        arms=arms,
        searches={name: len(part) for name, part in (parts or {INTERLEAVED: kept}).items()},
        days=kept.n_days,
        compared=tuple(_compare(arms, parts, metrics, planned)),
        preferences=preferences,
        ratio=ratio,
        false_alarms=false_alarms,
        units=outcomes.searches.n_units,
        mixed=int(is_mixed.sum()),
        n_events=outcomes.n_events,
        n_strange=outcomes.n_strange,
        dropped=outcomes.dropped,
        is_final=is_final,
        decides=decides,
    )


def find_mixed(outcomes: Outcomes) -> NDArray[np.bool_]:
    """Find the units that saw more than one arm, (n_units,)."""
    unit, n = outcomes.searches.unit, outcomes.searches.n_units
    least, most = np.full(n, np.iinfo(np.int32).max), np.full(n, -1)
    np.minimum.at(least, unit, outcomes.arm)
    np.maximum.at(most, unit, outcomes.arm)
    return np.asarray(least < most)


def _find_shares(outcomes: Outcomes, experiment: Experiment | None) -> dict[str, float]:
    """Return the share of each arm, in the order of the definition."""
    if experiment is not None:
        shares = {arm.name: arm.share for arm in experiment.arms}
    else:
        names = ORIGINS if outcomes.is_interleaved else outcomes.arms
        shares = dict.fromkeys(names, 1.0 / len(names))
    unknown = [name for name in outcomes.arms if name not in {*shares, INTERLEAVED}]
    if unknown:
        rule = f"records must be of the arms {', '.join(shares)}; got {', '.join(unknown)}"
        raise DataError(rule, parameter="experiment")
    return shares


def _put_first(control: str | None, names: tuple[str, ...]) -> tuple[str, ...]:
    if control is None:
        return names
    if control not in names:
        rule = f"must be one of the arms {', '.join(names)}"
        raise DataError(f"{rule}; got {control!r}", parameter="control")
    return (control, *(name for name in names if name != control))


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
                    units=(int(first.n), int(second.n)),
                    effect=compare_rates(first, second, alpha=alpha, planned=planned),
                    relative=(value, low, high),
                    events=float(first.x + second.x),
                )
            )
    return rows


def _prefer(outcomes: Outcomes, first_side: int, planned: float) -> tuple[Preference, ...]:
    """Compare the credits of the first and the second arm, by metric; clustered by unit."""
    unit, n = outcomes.searches.unit, outcomes.searches.n_units
    preferences = []
    for metric in KINDS:
        first, second = (
            np.bincount(unit, outcomes.credited[metric][:, side], minlength=n)
            for side in (first_side, 1 - first_side)
        )
        has_credit = first + second > 0
        if not has_credit.any():
            continue
        moments = Moments.of(second[has_credit], (first + second)[has_credit])
        effect = measure_rate(moments, against=0.5, searches=float(len(unit)), planned=planned)
        credited = float(first.sum()), float(second.sum())
        preferences.append(Preference(metric, credited, int(has_credit.sum()), effect))
    return tuple(preferences)
