"""Rows of a log: which are faulty, and how are the others grouped?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path

import duckdb
import numpy as np

from matchset.data.arrow import NO_DAY, ArrowColumn, read_columns
from matchset.data.columns import LOG_NAMES, VISITOR_NAMES, ColumnChoice, choose_columns
from matchset.data.duckdb_session import (
    explain,
    fetch_row,
    naming_errors,
    quote_name,
    raise_unless_data_error,
)
from matchset.data.grouping import gather
from matchset.data.read_report import ReadReport
from matchset.data.sql import count_of, day_of, id_of, is_number, text_of
from matchset.data.tables import FRAME, Table
from matchset.data.value_forms import Decimal, advise_time_format
from matchset.errors import DataError
from matchset.memory import memory_for_tables
from matchset.strings import Strings

MOST_BYTES = 10_000  # of a query, an id or a title
_SHOWN = 80  # characters of a long value that is at fault


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
_NAME_THE_FORM = "give their format with {time_format=%d.%m.%Y %H:%M}, or set {timestamp=False}"
_IS_KEPT = f"fault IN ({Fault.NONE:d}, {Fault.TIMESTAMP:d})"  # such a row is used, without its time
# What `refuse_first` looks for.
IS_FAULTY = f"first != {Fault.NONE:d}"
IS_UNREAD_TIME = f"first = {Fault.TIMESTAMP:d} AND trim(shown_timestamp) != ''"
HAS_COMMA = f"first = {Fault.COUNT:d} AND regexp_matches(shown_count, '[0-9],[0-9]')"
SECONDS = 86_400  # of a day
_GROUP_BYTES = 100  # that DuckDB takes for a row while it groups, if no two rows are alike
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # years 1 to 9999


@dataclass(frozen=True, slots=True)
class LogTable:
    """A table, the column of each role in it, and how its times and counts are written."""

    table: Table
    roles: Mapping[str, str]  # query, product and perhaps event, timestamp, count, user, session
    time_format: str | None = None
    decimal: Decimal | None = None

    def select(self, *files: Path) -> str:
        """Return SQL of the rows of all or some files: the value of each role, and the fault.

        The values that can be faulty are there as text too, to be shown in a message.
        """
        table, roles = self.table, self.roles
        event = text_of(table, roles["event"]) if "event" in roles else "NULL"
        day, count = str(NO_DAY), "1::DOUBLE"
        if "timestamp" in roles:
            day = day_of(table, roles["timestamp"], self.time_format)
        if "count" in roles:
            count = count_of(table, roles["count"], self.decimal)
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
            f"(SELECT {_if_short(text_of(table, roles['query']))} AS query, "
            f"{_if_short(id_of(table, roles['product']))} AS product, "
            f"coalesce({event}, '') AS event, {day} AS day, {count} AS count, "
            f"{self._visitor()}{shown} FROM {table.sql(*files)}))"
        )

    def _visitor(self) -> str:
        """Return SQL of who searched and when, to the second, where a role says who."""
        who = [role for role in VISITOR_NAMES if role in self.roles]
        if not who:
            return ""
        texts = "".join(f"{text_of(self.table, self.roles[role])} AS {role}, " for role in who)
        if "timestamp" not in self.roles:
            return texts
        column = self.roles["timestamp"]
        second = day_of(self.table, column, self.time_format, per_day=SECONDS)
        return f"{texts}{second} AS second, "


def _if_short(text: str) -> str:
    return f"if(strlen({text}) > {MOST_BYTES}, NULL, {text})"


def find_roles(
    table: Table,
    choices: Mapping[str, ColumnChoice],
    *,
    time_format: str | None = None,
    decimal: Decimal | None = None,
) -> LogTable:
    """Find the columns of a log in a table."""
    roles = choose_columns(table, LOG_NAMES, choices, required=("query", "product"))
    return LogTable(table, roles, time_format, decimal)


def group_rows_of(
    connection: duckdb.DuckDBPyConnection, tables: Sequence[LogTable]
) -> dict[str, ArrowColumn]:
    """Read the columns of `LogGroups`; of too many rows, each is a group of its own."""
    union = " UNION ALL ".join(
        f"SELECT if({_IS_KEPT}, query, NULL) AS query, if({_IS_KEPT}, product, NULL) AS product, "
        f"if({_IS_KEPT}, event, NULL) AS event, if({_IS_KEPT}, coalesce(day, {NO_DAY}), {NO_DAY}) "
        f"AS day, fault, count AS n FROM ({table.select()})"
        for table in tables
    )
    has_count = any("count" in table.roles for table in tables)
    sums = "sum(n) AS count, count(*)::DOUBLE AS rows" if has_count else "count(*)::DOUBLE AS count"
    grouped = f"SELECT query, product, event, day, fault, {sums} FROM ({union}) GROUP BY ALL"
    try:
        if not _is_too_large(connection, tables):
            return _read(connection, tables, grouped)
    except MemoryError:
        if not all(table.table.files for table in tables):  # a stream is read once
            raise
    single = "SELECT query, product, event, day, fault::INTEGER AS fault, n AS count"
    columns = _read(connection, tables, f"{single} FROM ({union})")
    n_rows = np.broadcast_to(np.float64(1), len(columns["query"].values))
    return {**columns, "rows": replace(columns["count"], values=n_rows)}


def _is_too_large(connection: duckdb.DuckDBPyConnection, tables: Sequence[LogTable]) -> bool:
    """Return whether grouping needs more than DuckDB's memory, as far as files tell."""
    files = [table.table for table in tables if table.table.format == "Parquet"]
    try:
        found = [fetch_row(connection, f"SELECT count(*) FROM {table.sql()}") for table in files]
    except duckdb.Error:  # reading says what is wrong
        return False
    n_rows = sum(int(row[0]) for row in found if row)
    return _GROUP_BYTES * n_rows > memory_for_tables()


