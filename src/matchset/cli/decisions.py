"""Decisions: will an experiment with customers find a difference, and did it?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.table import Table

from matchset.cli.console import output, print_error, print_text
from matchset.cli.flags import LogColumns, VisitColumns
from matchset.data.events import advise_weights
from matchset.errors import DataError, ParameterError
from matchset.lab.report.experiment_page import format_compared, write_reading
from matchset.memory import DEFAULT_MEMORY
from matchset.online.decision import list_decision
from matchset.online.definition import read_experiment
from matchset.online.intervals import PLANNED_SEARCHES, Moments
from matchset.online.outcomes import read_outcomes
from matchset.online.power import DISPUTED, EFFECT, POWER, ExperimentPlan, plan_experiment
from matchset.online.reading import Reading, analyze
from matchset.online.searches import Searches, count_by, independent_searches, searches_of

experiment = App(name="experiment", help="Plan an experiment with customers, and read its result.")

WITHOUT_IMPRESSIONS = (
    "The log has no impressions, so searches that led to nothing are missing: rates are too high, "
    "and numbers of searches too low. Give the number of all searches with --searches."
)


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
        plans = {name: plan_experiment(each, **options) for name, each in moments.items()}
        show_plans(plans, power)
        print_text("With --searches, each search counts as another customer's.")
        return
    rows = columns.read_rows(log)
    found = searches_of(rows, events)
    metrics = [name for name in found.values if found.has(name)]
    if not metrics:
        raise no_events(rows.events)
    has_more = set(rows.events) > set(events or rows.events) or rows.is_kind("impression").any()
    if not has_more:
        print_error(WITHOUT_IMPRESSIONS)
    plans = {name: plan_experiment(found.moments(name), **options) for name in metrics}
    days = f" on {found.n_days:,} days" if found.n_days else ""
    print_text(f"{len(found):,} searches of {found.n_units:,} {rows.unit_kind}s{days}")
    show_plans(plans, power)
    if found.n_days:
        show_days(next(iter(plans.values())), float(found.is_dated.sum()) / found.n_days)
    show_calibration(found, metrics[0])


@experiment.command(name="read")
def read_command(
    events: list[str],
    /,
    *,
    experiment: Path | None = None,
    name: str | None = None,
    control: str | None = None,
    units: Path | None = None,
    planned: int = PLANNED_SEARCHES,
    final: Annotated[bool, Parameter(negative="")] = False,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    memory: str = DEFAULT_MEMORY,
) -> None:
    """Analyze an experiment: a verdict in words, its numbers and its checks.

    Parameters
    ----------
    events
        Files, globs or folders of records: those that the server wrote, and the clicks and
        purchases of your own tracking in the same schema (User Behavior Insights). If a folder
        has .jsonl files, only those are read.
    experiment
        The file that defines the experiment, for the shares and the order of its arms (default:
        equal shares, in the order of their names).
    name
        Name of the experiment, if there are records of several.
    control
        Arm that the others are compared with (default: the first).
    units
        File with every unit that your shop sent, one per line: checks that each saw the arm that
        it was assigned to, and that no arm lost units. Needs --experiment.
    planned
        Planned number of searches in all arms, which `matchset experiment plan` prints. The
        interval that is valid at any time is narrowest there. Choose it before the experiment
        begins.
    final
        This is the one planned reading: decide by the narrower interval.
    out
        File for the report, a web page such as report.html.
    memory
        Memory for reading; what needs more goes to a temporary folder.

    """
    defined = None if experiment is None else read_experiment(experiment)
    chosen = defined.name if defined is not None and name is None else name
    source = events[0] if len(events) == 1 else events
    reading = analyze(
        read_outcomes(source, name=chosen, memory=memory),
        experiment=defined,
        control=control,
        units=None if units is None else [*filter(None, units.read_text("utf-8").splitlines())],
        planned=planned,
        is_final=final,
    )
    headline, *facts = list_decision(reading)
    print_text("\n".join([headline, *(f"  {fact}" for fact in facts)]))
    show_compared(reading)
    if out is not None:
        print_text(f"report: {write_reading(reading, out)}")


def show_compared(reading: Reading) -> None:
    """Print every metric of every arm."""
    if not reading.compared:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for title in ("", reading.arms[0], "arm", "", "change", "at any time"):
        table.add_column(title, justify="left" if title in ("", "arm") else "right")
    for row in reading.compared:
        table.add_row(row.metric, *format_compared(row))
    output.print(table)


def count_events(
    log: list[str], searches: int, columns: LogColumns, events: dict[str, float] | None
) -> dict[str, Moments]:
    """Moments of each metric, for a log that does not say who searched."""
    read = columns.read(log)
    found = {}
    for metric, names in count_by(read.events, events).items():
        chosen = [index for index, name in enumerate(read.events) if name in names]
        n = float(sum(read.count[read.event == index].sum() for index in chosen))
        if n > searches:
            rule = f"must be at least the number of events, {n:,.0f}; got {searches:,}"
            raise ParameterError(rule, parameter="searches")
        if n:
            found[metric] = independent_searches(n, searches)
    if not found:
        raise no_events(read.events)
    return found


def no_events(names: Sequence[str]) -> DataError:
    """The error of a log in which nothing happened that is counted."""
    got = ", ".join(filter(None, names)) or "no events"
    rule = f"a log must hold purchases, carts or clicks to plan with; got {got}"
    return DataError(rule, advice=advise_weights(names))


def show_plans(plans: dict[str, ExperimentPlan], power: float) -> None:
    """Print the plan of each metric."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("")
    for name in ("now", "effect", "A/B, per arm", "read every day", "interleaved, in all"):
        table.add_column(name, justify="right")
    for name, plan in plans.items():
        numbers = plan.ab_per_arm, plan.ab_per_arm_always, plan.interleaved
        table.add_row(
            name, f"{plan.rate:.2%}", f"{plan.effect:+.1%}", *(f"{n:,.0f}" for n in numbers)
        )
    output.print(table)
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
    show_planned(first)


def show_planned(plan: ExperimentPlan) -> None:
    """Print what to pass to `matchset experiment read`, and how many customers that are."""
    wanted = {"A/B": 2 * plan.ab_per_arm_always, "interleaving": plan.interleaved_always}
    shown = ", ".join(
        f"{name} --planned {n:.0f} ({n / plan.searches_per_unit:,.0f} customers)"
        for name, n in wanted.items()
    )
    print_text(f"To read every day, give matchset experiment read: {shown}.")


def show_days(plan: ExperimentPlan, per_day: float) -> None:
    """Print how long the experiment takes with the traffic of the log."""
    days = {"A/B": 2 * plan.ab_per_arm, "interleaving": plan.interleaved}
    shown = ", ".join(f"{name} {n / per_day:,.0f} days" for name, n in days.items())
    print_text(f"If all {per_day:,.0f} searches of a day take part: {shown}.")


def show_calibration(found: Searches, metric: str) -> None:
    """Print how often this log shows differences where there are none."""
    aa = found.calibrate(metric)
    low, high = aa.bounds
    print_text(
        f"A/A test on this log, {metric}: {aa.once:.1%} of {aa.runs:,} random halves show a "
        f"difference (expected: {low:.1%} to {high:.1%}). In {aa.looks} looks, with intervals that "
        f"are valid at any time, {aa.ever:.1%} ever do (expected: at most 5 %)."
    )
