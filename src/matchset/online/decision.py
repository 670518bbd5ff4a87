"""Decision: what should a shop do after an experiment, in words?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from matchset.online.intervals import LEAST_UNITS
from matchset.online.reading import Compared, Preference, Reading
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

_LEAST_EVENTS = 20  # of the metric that decides; with fewer, a normal distribution says little
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
    "malformed": "lines are incomplete; they do not count",
}
_EVENTS = {PURCHASE: "purchases", CART: "products put into carts", CLICK: "clicks"}


def list_decision(reading: Reading) -> list[str]:
    """Return the headline, then what it is based on."""
    facts = [*_list_facts(reading), *_list_guard_rails(reading), *_list_checks(reading)]
    return [_write_headline(reading), *facts]


def find_faults(reading: Reading) -> list[str]:
    """Return why the numbers cannot be believed, if so."""
    faults = []
    if reading.ratio is not None and reading.ratio.is_mismatch:
        units = ", ".join(f"{n:,} in {arm}" for arm, n in reading.ratio.units.items())
        wanted = ", ".join(f"{n:,.0f}" for n in reading.ratio.expected.values())
        p = reading.ratio.p_value
        chance = "less than a millionth" if p < 1e-6 else f"{p:.4%}"
        faults.append(
            f"the arms have {units}, but their shares give {wanted}; by chance, this happens in "
            f"{chance} of the cases"
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
    if (
        reading.false_alarms is not None
        and reading.false_alarms.share > (reading.false_alarms.bounds[1])
    ):
        faults.append(
            "halves of these units that differ in nothing show a difference in "
            f"{reading.false_alarms.share:.1%} of the cases instead of 5 %"
        )
    return faults


def _list_checks(reading: Reading) -> Iterator[str]:
    """Yield what was checked, one sentence each."""
    if reading.ratio is not None and not reading.ratio.is_mismatch:
        units = ", ".join(f"{n:,} in {arm}" for arm, n in reading.ratio.units.items())
        yield f"Units per arm agree with the shares: {units} (p = {reading.ratio.p_value:.2f})."
    if reading.mixed:
        yield f"{reading.mixed:,} units saw several arms and are left out."
    if reading.n_strange:
        yield (
            f"{reading.n_strange:,} of {reading.n_events:,} events are on products that were not "
            "in the answer; they count for the search, and for no arm's credit."
        )
    for name, meaning in _DROPPED.items():
        if n := getattr(reading.dropped, name):
            yield f"{n:,} {meaning}."
    if reading.false_alarms is not None:
        yield (
            f"A/A test on these units: {reading.false_alarms.share:.1%} of "
            f"{reading.false_alarms.runs:,} random halves show a difference (expected: about 5 %)."
        )


def _write_headline(reading: Reading) -> str:
    if faults := find_faults(reading):
        return f"Do not trust this experiment: {'; '.join(faults)}."
    if reading.preferences:
        return _judge_preference(reading, reading.preferences[0])
    rows = [row for row in reading.compared if row.metric == reading.decides]
    if not rows:
        return "No verdict: only one arm was recorded, or nothing was clicked."
    return " ".join(_judge(reading, row) for row in rows)


def _judge(reading: Reading, row: Compared) -> str:
    first, more_and_less = reading.arms[0], _WORDS[row.metric]
    if row.metric in _EVENTS and row.events < _LEAST_EVENTS:
        events = f"{row.events:,.0f} {_EVENTS[row.metric]}"
        return f"Too early: {events}; a verdict needs {_LEAST_EVENTS}."
    if min(row.units) < LEAST_UNITS:
        units = f"{row.units[0]:,} units in {first}, {row.units[1]:,} in {row.arm}"
        return f"Too early: {units}; a verdict needs {LEAST_UNITS} in each."
    if not row.effect.is_sure(at_end=reading.is_final):
        return f"Not shown: whether {row.arm} {more_and_less[0]} {first} is still open."
    is_more = row.effect.value > 0
    answer = "Yes" if is_more != (row.metric in LESS_IS_BETTER) else "No"
    return f"{answer}: {row.arm} {more_and_less[not is_more]} {first}."


def _judge_preference(reading: Reading, preference: Preference) -> str:
    first, second = reading.arms
    effect, n_credited = preference.effect, sum(preference.credited)
    if n_credited < _LEAST_EVENTS:
        events = f"{n_credited:,.0f} {_EVENTS[preference.metric]}"
        return f"Too early: {events} that one arm alone brought."
    if preference.units < LEAST_UNITS:
        units = f"{preference.units:,} units chose what one arm alone brought"
        return f"Too early: {units}; a verdict needs {LEAST_UNITS}."
    if math.isnan(effect.low):
        only = second if effect.value > 0 else first
        return f"No verdict: only {only} brought anything of its own that customers chose."
    if not effect.is_sure(at_end=reading.is_final):
        return f"Not shown: whether customers prefer {second} to {first} is still open."
    if effect.value > 0:
        return f"Yes: customers prefer what only {second} brings."
    return f"No: customers prefer what only {first} brings."


def _list_facts(reading: Reading) -> Iterator[str]:
    for preference in reading.preferences:
        a, b = preference.credited
        value, low, high, always_low, always_high = (0.5 + each for each in preference.effect)
        once = _write_range(low, high, "{:.1%}".format)
        always = _write_range(always_low, always_high, "{:.1%}".format)
        yield (
            f"{_EVENTS[preference.metric].capitalize()} of what only one arm brought: {a:,.0f} of "
            f"{reading.arms[0]}, {b:,.0f} of {reading.arms[1]}, a share of {value:.1%} ({once}; "
            f"at any time {always})."
        )
    yield from (
        _describe(reading, row) for row in reading.compared if row.metric == reading.decides
    )
    if reading.compared or reading.preferences:
        yield (
            "This is the one planned reading: the first interval decides."
            if reading.is_final
            else "The interval 'at any time' decides: it is valid however often you look."
        )


def _list_guard_rails(reading: Reading) -> Iterator[str]:
    """Yield where an arm does harm that the verdict does not count."""
    for row in reading.compared:
        if row.metric in LESS_IS_BETTER and row.effect.value > 0 and row.effect.is_sure():
            worse = f"{row.arm} {_WORDS[row.metric][0]} {reading.arms[0]}"
            yield f"Beware: {worse}. {_describe(reading, row)}"


def _describe(reading: Reading, row: Compared) -> str:
    """Return a metric of an arm as a sentence."""
    first, arm, second, change, difference = format_row(row)
    return (
        f"{row.metric.capitalize()}: {first} in {reading.arms[0]}, {second} in {arm}, {change}; "
        f"the difference is {difference} at any time."
    )


def format_row(row: Compared) -> tuple[str, str, str, str, str]:
    """Return a metric as cells: first arm, name of the arm, its value, change and difference."""
    write: Callable[[float], str] = ("{:.2%}" if row.metric in RATES else "{:.3g}").format
    value, low, high = row.relative
    change = f"{value:+.1%} ({_write_range(low, high, '{:+.1%}'.format)})"
    low, high = row.effect.always_low, row.effect.always_high
    difference = _write_range(low, high, "{:+.3g}".format)
    if row.metric in RATES and not math.isnan(low):
        difference = f"{100 * low:+.2f} to {100 * high:+.2f} percentage points"
    is_known = not math.isnan(value)
    return (
        write(row.first),
        row.arm,
        write(row.second),
        change if is_known else "change unknown",
        difference,
    )


def _write_range(low: float, high: float, write: Callable[[float], str]) -> str:
    return "unknown" if math.isnan(low) else f"{write(low)} to {write(high)}"
