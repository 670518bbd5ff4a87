"""Reading a log: how does a table of raw rows become a Log, and which rows are faulty?"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import NO_DAY, ArrowColumn, read_columns
from matchset.data.columns import LOG_NAMES, ColumnChoice, choose_column
from matchset.data.duckdb_session import (
    DEFAULT_MEMORY_LIMIT,
    explain,
    fetch_row,
    naming_errors,
    quote_name,
    raise_unless_data_error,
)
from matchset.data.grouping import gather
from matchset.data.log import Log, ReadReport, make_log
from matchset.data.sql import count_of, day_of, id_of, text_of
from matchset.data.tables import Table, TableSource, open_tables
from matchset.errors import DataError
from matchset.strings import Strings
from matchset.text import clean_markup, normalize_strings

logger = logging.getLogger(__name__)


class Fault(IntEnum):
    """What is wrong with a row: the first that applies. Named for the role of the column."""

    NONE = 0
    QUERY = 1
    PRODUCT = 2
    COUNT = 3
    TIMESTAMP = 4

    @property
    def role(self) -> str:
        """The column that is at fault."""
        return self.name.lower()


_RULES = {
    Fault.QUERY: "hold a query",
    Fault.PRODUCT: "hold a product id",
    Fault.COUNT: "hold a finite number that is not negative",
    Fault.TIMESTAMP: "hold a date or a time",
}
_IS_KEPT = f"fault IN ({Fault.NONE:d}, {Fault.TIMESTAMP:d})"  # such a row is used, without its time
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # years 1 to 9999
_MAX_EVENTS = 256  # the index of an event is one byte


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

    `query`, `product`, `event`, `timestamp` and `count` name columns. A column that is not named is
    found by its usual names: query, search_term, q, keywords; product_id, sku, asin, item_id;
    event, event_type, action; timestamp, time, ts, date; count, clicks, quantity. `False` means
    that there is none. Without a count, every row counts 1. Times may be dates, timestamps, ISO
    texts or numbers since 1970.

    Rows without a query, a product or a usable count are dropped (NaN and infinity are no product);
    rows whose time cannot be read are kept without a day. `log.report` counts both, and a warning
    sums them up. With `strict`, the first such row is a DataError that names file, row and column;
    rows are then read in order, by one thread. DuckDB uses at most `memory_limit` and
    spills the rest to a temporary folder.
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
        groups = read_groups(connection, log_tables, strict=strict)
    return to_log(groups, name=_name_source(source))


@dataclass(frozen=True, slots=True)
class LogTable:
    """A table and the column of each role in it."""

    table: Table
    roles: Mapping[str, str]  # query, product and perhaps event, timestamp, count

    def select(self, *files: Path) -> str:
        """SQL of the rows of all or some files: the value of each role, and the row's fault.

        The values that can be faulty are there as text too, to be shown in a message.
        """
        table, roles = self.table, self.roles
        event = text_of(table, roles["event"]) if "event" in roles else "NULL"
        day = day_of(table, roles["timestamp"]) if "timestamp" in roles else str(NO_DAY)
        count = count_of(table, roles["count"]) if "count" in roles else "1::DOUBLE"
        shown = ", ".join(
            f"{quote_name(roles[role]) if role in roles else 'NULL'}::VARCHAR AS shown_{role}"
            for role in (fault.role for fault in _RULES)
        )
        is_day = f"day BETWEEN {_FIRST_DAY} AND {_LAST_DAY} OR day = {NO_DAY}"
        return (
            f"SELECT *, (CASE WHEN coalesce(trim(query), '') = '' THEN {Fault.QUERY:d} "
            f"WHEN coalesce(trim(product), '') = '' THEN {Fault.PRODUCT:d} "
            f"WHEN count IS NULL THEN {Fault.COUNT:d} "
            f"WHEN day IS NULL THEN {Fault.TIMESTAMP:d} ELSE {Fault.NONE:d} END)::UTINYINT "
            f"AS fault FROM (SELECT * REPLACE (if({is_day}, day::INTEGER, NULL) AS day) FROM "
            f"(SELECT {text_of(table, roles['query'])} AS query, "
            f"{id_of(table, roles['product'])} AS product, coalesce({event}, '') AS event, "
            f"{day} AS day, {count} AS count, {shown} FROM {table.sql(*files)}))"
        )


@dataclass(frozen=True, slots=True)
class LogGroups:
    """Raw rows, grouped by query, product, event, day and fault; a column per role and more.

    `count` is the sum of the counts, `rows` the number of rows if that differs, `fault` a Fault.
    Rows without a time have the day NO_DAY. Dropped rows have neither query, product nor event.
    """

    columns: dict[str, ArrowColumn]
    normal: Strings  # the normalized form of each distinct query
    report: ReadReport


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


def read_groups(
    connection: duckdb.DuckDBPyConnection, tables: Sequence[LogTable], *, strict: bool
) -> LogGroups:
    """Group the rows of tables; with `strict`, a faulty row is a DataError."""
    columns = _group_tables(connection, tables)
    normal = normalize_strings(columns["query"].texts)
    report = _make_report(columns, normal)
    if strict and not report.is_clean:
        queries = columns["query"].texts
        _refuse_first_fault(connection, tables, queries.take(np.flatnonzero(normal.lengths == 0)))
    return LogGroups(columns, normal, report)


def to_log(groups: LogGroups, *, name: str) -> Log:
    """Make a log of grouped rows; if some were faulty, log a warning that calls it `name`."""
    found, report = groups.columns, groups.report
    queries, products, events = (found[key].texts for key in ("query", "product", "event"))
    if len(events) > _MAX_EVENTS:
        raise DataError(
            f"the event column must hold at most {_MAX_EVENTS} kinds of event; "
            f"got {len(events):,} in {name}, such as {events[0]!r}"
        )
    is_kept = found["query"].values >= 0
    keys = ("query", "product", "event", "day", "count")
    columns = {key: _select(found[key].values, is_kept) for key in keys}
    found.clear()  # at 50 million rows, a second copy of a column is 200 to 400 MB
    _check_sum(columns["count"], name)
    columns["event"] = columns["event"].astype(np.uint8)
    if not report.is_clean:
        logger.warning("%s: %s", name, report)
    return make_log(
        queries=clean_markup(queries),
        normal=groups.normal,
        products=products,
        events=events,
        report=report,
        **columns,
    )


def _group_tables(
    connection: duckdb.DuckDBPyConnection, tables: Sequence[LogTable]
) -> dict[str, ArrowColumn]:
    """The columns of LogGroups."""
    union = " UNION ALL ".join(
        f"SELECT if({_IS_KEPT}, query, NULL) AS query, if({_IS_KEPT}, product, NULL) AS product, "
        f"if({_IS_KEPT}, event, NULL) AS event, if({_IS_KEPT}, coalesce(day, {NO_DAY}), {NO_DAY}) "
        f"AS day, fault, count AS n FROM ({table.select()})"
        for table in tables
    )
    has_count = any("count" in table.roles for table in tables)
    sums = "sum(n) AS count, count(*)::DOUBLE AS rows" if has_count else "count(*)::DOUBLE AS count"
    sql = f"SELECT query, product, event, day, fault, {sums} FROM ({union}) GROUP BY ALL"
    try:
        return read_columns(connection.sql(sql), coded=("query", "product", "event"))
    except (duckdb.Error, RuntimeError) as error:
        raise_unless_data_error(error)
        _blame_file(connection, tables)
        raise DataError(f"a log must be readable; got: {explain(error)}") from error


def _make_report(columns: Mapping[str, ArrowColumn], normal: Strings) -> ReadReport:
    """Count the rows of each fault; a query that normalizes to nothing is none."""
    rows = columns["rows" if "rows" in columns else "count"].values
    fault = columns["fault"].values
    if len(normal) and (normal.lengths == 0).any():
        query = columns["query"].values
        is_blank = gather(normal.lengths == 0, query) & (query >= 0)
        fault = np.where(is_blank, np.uint8(Fault.QUERY), fault)
    counts = {each: int(rows.sum(where=fault == each)) for each in Fault}
    return ReadReport(
        rows=sum(counts.values()),
        without_query=counts[Fault.QUERY],
        without_product=counts[Fault.PRODUCT],
        bad_count=counts[Fault.COUNT],
        bad_timestamp=counts[Fault.TIMESTAMP],
    )


def _refuse_first_fault(
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
    shown = " ".join(f"WHEN {fault:d} THEN shown_{fault.role}" for fault in _RULES)
    found = fetch_row(
        connection,
        f"SELECT number, if({_IS_KEPT} AND list_contains($blank, query), {Fault.QUERY:d}, fault) "
        f"AS first, CASE first {shown} END "
        f"FROM (SELECT row_number() OVER () AS number, * FROM ({rows})) "
        f"WHERE first != {Fault.NONE:d} ORDER BY number LIMIT 1",
        {"blank": blank},
    )
    if found:
        row, fault, value = found[0], Fault(found[1]), found[2]
        column = table.roles.get(fault.role, fault.role)
        location = {"path": path} if path else table.table.location
        raise DataError(f"must {_RULES[fault]}; got {value!r}", row=row, column=column, **location)


def _blame_file(connection: duckdb.DuckDBPyConnection, tables: Sequence[LogTable]) -> None:
    """Raise a DataError for the first file that cannot be read by itself."""
    for table in tables:
        for path in table.table.files:
            with naming_errors(table.table.kind, path=path):
                connection.execute(
                    "SELECT count(*), max(query), max(product), max(event), max(day), max(count) "
                    f"FROM ({table.select(path)})"
                ).fetchall()


def _check_sum(counts: NDArray[np.float64], name: str) -> None:
    """Counts are added up in many ways later, and pairs hold the sums as float32."""
    limit = float(np.finfo(np.float32).max)
    with np.errstate(over="ignore"):
        total = float(counts.sum())
    if not total <= limit:
        raise DataError(f"the counts of {name} must add up to at most {limit:.1e}; got {total}")


def _select(values: NDArray[Any], is_kept: NDArray[np.bool_]) -> NDArray[Any]:
    return values if is_kept.all() else values[is_kept]


def _name_source(source: Any) -> str:
    if isinstance(source, str | os.PathLike):
        return str(source)
    if isinstance(source, list | tuple):
        return f"{len(source)} sources"
    return f"a {type(source).__name__}"
