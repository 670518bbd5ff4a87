"""Logs: what is in a log, and how is it split?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from cyclopts import Parameter

from matchset.cli.console import format_error, print_facts, print_heading, print_text
from matchset.cli.flags import Columns, LogColumns
from matchset.config import DEFAULT_MIN_QUERY_COUNT
from matchset.data.catalog import require_products_of
from matchset.data.log import Log
from matchset.data.positives import positives, relevance
from matchset.data.split import Split, SplitOptions, split_by_query, split_by_time
from matchset.errors import DataError, ParameterError, TargetExistsError

COLUMNS, LOG_COLUMNS = Columns(), LogColumns()
EXAMPLES = 5  # queries to show
DEFAULT_DAYS = SplitOptions().test_days


def describe(
    log: list[str],
    /,
    *,
    catalog: Path | None = None,
    columns: Columns = COLUMNS,
    events: dict[str, float] | None = None,
    test_days: int = DEFAULT_DAYS,
    min_query_count: Annotated[float, Parameter(show_default=True)] = DEFAULT_MIN_QUERY_COUNT,
) -> None:
    """Read a search log and show what is in it and how it splits.

    Parameters
    ----------
    log
        Files, globs or folders: Parquet, CSV, TSV or JSON Lines, plain or .gz.
    catalog
        The products: id, title and attributes.
    columns
        Columns of log and catalog.
    events
        Weight of each event that makes a pair positive, such as --events.purchase 1 (default: by
        the usual names of events).
    test_days
        Days at the end of the log to test on; a log without times is split by query.
    min_query_count
        Do not show queries that led to fewer events.

    """
    read = columns.read(log)
    show_log(read, min_query_count=min_query_count)
    print_heading("Split: training and test")
    try:
        sides = split_by_time(read, test_days=test_days) if read.days else split_by_query(read)
        show_split(sides, events=events)
    except DataError as error:
        print_text(f"not possible: {format_error(error)} (see --test-days and --events)")
    goods = columns.read_catalog(catalog)
    if goods is not None:
        print_heading("Catalog")
        known = float((goods.ids.index_of(read.products) >= 0).mean())
        print_facts({"catalog": goods, "products of the log in it": f"{known:.1%}"})
        require_products_of(read.products, goods)


def split(
    log: list[str],
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    test_days: int | None = None,
    test_from: str | None = None,
    by: Literal["time", "query"] | None = None,
    test_share: float | None = None,
    seed: int = 0,
    events: dict[str, float] | None = None,
    columns: LogColumns = LOG_COLUMNS,
    overwrite: bool = False,
) -> None:
    """Split a log into a training and a test part, to measure a model on data it has not seen.

    By default, a log is split by time if it has times, else by query.

    Parameters
    ----------
    log
        Files, globs or folders: Parquet, CSV, TSV or JSON Lines, plain or .gz.
    out
        Folder for train.parquet and test.parquet.
    test_days
        Days at the end of the log to test on (default: 30).
    test_from
        First day to test on, such as 2026-10-01.
    by
        What to split by; by query, no query is in both parts.
    test_share
        Share of the queries to test on in a split by query (default: 0.2).
    seed
        Random seed of a split by query.
    events
        Weight of each event that makes a pair positive, such as --events.purchase 1 (default: by
        the usual names of events); it counts in the printed report only.
    columns
        Columns of the log.
    overwrite
        Replace existing files.

    """
    targets = {side: out / f"{side}.parquet" for side in ("train", "test")}
    for target in targets.values():
        if target.exists() and not overwrite:
            raise TargetExistsError(target)
    read = columns.read(log)
    sides = choose_split(read, test_days, test_from, by=by, test_share=test_share, seed=seed)
    if by is None and test_share is None and read.days is None:
        print_text("split by query, as the log has no times")
    show_split(sides, events=events)
    out.mkdir(parents=True, exist_ok=True)
    for side, target in zip(sides, targets.values(), strict=True):
        side.save(target)
    for target in targets.values():
        print_text(target)


def show_log(log: Log, *, min_query_count: float) -> None:
    """Print rows, events, days, and the most frequent queries that may be shown."""
    print_heading("Log")
    counts = log.query_counts()
    shown = log.shown(min_query_count)
    rows: dict[str, object] = {"rows": str(log.report) if log.report.rows else f"{len(log)} rows"}
    rows |= {"queries": len(log.queries), "products": len(log.products)}
    if log.days:
        rows["days"] = f"{log.days[0]} to {log.days[1]}"
    for event, name in enumerate(log.events):
        total = log.count[log.event == event].sum()
        rows[name or "total count"] = f"{total:,.0f}"
    share = np.count_nonzero(shown) / max(1, len(shown))
    rows[f"seen {min_query_count:g} times or more"] = f"{share:.1%} of the queries"
    top = np.argsort(-np.where(shown, counts, -1), kind="stable")[: min(EXAMPLES, shown.sum())]
    rows["most frequent"] = "; ".join(log.spellings.take(top))
    print_facts(rows)


def show_split(sides: Split, *, events: Mapping[str, float] | None = None) -> None:
    """Print what the paper reports about its data."""
    train = positives(sides.train, events=events)
    test = relevance(sides.test) if events is None else positives(sides.test, events=events)
    print_text(sides.report(train=train, test=test))


def choose_split(
    log: Log,
    test_days: int | None,
    test_from: str | None,
    *,
    by: str | None,
    test_share: float | None,
    seed: int,
) -> Split:
    """Split a log as the options ask, if they fit together."""
    of_time = [f"--test-days {test_days}"] * (test_days is not None)
    of_time += [f"--test-from {test_from}"] * (test_from is not None)
    if of_time and (by == "query" or test_share is not None):
        raise ValueError(f"a split by query takes no days; got {of_time[0]}")
    if by == "time" and test_share is not None:
        rule = f"is for a split by query; got {test_share} with --by time"
        raise ParameterError(rule, parameter="test_share")
    is_by_query = by == "query" or test_share is not None
    if is_by_query or (by is None and not of_time and log.days is None):
        if test_share is None:  # the test of `matchset compare`
            return SplitOptions(split="query").divide(log, seed=seed)
        return split_by_query(log, test_share=test_share, seed=seed)
    days = test_days if of_time else DEFAULT_DAYS
    return split_by_time(log, test_from=test_from, test_days=days)
