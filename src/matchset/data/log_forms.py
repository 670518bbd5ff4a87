"""Forms of a log: how are its times and counts written, where they are not of the usual form?

This is looked at only after a reading that could not use some values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import duckdb

from matchset.data.duckdb_session import fetch_row, quote_name
from matchset.data.log_rows import Fault, LogTable
from matchset.data.number_forms import find_number_forms
from matchset.data.read_report import ReadReport, format_examples
from matchset.data.sql import is_number
from matchset.data.tables import FRAME
from matchset.data.time_forms import find_time_forms
from matchset.errors import DataError

_NAME_THE_FORM = "give their format with {time_format=%d.%m.%Y %H:%M}, or set {timestamp=False}"


@dataclass(frozen=True, slots=True)
class LogForms:
    """Tables that say how their times and counts are written, and what to tell the user of it."""

    tables: list[LogTable]
    notes: tuple[str, ...] = ()
    is_changed: bool = False  # so that the rows must be read again


def keep_texts(connection: duckdb.DuckDBPyConnection, table: LogTable) -> LogTable:
    """The same table; a copy if it is a stream, which opens once, and may need another look."""
    may_fail = _is_text(table, "count") or _is_text(table, "timestamp")
    if "timestamp" in table.roles:  # a number may be no time: a year, a day of Excel's
        may_fail |= is_number(table.table.type_of(table.roles["timestamp"]))
    if table.table.format != FRAME or not may_fail:
        return table
    columns = ", ".join(map(quote_name, dict.fromkeys(table.roles.values())))
    connection.execute(f"CREATE TABLE kept AS SELECT {columns} FROM {table.table.sql()}")
    return replace(table, table=replace(table.table, reader="kept", fields={}))


def find_forms(
    connection: duckdb.DuckDBPyConnection, tables: Sequence[LogTable], report: ReadReport
) -> LogForms:
    """Find out how the times and counts are written that could not be used."""
    found, notes = [], []
    for each in tables:
        table = each
        if report.bad_timestamp and table.time_form is None and _is_text(table, "timestamp"):
            table, note = _find_time_form(connection, table)
            notes += note
        if report.bad_count and table.decimal is None and _is_text(table, "count"):
            table, note = _find_decimal(connection, table)
            notes += note
        found.append(table)
    return LogForms(found, tuple(dict.fromkeys(notes)), is_changed=found != list(tables))


def find_examples(
    connection: duckdb.DuckDBPyConnection, tables: Sequence[LogTable], fault: Fault
) -> tuple[str, ...]:
    """Two values that could not be used."""
    shown = f"shown_{fault.role}"
    rows = " UNION ALL ".join(
        f"SELECT {shown} AS v FROM ({table.select()}) WHERE fault = {fault:d} AND trim(v) != ''"
        for table in tables
    )
    found = fetch_row(connection, f"SELECT min(v), max(v) FROM ({rows})") or ()
    return tuple(dict.fromkeys(value for value in found if value is not None))


def check_times(tables: Sequence[LogTable], report: ReadReport, *, n_days: int) -> None:
    """Refuse a log that has times, none of which can be read."""
    if n_days or not report.bad_timestamps or report.bad_timestamp + report.dropped < report.rows:
        return
    table = next(each for each in tables if "timestamp" in each.roles)
    got = format_examples(report.bad_timestamps).removeprefix(", such as ")
    column = table.roles["timestamp"]
    if table.time_form is not None:
        raise DataError(
            f"must have the form {table.time_form.name}; got {got}",
            column=column,
            **table.table.location,
        )
    raise DataError(
        f"must hold times that can be read; got {got}",
        column=column,
        advice=_NAME_THE_FORM,
        **table.table.location,
    )


def _find_time_form(
    connection: duckdb.DuckDBPyConnection, table: LogTable
) -> tuple[LogTable, list[str]]:
    column = table.roles["timestamp"]
    text, rows = f"trim({quote_name(column)})", table.table.sql()
    forms = find_time_forms(connection, text, rows)
    if not forms:
        return table, []
    (example,) = fetch_row(connection, f"SELECT min({text}) FROM {rows} WHERE {text} != ''") or (
        "",
    )
    if len(forms) > 1:
        first, second = (form.formats[0] for form in forms[:2])
        raise DataError(
            f"must say whether the day or the month is first; got {example!r}",
            column=column,
            advice=f"say {{time_format={first}}} or {{time_format={second}}}, with the time if any",
            **table.table.location,
        )
    note = f"column {column!r} is read as {forms[0].name}, as in {example!r}"
    return replace(table, time_form=forms[0]), [note]


def _find_decimal(
    connection: duckdb.DuckDBPyConnection, table: LogTable
) -> tuple[LogTable, list[str]]:
    column = table.roles["count"]
    text, rows = f"trim({quote_name(column)})", table.table.sql()
    (form,) = find_number_forms(connection, [text], rows)
    if form.decimal is None:
        if not form.n_unclear:
            return table, []
        raise DataError(
            f"must say what its commas mean; got {form.unclear!r}",
            column=column,
            advice="say {decimal=,} for a decimal comma, {decimal=.} if they group thousands",
            **table.table.location,
        )
    sign = {",": "a decimal comma", ".": "a decimal point"}[form.decimal]
    note = f"column {column!r} is read with {sign}, as in {form.number!r}"
    return replace(table, decimal=form.decimal), [note]


def _is_text(table: LogTable, role: str) -> bool:
    return role in table.roles and table.table.type_of(table.roles[role]) == "VARCHAR"
