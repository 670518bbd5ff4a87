"""Reading: how does a search log of any format become a Log?"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import ArrowColumn
from matchset.data.columns import ColumnChoice
from matchset.data.engine import DEFAULT_MEMORY_LIMIT
from matchset.data.log import NO_DAY, Log, make_log
from matchset.data.report import ReadReport
from matchset.data.scan import LogTable, find_roles, group_tables, refuse_first_fault
from matchset.data.tables import TableSource, open_tables
from matchset.errors import DataError
from matchset.text import normalize_strings

logger = logging.getLogger(__name__)

_MAX_EVENTS = 256  # the place of an event is one byte


def read_log(
    source: TableSource,
    *,
    query: ColumnChoice = None,
    product: ColumnChoice = None,
    event: ColumnChoice = None,
    timestamp: ColumnChoice = None,
    count: ColumnChoice = None,
    strict: bool = False,
    memory_limit: str = DEFAULT_MEMORY_LIMIT,
) -> Log:
    """Read a search log from files or from a table in memory.

    `source` is a file, a glob, a folder or a list of them (Parquet, CSV, TSV, JSON Lines; the
    last three also with .gz or .zst), or a pandas or polars frame, a pyarrow table, anything
    with `__arrow_c_stream__`.

    `query`, `product`, `event`, `timestamp` and `count` name columns; one that is not given is
    looked for by its usual names (`columns.LOG_NAMES`), `False` says that there is none. Without
    a count, every row counts 1. Times may be dates, timestamps, ISO texts or numbers since 1970.

    Rows without query, product or usable count are dropped, rows whose time is not understood are
    kept without a day; `log.report` counts them and a warning sums them up. With `strict`, the
    first such row is a DataError that names file, row and column; rows are then read in order, by
    one thread. DuckDB holds at most `memory_limit` and writes the rest to a temporary folder.
    """
    choices = {
        "query": query,
        "product": product,
        "event": event,
        "timestamp": timestamp,
        "count": count,
    }
    with open_tables(source, memory_limit=memory_limit, is_ordered=strict) as (connection, tables):
        log_tables = [find_roles(table, choices) for table in tables[0]]
        grouped = read_groups(connection, log_tables, strict=strict)
    return to_log(grouped, name=_name_source(source))


def read_groups(
    connection: duckdb.DuckDBPyConnection, tables: Sequence[LogTable], *, strict: bool
) -> dict[str, ArrowColumn]:
    """Group the rows of tables; with `strict`, a faulty row is a DataError."""
    grouped = group_tables(connection, tables)
    if strict:
        queries = grouped["query"].texts
        blank = queries.take(np.flatnonzero(normalize_strings(queries).lengths == 0))
        if len(blank) or not _count_faults(grouped).is_clean:
            refuse_first_fault(connection, tables, blank)
    return grouped


def to_log(grouped: dict[str, ArrowColumn], *, name: str) -> Log:
    """Make the log of grouped raw rows; if some were faulty, warn, calling the log `name`."""
    report = _count_faults(grouped)
    queries, products, events = (grouped[key].texts for key in ("query", "product", "event"))
    if len(events) > _MAX_EVENTS:
        raise DataError(
            f"the event column must hold at most {_MAX_EVENTS} kinds of event; "
            f"got {len(events):,} in {name}, such as {events[0]!r}"
        )
    day = grouped["day"]
    if day.is_null is not None:
        day.values[day.is_null] = NO_DAY
    kept = grouped["query"].values >= 0
    columns = {key: _select(column.values, kept) for key, column in grouped.items()}
    grouped.clear()  # at 50 million rows, a second copy of a column is 200 to 400 MB
    _check_sum(columns["count"], name)
    rows = columns.pop("rows", columns["count"])
    columns["event"] = columns["event"].astype(np.uint8)
    log = make_log(queries=queries, products=products, events=events, source_rows=rows, **columns)
    without_query = report.without_query + log.report.without_query
    report = replace(report, without_query=without_query)
    if not report.is_clean:
        logger.warning("%s: %s", name, report)
    return replace(log, report=report)


def _count_faults(grouped: dict[str, ArrowColumn]) -> ReadReport:
    """Faulty rows by their first fault; a query that normalises to nothing is not known yet."""
    rows = grouped["rows" if "rows" in grouped else "count"].values
    query, day = grouped["query"], grouped["day"]
    is_dropped = query.values < 0
    dropped_rows, fault = rows[is_dropped], day.values[is_dropped]
    bad_timestamp = 0
    if day.is_null is not None:
        is_undated = np.flatnonzero(day.is_null)
        codes, place = np.unique(query.values[is_undated], return_inverse=True)
        is_blank = normalize_strings(query.texts.take(codes)).lengths == 0
        bad_timestamp = int(rows[is_undated].sum(where=~is_blank[place]))
    return ReadReport(
        rows=int(rows.sum()),
        without_query=int(dropped_rows.sum(where=fault == 1)),
        without_product=int(dropped_rows.sum(where=fault == 2)),
        bad_count=int(dropped_rows.sum(where=fault == 3)),
        bad_timestamp=bad_timestamp,
    )


def _check_sum(counts: NDArray[np.float64], name: str) -> None:
    """Counts are added up in many ways later, and pairs hold the sums as float32."""
    limit = float(np.finfo(np.float32).max)
    with np.errstate(over="ignore"):
        total = float(counts.sum())
    if not total <= limit:
        raise DataError(f"the counts of {name} must add up to at most {limit:.1e}; got {total}")


def _select(values: NDArray[Any], kept: NDArray[np.bool_]) -> NDArray[Any]:
    return values if kept.all() else values[kept]


def _name_source(source: Any) -> str:
    if isinstance(source, str | os.PathLike):
        return str(source)
    if isinstance(source, list | tuple):
        return f"{len(source)} sources"
    return f"a {type(source).__name__}"
