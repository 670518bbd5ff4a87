"""Decisions: will an experiment with customers find a difference, and did it?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import App, Parameter

from matchset.cli.console import print_error, print_table, print_text
from matchset.cli.flags import READING, LogColumns, choose_column
from matchset.data.events import advise_weights
from matchset.errors import DataError, ParameterError
from matchset.memory import DEFAULT_MEMORY
from matchset.online.decision import format_row, list_decision
from matchset.online.definition import read_experiment
from matchset.online.intervals import PLANNED_SEARCHES, Moments
from matchset.online.outcomes import read_outcomes
from matchset.online.power import DISPUTED, EFFECT, POWER, ExperimentPlan, plan_experiment
from matchset.online.reading import analyze
from matchset.online.searches import events_by_metric, independent_searches, searches_of
from matchset.online.session_rows import SessionRows, read_session_rows

experiment = App(name="experiment", help="Plan an experiment with customers, and read its result.")

WITHOUT_IMPRESSIONS = (
    "The log has no impressions, so searches that led to nothing are missing: rates are too high, "
    "and numbers of searches too low. Give the number of all searches with --searches."
)


@Parameter(name="*", group=READING)
@dataclass(frozen=True, slots=True, kw_only=True)
class VisitColumns(LogColumns):
    """How a log is read row by row, with the customer of each row."""

    user: str | None = None
    "Column of the user; 'none' if the log has no such column."

    def read_rows(self, sources: list[str]) -> SessionRows:
        """Read the rows."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("event", "timestamp", "count", "user", "session"):
            given[name] = choose_column(given[name])
        return read_session_rows(sources[0] if len(sources) == 1 else sources, **given)


VISIT_COLUMNS = VisitColumns()


@experiment.command(name="plan")
def plan_command(
    log: list[str],
    /,
    *,
    effect: float = EFFECT,
    power: float = POWER,
    disputed: float = DISPUTED,
    searches: int | None = None,
    events: dict[str, float] | None = None,
    columns: VisitColumns = VISIT_COLUMNS,
) -> None:
    """Compute how many searches an experiment needs, from the rates of your own log.

    Parameters
    ----------
    log
        Files, globs or folders: Parquet, CSV, TSV or JSON Lines, plain or .gz. It needs a
        column of users or sessions: if customers come back, more searches are needed.
    effect
        The relative effect to detect: 0.02 is 2 % more purchases per search.
    power
        Probability of detecting the effect if it exists.
    disputed
        Share of the purchases that only one of the two arms makes possible, for interleaving;
        `matchset shadow` measures it.
    searches
        Number of searches behind a log without users and sessions, or without impressions. Each
        search then counts as another customer's.
    events
        Events that are counted, each with a weight above 0, such as --events.purchase 1 (default:
        purchases, carts and clicks, by their usual names).
    columns
        Columns of the log.

    """
    options = {"effect": effect, "power": power, "disputed": disputed}
    if searches is not None:
        moments = count_events(log, searches, columns, events)
        show_plans(
            {name: plan_experiment(each, **options) for name, each in moments.items()}, power
        )
        print_text("With --searches, each search counts as another customer's.")
        return
    rows = columns.read_rows(log)
    in_log = searches_of(rows, events)
    metrics = [name for name in in_log.values if in_log.has(name)]
    if not metrics:
        raise no_events(rows.events)
    is_counted = set(events or rows.events)
    if set(rows.events) <= is_counted and not rows.is_kind("impression").any():
        print_error(WITHOUT_IMPRESSIONS)
    days = f" on {in_log.n_days:,} days" if in_log.n_days else ""
    print_text(f"{len(in_log):,} searches of {in_log.n_units:,} {rows.unit_kind}s{days}")
    plans = {name: plan_experiment(in_log.moments(name), **options) for name in metrics}
    show_plans(plans, power)
    if in_log.n_days:
        show_days(plans[metrics[0]], float(in_log.is_dated.sum()) / in_log.n_days)
    aa = in_log.count_false_alarms(metrics[0])
    low, high = aa.bounds
    print_text(
        f"A/A test on this log, {metrics[0]}: {aa.share:.1%} of {aa.runs:,} random halves show a "
        f"difference (expected: {low:.1%} to {high:.1%})."
    )


