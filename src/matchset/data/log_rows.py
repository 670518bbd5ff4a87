"""Rows of a log: which values does each row hold, and which rows are faulty?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import NO_DAY, ArrowColumn, read_columns
from matchset.data.columns import VISITOR_NAMES
from matchset.data.duckdb_session import blaming_files, quote_name
from matchset.data.read_report import Fault, ReadReport
from matchset.data.sessions import DAY, NO_TIME, find_searches
from matchset.data.sql import count_of, day_of, id_of, is_number, text_of
from matchset.data.tables import FRAME, Table
from matchset.data.value_forms import Decimal
from matchset.strings import Strings
from matchset.text import normalize_strings

MOST_BYTES = 10_000  # of a query, an id, an event or a title
_CODED = ("query", "product", "event", *VISITOR_NAMES)
_LONG_EVENT = f"'an event must have at most {MOST_BYTES:,} bytes'"
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # years 1 to 9999


@dataclass(frozen=True, slots=True)
class LogTable:
    """A table, the column of each role in it, and how its times and counts are written."""

    table: Table
    roles: Mapping[str, str]  # query, product, and perhaps event, timestamp, count, user, session
    time_format: str | None = None
    decimal: Decimal | None = None

    def select(self, *files: Path) -> str:
        """Return SQL of the rows of all or some files: the value of each role, and the fault.

        The values that can be faulty are there as text too, to be shown in a message.
        """
        table, roles = self.table, self.roles
        query = product = "NULL::VARCHAR"
        if "query" in roles:  # one of several tables may have searches or clicks alone
            query = _if_short(text_of(table, roles["query"]))
        if "product" in roles:
            product = _if_short(id_of(table, roles["product"]))
        event, day, time, count = "NULL", str(NO_DAY), f"{NO_TIME}::BIGINT", "1::DOUBLE"
        if "event" in roles:
            event = text_of(table, roles["event"])
            event = f"if(strlen({event}) > {MOST_BYTES}, error({_LONG_EVENT}), {event})"
        if "timestamp" in roles:
            day = day_of(table, roles["timestamp"], self.time_format)
            time = day_of(table, roles["timestamp"], self.time_format, per_day=DAY)
        if "count" in roles:
            count = count_of(table, roles["count"], self.decimal)
        shown = ", ".join(
            f"{quote_name(roles[role]) if role in roles else 'NULL'}::VARCHAR AS shown_{role}"
            for role in (fault.role for fault in Fault if fault != Fault.NONE)
        )
        visitor = ", ".join(
            f"{text_of(table, roles[role]) if role in roles else 'NULL::VARCHAR'} AS {role}"
            for role in VISITOR_NAMES
        )
        is_day = f"day BETWEEN {_FIRST_DAY} AND {_LAST_DAY} OR day = {NO_DAY}"
        return (
            f"SELECT *, (CASE WHEN coalesce(trim(query), '') = '' THEN {Fault.QUERY:d} "
            f"WHEN coalesce(trim(product), '') = '' THEN {Fault.PRODUCT:d} "
            f"WHEN count IS NULL THEN {Fault.COUNT:d} "
            f"WHEN day IS NULL THEN {Fault.TIMESTAMP:d} ELSE {Fault.NONE:d} END)::UTINYINT "
            f"AS fault FROM (SELECT * REPLACE (if({is_day}, day::INTEGER, NULL) AS day, "
            f"if({is_day}, time, NULL) AS time) FROM "
            f"(SELECT {query} AS query, {product} AS product, "
            f"coalesce({event}, '') AS event, {day} AS day, {time} AS time, {count} AS count, "
            f"{visitor}, {shown} FROM {table.sql(*files)}))"
        )


def _if_short(text: str) -> str:
    return f"if(strlen({text}) > {MOST_BYTES}, NULL, {text})"


@dataclass(frozen=True, slots=True)
class LogRows:
    """The rows of a log in the order of reading; texts are coded, -1 for none.

    Columns are query, product, event, day (NO_DAY without a time), count and fault, a `Fault`. Rows
    that were read for sessions also have user, session and time, in milliseconds since 1970.
    """

    columns: dict[str, NDArray[Any]]  # each (n_rows,)
    texts: Mapping[str, Strings]  # the distinct ones of each coded column
    normal: Strings  # the normalized form of each distinct query
    report: ReadReport

    @property
    def is_kept(self) -> NDArray[np.bool_]:
        """Which rows can be used, (n_rows,)."""
        fault = self.columns["fault"]
        return np.asarray((fault == Fault.NONE) | (fault == Fault.TIMESTAMP))


def read_rows(
    connection: duckdb.DuckDBPyConnection,
    tables: Sequence[LogTable],
    *,
    by_session: bool = False,
) -> LogRows:
    """Read the rows of tables, with who made them if they are needed `by_session`.

    A row with a product and no query is a click on what the session searched for before, if rows
    with a query and no product say what that was.
    """
    rows = _read(connection, tables, by_session=by_session)
    has_sessions = all({"session", "timestamp"} <= table.roles.keys() for table in tables)
    if has_sessions and rows.report.without_query and rows.report.without_product:
        rows = _join_clicks(rows if by_session else _read(connection, tables, by_session=True))
    return rows


def _read(
    connection: duckdb.DuckDBPyConnection, tables: Sequence[LogTable], *, by_session: bool
) -> LogRows:
    more = ("time", *VISITOR_NAMES) if by_session else ()
    names = ("query", "product", "event", "day", "count", "fault", *more)
    listed = ", ".join(names).replace("day", f"coalesce(day, {NO_DAY}) AS day")
    listed = listed.replace("time", f"coalesce(time, {NO_TIME})::DOUBLE AS time")
    union = " UNION ALL ".join(f"SELECT {listed} FROM ({table.select()})" for table in tables)

    aggregates = ", ".join(f"max({name})" for name in names)
    probes = (
        (table.table.kind, path, f"SELECT count(*), {aggregates} FROM ({table.select(path)})")
        for table in tables
        for path in table.table.files
    )
    with blaming_files(connection, probes):
        columns = read_columns(connection.sql(union), coded=_CODED)
    normal = normalize_strings(columns["query"].texts)
    fault = columns["fault"].values
    if len(normal) and (normal.lengths == 0).any():  # such as "?": no query
        fault = np.where(_is_blank(columns["query"], normal), np.uint8(Fault.QUERY), fault)
    values = {name: column.values for name, column in columns.items()} | {"fault": fault}
    texts = {name: columns[name].texts for name in _CODED if name in columns}
    return LogRows(values, texts, normal, ReadReport.of(fault))


def _is_blank(query: ArrowColumn, normal: Strings) -> NDArray[np.bool_]:
    is_blank: NDArray[np.bool_] = np.append(normal.lengths == 0, np.False_)[query.values]
    return is_blank


def _join_clicks(rows: LogRows) -> LogRows:
    """Give clicks without a query the query that their session searched for before."""
    columns = rows.columns
    fault, query = columns["fault"], columns["query"].copy()
    has_session = (columns["session"] >= 0) & (columns["time"] != NO_TIME)
    is_search = has_session & (fault == Fault.PRODUCT)
    is_click = has_session & (fault == Fault.QUERY) & (columns["product"] >= 0)
    search = find_searches(columns, rows.texts["query"], is_search=is_search, is_click=is_click)
    clicks = np.flatnonzero(is_click)[search >= 0]
    query[clicks] = query[search[search >= 0]]
    fault = fault.copy()
    fault[clicks] = Fault.NONE
    report = ReadReport.of(fault, searches=int(is_search.sum()), joined=len(clicks))
    return replace(rows, columns=columns | {"query": query, "fault": fault}, report=report)


def keep_texts(connection: duckdb.DuckDBPyConnection, table: LogTable) -> LogTable:
    """Copy a frame that may be read again, for a faulty value or sessions: a stream opens once."""
    kinds = {role: table.table.type_of(column) for role, column in table.roles.items()}
    may_fail = "VARCHAR" in (kinds.get("count"), kinds.get("timestamp"))
    may_fail |= is_number(kinds.get("timestamp", ""))  # it may be a year, or a day of Excel's
    if table.table.format != FRAME or not (may_fail or "session" in kinds):
        return table
    columns = ", ".join(map(quote_name, dict.fromkeys(table.roles.values())))
    ordered = "QUALIFY row_number() OVER () > 0"  # by one thread, so that errors can name rows
    connection.execute(f"CREATE TABLE kept AS SELECT {columns} FROM {table.table.sql()} {ordered}")
    return replace(table, table=replace(table.table, reader="kept", fields={}))
