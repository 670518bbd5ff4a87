"""Decision: what should a shop do after an experiment, in words?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from matchset.online.intervals import LEAST_UNITS, Effect
from matchset.online.reading import LEAST_EVENTS, Compared, Preference, Reading
from matchset.online.searches import (
    CART,
    CLICK,
    EMPTY,
    LATENCY,
    LESS_IS_BETTER,
    PURCHASE,
    RATES,
    REVENUE,
)

_WORDS = {
    PURCHASE: ("sells more than", "sells less than"),
    CART: ("fills more carts than", "fills fewer carts than"),
    CLICK: ("gets more clicks than", "gets fewer clicks than"),
    REVENUE: ("earns more than", "earns less than"),
    EMPTY: ("has more searches without results than", "has fewer searches without results than"),
    LATENCY: ("is slower than", "is faster than"),
}
_MOST_MIXED = 0.01  # share of the units that may have seen several arms, by a shared computer
_MOST_UNMATCHED = 0.1  # share of the events that may have the query id of no answer
_DROPPED = {
    "unmatched": "events have a query id without an answer; they do not count",
    "repeated": "events occur twice; they count once",
    "incomplete": "answers lack an arm, a unit or a query id; they do not count",
    "bad_revenue": "purchases have a revenue that is not a number; they count without it",
    "untimed": "answers lack the time they took; they do not count for latency",
    "torn": "files end in an incomplete line; it does not count",
}
_EVENTS = {PURCHASE: "purchases", CART: "products put into carts", CLICK: "clicks"}


def list_decision(reading: Reading) -> list[str]:
    """The headline, then what it is based on."""
    return [_headline(reading), *_facts(reading), *_guard_rails(reading), *list_checks(reading)]


def is_sure(effect: Effect, *, is_final: bool) -> bool:
    """Whether a difference is no chance: at the planned end, or at any time."""
    return effect.is_sure_at_end if is_final else effect.is_sure


def find_faults(reading: Reading) -> list[str]:
    """Why the numbers cannot be believed, if so."""
    faults = []
    if reading.ratio is not None and reading.ratio.is_mismatch:
        units = ", ".join(f"{n:,} in {arm}" for arm, n in reading.ratio.units.items())
        wanted = ", ".join(f"{n:,.0f}" for n in reading.ratio.expected.values())
        faults.append(
            f"the arms have {units}, but their shares give {wanted}; by chance, this happens in "
            f"{_small(reading.ratio.p_value)} of the cases"
        )
    if reading.assignment is not None and reading.assignment.is_wrong:
        check = reading.assignment
        faults.append(
            f"{check.wrong:,} units saw another arm than the one they were assigned to"
            if check.wrong
            else "of the units sent, those of one arm were recorded less often; by chance, this "
            f"happens in {_small(check.p_value)} of the cases"
        )
    if reading.mixed > _MOST_MIXED * reading.units:
        faults.append(
            f"{reading.mixed:,} of {reading.units:,} units saw several arms, more than "
            f"{_MOST_MIXED:.0%}"
        )
    unmatched = reading.dropped.unmatched
    if unmatched > _MOST_UNMATCHED * (unmatched + reading.n_events):
        faults.append(
            f"{unmatched:,} of {unmatched + reading.n_events:,} events have a query id without an "
            f"answer, more than {_MOST_UNMATCHED:.0%}: records are missing, or the events belong "
            "to searches outside the experiment"
        )
    # Few events show fewer differences, which does no harm.
    aa = reading.calibration
    if aa is not None and aa.once > aa.bounds[1]:
        what = (
            "exchanging the arms of these units at random shows a preference"
            if reading.preferences
            else "halves of these units that differ in nothing show a difference"
        )
        faults.append(f"{what} in {aa.once:.1%} of the cases instead of 5 %")
    return faults


def list_checks(reading: Reading) -> list[str]:
    """What was checked, one sentence each."""
    checks = []
    if reading.ratio is not None and not reading.ratio.is_mismatch:
        units = ", ".join(f"{n:,} in {arm}" for arm, n in reading.ratio.units.items())
        checks.append(
            f"Units per arm agree with the shares: {units} (p = {reading.ratio.p_value:.2f})."
        )
    if reading.assignment is not None and not reading.assignment.is_wrong:
        check = reading.assignment
        seen = sum(check.exposed.values())
        checks.append(
            f"Of {check.given:,} units sent, {seen:,} were recorded, each with the arm it was "
            f"assigned to; {check.unknown:,} recorded units were not among them."
        )
    if reading.mixed:
        checks.append(f"{reading.mixed:,} units saw several arms and are left out.")
    if reading.n_strange:
        checks.append(
            f"{reading.n_strange:,} of {reading.n_events:,} events are on products that were not "
            "in the answer; they count for the search, and for no arm's credit."
        )
    for name, said in _DROPPED.items():
        n = getattr(reading.dropped, name)
        if n:
            checks.append(f"{n:,} {said}.")
    aa = reading.calibration
    if aa is not None:
        what = (
            "random exchanges of the arms show a preference"
            if reading.preferences
            else "random halves show a difference"
        )
        checks.append(
            f"A/A test on these units: {aa.once:.1%} of {aa.runs:,} {what} (expected: about 5 %), "
            f"{aa.ever:.1%} ever do in {aa.looks} looks (expected: at most 5 %)."
        )
    return checks


def _headline(reading: Reading) -> str:
    faults = find_faults(reading)
    if faults:
        return f"Do not trust this experiment: {'; '.join(faults)}."
    if reading.preferences:
        return _prefer(reading, reading.preferences[0])
    rows = [row for row in reading.compared if row.metric == reading.decides]
    if not rows:
        return "No verdict: only one arm was recorded, or nothing was clicked."
    return " ".join(_compare(reading, row) for row in rows)


def _compare(reading: Reading, row: Compared) -> str:
    first, what = reading.arms[0], _EVENTS.get(row.metric, row.metric)
    if row.metric in _EVENTS and row.events < LEAST_EVENTS:
        return f"Too early: {row.events:,.0f} {what}; a verdict needs {LEAST_EVENTS}."
    if min(row.units) < LEAST_UNITS:
        units = f"{row.units[0]:,} units in {first}, {row.units[1]:,} in {row.arm}"
        return f"Too early: {units}; a verdict needs {LEAST_UNITS} in each."
    if not is_sure(row.effect, is_final=reading.is_final):
        more, _ = _WORDS[row.metric]
        return f"Not shown: whether {row.arm} {more} {first} is still open."
    better, worse = _WORDS[row.metric]
    if row.effect.value > 0:
        return f"{_answer(row, is_more=True)}: {row.arm} {better} {first}."
    return f"{_answer(row, is_more=False)}: {row.arm} {worse} {first}."


def _answer(row: Compared, *, is_more: bool) -> str:
    return "Yes" if is_more != (row.metric in LESS_IS_BETTER) else "No"


def _prefer(reading: Reading, found: Preference) -> str:
    first, second = reading.arms
    if sum(found.credited) < LEAST_EVENTS:
        what = _EVENTS[found.metric]
        return f"Too early: {sum(found.credited):,.0f} {what} that one arm alone brought."
    if found.units < LEAST_UNITS:
        rule = f"a verdict needs {LEAST_UNITS}"
        return f"Too early: {found.units:,} units chose what one arm alone brought; {rule}."
    if math.isnan(found.effect.low):
        only = second if found.effect.value > 0 else first
        return f"No verdict: only {only} brought anything of its own that customers chose."
    if not is_sure(found.effect, is_final=reading.is_final):
        return f"Not shown: whether customers prefer {second} to {first} is still open."
    if found.effect.value > 0:
        return f"Yes: customers prefer what only {second} brings."
    return f"No: customers prefer what only {first} brings."


def _facts(reading: Reading) -> Iterator[str]:
    for found in reading.preferences:
        a, b = found.credited
        e = found.effect
        yield (
            f"{_EVENTS[found.metric].capitalize()} of what only one arm brought: {a:,.0f} of "
            f"{reading.arms[0]}, {b:,.0f} of {reading.arms[1]}, a share of {0.5 + e.value:.1%} "
            f"({format_range(0.5 + e.low, 0.5 + e.high, '{:.1%}'.format)}; at any time "
            f"{format_range(0.5 + e.always_low, 0.5 + e.always_high, '{:.1%}'.format)})."
        )
    for row in reading.compared:
        if row.metric == reading.decides:
            yield describe_row(reading, row)
    if reading.compared or reading.preferences:
        yield (
            "This is the one planned reading: the first interval decides."
            if reading.is_final
            else "The interval 'at any time' decides: it is valid however often you look."
        )


def describe_row(reading: Reading, row: Compared) -> str:
    """A metric of an arm as a sentence."""

    def write(value: float) -> str:
        return format_value(row.metric, value)

    return (
        f"{row.metric.capitalize()}: {write(row.first)} in {reading.arms[0]}, {write(row.second)} "
        f"in {row.arm}, {format_change(row)}; the difference is "
        f"{format_difference(row)} at any time."
    )


def format_change(row: Compared) -> str:
    """A relative change with its interval for one reading."""
    value, low, high = row.relative
    if math.isnan(value):
        return "change unknown"
    return f"{value:+.1%} ({format_range(low, high, '{:+.1%}'.format)})"


def format_difference(row: Compared) -> str:
    """The interval of the difference that holds at any time; that of shares is in points."""
    low, high = row.effect.always_low, row.effect.always_high
    if row.metric not in RATES or math.isnan(low):
        return format_range(low, high, "{:+.3g}".format)
    return f"{100 * low:+.2f} to {100 * high:+.2f} percentage points"


def format_range(low: float, high: float, write: Callable[[float], str]) -> str:
    """An interval, or that it is not known."""
    return "unknown" if math.isnan(low) else f"{write(low)} to {write(high)}"


def format_value(metric: str, value: float) -> str:
    """A value of a metric: a share in percent, or a number."""
    return f"{value:.2%}" if metric in RATES else f"{value:.3g}"


def _guard_rails(reading: Reading) -> Iterator[str]:
    """Where an arm does harm that the verdict does not count."""
    for row in reading.compared:
        is_worse = row.effect.value > 0
        if row.metric in LESS_IS_BETTER and is_worse and row.effect.is_sure:
            yield f"Beware: {row.arm} {_WORDS[row.metric][0]} {reading.arms[0]}. " + describe_row(
                reading, row
            )


def _small(p_value: float) -> str:
    return "less than a millionth" if p_value < 1e-6 else f"{p_value:.4%}"