@experiment.command(name="read")
def read_command(
    events: list[str],
    /,
    *,
    experiment: Path | None = None,
    name: str | None = None,
    control: str | None = None,
    planned: int = PLANNED_SEARCHES,
    final: Annotated[bool, Parameter(negative="")] = False,
    memory: str = DEFAULT_MEMORY,
) -> None:
    """Analyze an experiment: a verdict in words, its numbers and its checks.

    Parameters
    ----------
    events
        Files, globs or folders of JSON Lines in the schema of User Behavior Insights: what the
        server recorded, and the clicks and purchases of your own tracking.
    experiment
        The file that defines the experiment, for the shares and the order of its arms (default:
        equal shares, in the order of their names).
    name
        Name of the experiment, if there are records of several.
    control
        Arm that the others are compared with (default: the first).
    planned
        Planned number of searches in all arms, which `matchset experiment plan` prints. The
        interval that is valid at any time is narrowest there. Choose it before the experiment
        begins.
    final
        This is the one planned reading: decide by the narrower interval.
    memory
        Memory for reading; what needs more goes to a temporary folder.

    """
    definition = None if experiment is None else read_experiment(experiment)
    if definition is not None and name is None:
        name = definition.name
    outcomes = read_outcomes(events, name=name, memory=memory)
    reading = analyze(
        outcomes, experiment=definition, control=control, planned=planned, is_final=final
    )
    headline, *facts = list_decision(reading)
    print_text("\n".join([headline, *(f"  {fact}" for fact in facts)]))
    if reading.compared:
        headers = "", reading.arms[0], "arm", "", "change", "at any time"
        print_table(headers, [(row.metric, *format_row(row)) for row in reading.compared])


def count_events(
    log: list[str], searches: int, columns: LogColumns, events: dict[str, float] | None
) -> dict[str, Moments]:
    """Return the moments of each metric, for a log that does not say who searched."""
    rows = columns.read(log)
    moments = {}
    for metric, names in events_by_metric(rows.events, events).items():
        chosen = [index for index, name in enumerate(rows.events) if name in names]
        n = float(rows.count[np.isin(rows.event, chosen)].sum())
        if n > searches:
            rule = f"must be at least the number of events, {n:,.0f}; got {searches:,}"
            raise ParameterError(rule, parameter="searches")
        if n:
            moments[metric] = independent_searches(n, searches)
    if not moments:
        raise no_events(rows.events)
    return moments


def no_events(names: Sequence[str]) -> DataError:
    """Return the error of a log in which nothing happened that is counted."""
    got = ", ".join(filter(None, names)) or "no events"
    rule = f"a log must hold purchases, carts or clicks to plan with; got {got}"
    return DataError(rule, advice=advise_weights(names))


def show_plans(plans: dict[str, ExperimentPlan], power: float) -> None:
    """Print the plan of each metric, and what to pass to `matchset experiment read`."""
    headers = "", "now", "effect", "A/B, per arm", "read every day", "interleaved, in all"
    rows = []
    for name, plan in plans.items():
        numbers = plan.ab_per_arm, plan.ab_per_arm_always, plan.interleaved
        counts = (f"{number:,.0f}" for number in numbers)
        rows.append((name, f"{plan.rate:.2%}", f"{plan.effect:+.1%}", *counts))
    print_table(headers, rows)
    first = next(iter(plans.values()))
    print_text(
        f"Searches needed to detect the effect with {power:.0%} power. Customers search "
        f"{first.searches_per_unit:.1f} times on average, which needs {first.design_effect:.2f} "
        "times as many searches as independent ones."
    )
    print_text(
        f"Interleaving needs {first.times_fewer:.0f} times fewer, if {first.disputed:.0%} of the "
        "purchases are of products that only one arm brings."
    )
    planned = {"A/B": 2 * first.ab_per_arm_always, "interleaving": first.interleaved_always}
    options = ", ".join(
        f"{name} --planned {n:.0f} ({n / first.searches_per_unit:,.0f} customers)"
        for name, n in planned.items()
    )
    print_text(f"To read every day, give matchset experiment read: {options}.")


def show_days(plan: ExperimentPlan, per_day: float) -> None:
    """Print how long the experiment takes with the traffic of the log."""
    days = {"A/B": 2 * plan.ab_per_arm, "interleaving": plan.interleaved}
    shown = ", ".join(f"{name} {n / per_day:,.0f} days" for name, n in days.items())
    print_text(f"If all {per_day:,.0f} searches of a day take part: {shown}.")