def _read(
    connection: duckdb.DuckDBPyConnection, tables: Sequence[LogTable], sql: str
) -> dict[str, ArrowColumn]:
    try:
        return read_columns(connection.sql(sql), coded=("query", "product", "event"))
    except (duckdb.Error, RuntimeError) as error:
        raise_unless_data_error(error)
        _blame_file(connection, tables)
        raise DataError(f"a log must be readable; got: {explain(error)}") from error


def make_report(columns: Mapping[str, ArrowColumn], normal: Strings) -> ReadReport:
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


def keep_texts(connection: duckdb.DuckDBPyConnection, table: LogTable) -> LogTable:
    """Copy a frame whose values may be faulty: a stream opens once, and an error looks again."""
    kinds = {role: table.table.type_of(column) for role, column in table.roles.items()}
    may_fail = "VARCHAR" in (kinds.get("count"), kinds.get("timestamp"))
    may_fail |= is_number(kinds.get("timestamp", ""))  # it may be a year, or a day of Excel's
    if table.table.format != FRAME or not may_fail:
        return table
    columns = ", ".join(map(quote_name, dict.fromkeys(table.roles.values())))
    ordered = "QUALIFY row_number() OVER () > 0"  # by one thread, so that errors can name rows
    connection.execute(f"CREATE TABLE kept AS SELECT {columns} FROM {table.table.sql()} {ordered}")
    return replace(table, table=replace(table.table, reader="kept", fields={}))


def refuse_first(
    connection: duckdb.DuckDBPyConnection,
    tables: Sequence[LogTable],
    condition: str,
    *,
    blank: Sequence[str] = (),
) -> None:
    """Raise a DataError for the first row of which a condition holds; `blank` queries are none.

    DuckDB numbers rows in the order of a file, even where it reads without keeping an order.
    """
    shown = " ".join(f"WHEN {fault:d} THEN shown_{fault.role}" for fault in _RULES)
    for table in tables:
        for path in table.table.files or (None,):
            rows = table.select(path) if path else table.select()
            row = fetch_row(
                connection,
                f"SELECT number, if({_IS_KEPT} AND list_contains($blank, query), "
                f"{Fault.QUERY:d}, fault) AS first, CASE first {shown} END "
                f"FROM (SELECT row_number() OVER () AS number, * FROM ({rows})) "
                f"WHERE {condition} ORDER BY number LIMIT 1",
                {"blank": list(blank)},
            )
            if row:
                raise _fault_of(table, path, row[0], Fault(row[1]), row[2])


def _fault_of(
    table: LogTable, path: Path | None, row: int, fault: Fault, value: str | None
) -> DataError:
    """Return the error of a row, with the flag that reads its value if one is known."""
    rule, advice = f"must {_RULES[fault]}", None
    if fault == Fault.TIMESTAMP and table.time_format is not None:
        rule = f"must have the form {table.time_format}"
    elif fault == Fault.TIMESTAMP:
        advice = advise_time_format(value or "") or _NAME_THE_FORM
    elif fault == Fault.COUNT and table.decimal is None and "," in (value or ""):
        advice = "say {decimal=,} for a decimal comma, {decimal=.} if they group thousands"
    if value is not None and len(value.encode()) > MOST_BYTES:
        rule, value = f"{rule} of at most {MOST_BYTES:,} bytes", f"{value[:_SHOWN]}..."
    location = {"path": path} if path else table.table.location
    column = table.roles.get(fault.role, fault.role)
    return DataError(f"{rule}; got {value!r}", row=row, column=column, advice=advice, **location)


def _blame_file(connection: duckdb.DuckDBPyConnection, tables: Sequence[LogTable]) -> None:
    """Raise a DataError for the first file that cannot be read by itself."""
    for table in tables:
        for path in table.table.files:
            with naming_errors(table.table.kind, path=path):
                connection.execute(
                    "SELECT count(*), max(query), max(product), max(event), max(day), max(count) "
                    f"FROM ({table.select(path)})"
                ).fetchall()
