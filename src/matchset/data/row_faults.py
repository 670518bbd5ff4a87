"""Row faults: which row of a log is the first at fault, and what should be done about it?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from matchset.data.arrow import NO_DAY
from matchset.data.duckdb_session import fetch_row
from matchset.data.log_rows import MOST_BYTES, LogRows, LogTable
from matchset.data.read_report import Fault
from matchset.data.value_forms import advise_time_format
from matchset.errors import DataError

SHOW_MORE = "{strict=True} stops at the first such row and shows it"
_SHOWN = 80  # characters of a long value that is at fault
_RULES = {
    Fault.QUERY: "hold a query",
    Fault.PRODUCT: "hold a product id",
    Fault.COUNT: "hold a finite number that is not negative",
    Fault.TIMESTAMP: "hold a date or a time",
}
_NAME_THE_FORM = "give their format with {time_format=%d.%m.%Y %H:%M}, or set {timestamp=False}"
_IS_FAULTY = f"first != {Fault.NONE:d}"
_IS_UNREAD_TIME = f"first = {Fault.TIMESTAMP:d} AND trim(shown_timestamp) != ''"
_HAS_COMMA = f"first = {Fault.COUNT:d} AND regexp_matches(shown_count, '[0-9],[0-9]')"
_IS_ALONE = f"(first NOT IN ({Fault.QUERY:d}, {Fault.PRODUCT:d}) OR session IS NULL)"


def refuse_faults(
    connection: duckdb.DuckDBPyConnection,
    tables: Sequence[LogTable],
    rows: LogRows,
    *,
    strict: bool,
) -> None:
    """Raise a DataError if a fault must not be: any with `strict`, else one that leaves nothing.

    Counts with a decimal comma and times that nobody can read are faults of the whole column.
    """
    report = rows.report
    if strict and not report.is_clean:
        blank = rows.texts["query"].take(np.flatnonzero(rows.normal.lengths == 0))
        is_faulty = f"{_IS_FAULTY} AND {_IS_ALONE}" if report.searches else _IS_FAULTY
        _refuse_first(connection, tables, is_faulty, blank=list(blank))
        raise DataError(f"every click must follow a search; got {report}", **_locate(tables[0]))
    if report.bad_count and tables[0].decimal is None:
        _refuse_first(connection, tables, _HAS_COMMA)
    if report.rows and not report.kept:
        rule = f"must have a row that can be used; got {report}"
        raise DataError(rule, advice=SHOW_MORE, **_locate(tables[0]))
    if report.bad_timestamp and not (rows.is_kept & (rows.columns["day"] != NO_DAY)).any():
        _refuse_first(connection, tables, _IS_UNREAD_TIME)


def _refuse_first(
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
    is_blank = f"fault IN ({Fault.NONE:d}, {Fault.TIMESTAMP:d}) AND list_contains($blank, query)"
    for table in tables:
        for path in table.table.files or (None,):
            row = fetch_row(
                connection,
                f"SELECT number, if({is_blank}, {Fault.QUERY:d}, fault) AS first, "
                f"CASE first {shown} END FROM (SELECT row_number() OVER () AS number, * "
                f"FROM ({table.select(*([path] if path else []))})) "
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
    column = table.roles.get(fault.role, fault.role)
    location = _locate(table, path)
    return DataError(f"{rule}; got {value!r}", row=row, column=column, advice=advice, **location)


def _locate(table: LogTable, path: Path | None = None) -> dict[str, Any]:
    return {"path": path} if path else table.table.location
