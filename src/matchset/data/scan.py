"""Scan: which raw rows does a log have, and which of them are faulty?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from matchset.data.arrow import ArrowColumn, read_columns
from matchset.data.columns import LOG_NAMES, ColumnChoice, choose_column
from matchset.data.engine import fetch_row, quote_name
from matchset.data.expressions import count_of, day_of, text_of
from matchset.data.faults import explain, naming_errors, refuse_small_memory
from matchset.data.log import NO_DAY
from matchset.data.tables import Table
from matchset.errors import DataError
from matchset.strings import Strings

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
            raise DataError(f"{role} must name a column; got False")
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
        where = repr(str(path)) if path else table.table.name
        column = table.roles.get(role, role)
        raise DataError(f"{where}, row {place}: column {column!r} must {rule}; got {value!r}")


def _blame_file(connection: duckdb.DuckDBPyConnection, tables: Sequence[LogTable]) -> None:
    """Raise a DataError for the first file that cannot be read by itself."""
    for table in tables:
        for path in table.table.files:
            with naming_errors(repr(str(path)), table.table.format):
                connection.execute(
                    "SELECT count(*), max(query), max(product), max(event), max(day), max(count) "
                    f"FROM ({table.select(path)})"
                ).fetchall()
