"""Scan: which raw rows does a log have, and which of them are faulty?"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import ArrowColumn, read_columns
from matchset.data.duckdb_session import (
    DEFAULT_MEMORY_LIMIT,
    explain,
    fetch_row,
    naming_errors,
    quote_name,
    refuse_small_memory,
)
from matchset.data.log import NO_DAY, Log, ReadReport, make_log
from matchset.data.sql import count_of, day_of, text_of
from matchset.data.tables import (
    LOG_NAMES,
    ColumnChoice,
    Table,
    TableSource,
    choose_column,
    open_tables,
)
from matchset.errors import DataError
from matchset.strings import Strings
from matchset.text import normalize_strings

# What can be wrong with a row, in the order in which it is looked for, and what would be right.
FAULTS = {
    "query": "hold a query",
    "product": "hold a product id",
    "count": "hold a finite number that is not negative",
    "timestamp": "hold a date or a time",  # the only fault that keeps the row
}
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # years 1 to 9999


@dataclass(frozen=True, slots=True)
class LogTable:
    """A table and the column of each role in it."""

    table: Table
    roles: Mapping[str, str]  # query, product and perhaps event, timestamp, count

    def select(self, *files: Path) -> str:
        """SQL of the rows of all or some files, with the fault's number in each row, 0 for none.

        Each role also has its value as text, to be shown in a message.
        """
        table, roles = self.table, self.roles
        event = text_of(table, roles["event"]) if "event" in roles else "NULL"
        day = day_of(table, roles["timestamp"]) if "timestamp" in roles else str(NO_DAY)
        count = count_of(table, roles["count"]) if "count" in roles else "1::DOUBLE"
        shown = ", ".join(
            f"{quote_name(roles[role]) if role in roles else 'NULL'}::VARCHAR AS shown_{role}"
            for role in FAULTS
        )
        is_day = f"day BETWEEN {_FIRST_DAY} AND {_LAST_DAY} OR day = {NO_DAY}"
        return (
            "SELECT *, CASE WHEN coalesce(trim(query), '') = '' THEN 1 "
            "WHEN coalesce(trim(product), '') = '' THEN 2 WHEN count IS NULL THEN 3 "
            "WHEN day IS NULL THEN 4 ELSE 0 END AS fault "
            f"FROM (SELECT * REPLACE (if({is_day}, day::INTEGER, NULL) AS day) FROM "
            f"(SELECT {text_of(table, roles['query'])} AS query, "
            f"{text_of(table, roles['product'])} AS product, coalesce({event}, '') AS event, "
            f"{day} AS day, {count} AS count, {shown} FROM {table.sql(*files)}))"
        )


def find_roles(table: Table, choices: Mapping[str, ColumnChoice]) -> LogTable:
    """Find the columns of a log in a table."""
    roles = {}
    for role, names in LOG_NAMES.items():
        is_required = role in ("query", "product")
        column = choose_column(table, role, choices.get(role), names=names, is_required=is_required)
        if column is not None:
            roles[role] = column
        elif is_required:
            raise DataError("must name a column; got False", parameter=role)
    return LogTable(table, roles)


def group_tables(
    connection: duckdb.DuckDBPyConnection, tables: Sequence[LogTable]
) -> dict[str, ArrowColumn]:
    """Group the raw rows by query, product, event and day: their count and, if it differs, number.

    A time that is not understood gives a null day, a table without times NO_DAY. Dropped rows come
    as groups without a query, whose day is the number of their fault.
    """
    kept = "fault IN (0, 4)"
    union = " UNION ALL ".join(
        f"SELECT if({kept}, query, NULL) AS query, if({kept}, product, NULL) AS product, "
        f"if({kept}, event, NULL) AS event, if({kept}, day, fault::INTEGER) AS day, "
        f"count AS n FROM ({table.select()})"
        for table in tables
    )
    has_count = any("count" in table.roles for table in tables)
    sums = "sum(n) AS count, count(*)::DOUBLE AS rows" if has_count else "count(*)::DOUBLE AS count"
    sql = f"SELECT query, product, event, day, {sums} FROM ({union}) GROUP BY ALL"
    try:
        return read_columns(connection.sql(sql), coded=("query", "product", "event"))
    except (duckdb.Error, RuntimeError) as error:
        refuse_small_memory(error)
        _blame_file(connection, tables)
        raise DataError(f"a log must be readable; got: {explain(error)}") from error


def refuse_first_fault(
    connection: duckdb.DuckDBPyConnection, tables: Sequence[LogTable], blank: Strings
) -> None:
    """Raise a DataError for the first row with a fault or a `blank` query; rows must be ordered."""
    for table in tables:
        for path in table.table.files or (None,):
            _refuse_in(connection, table, path, list(blank))


def _refuse_in(
    connection: duckdb.DuckDBPyConnection, table: LogTable, path: Path | None, blank: list[str]
) -> None:
    rows = table.select(path) if path else table.select()
    found = fetch_row(
        connection,
        "SELECT place, if(fault IN (0, 4) AND list_contains($blank, query), 1, fault) AS first, "
        "CASE first WHEN 1 THEN shown_query WHEN 2 THEN shown_product WHEN 3 THEN shown_count "
        "ELSE shown_timestamp END "
        f"FROM (SELECT row_number() OVER () AS place, * FROM ({rows})) "
        "WHERE first > 0 ORDER BY place LIMIT 1",
        {"blank": blank},
    )
    if found:
        place, fault, value = found
        role, rule = list(FAULTS.items())[fault - 1]
        location = {"path": path} if path else table.table.location
        column = table.roles.get(role, role)
        raise DataError(f"must {rule}; got {value!r}", column=column, row=place, **location)


def _blame_file(connection: duckdb.DuckDBPyConnection, tables: Sequence[LogTable]) -> None:
    """Raise a DataError for the first file that cannot be read by itself."""
    for table in tables:
        for path in table.table.files:
            with naming_errors(table.table.format, path=path):
                connection.execute(
                    "SELECT count(*), max(query), max(product), max(event), max(day), max(count) "
                    f"FROM ({table.select(path)})"
                ).fetchall()


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
