"""UBI: how are queries and events joined that follow User Behavior Insights of OpenSearch?"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from matchset.data.columns import describe_columns
from matchset.data.duckdb_session import quote_name, quote_text
from matchset.data.nested import is_nested
from matchset.data.tables import Table
from matchset.errors import DataError, format_path

# Field names of the UBI specification 1.3 (the indexes ubi_queries and ubi_events).
_QUERY_ID = "query_id"
_USER_QUERY = "user_query"
_ACTION = "action_name"
_TIMESTAMP = "timestamp"
_OBJECT_ID = "event_attributes.object.object_id"


def is_ubi(tables: Sequence[Table]) -> bool:
    """Return whether tables are UBI's queries and UBI's events."""
    return _has(tables, _QUERY_ID, _USER_QUERY) and _has(tables, _QUERY_ID, _ACTION, _OBJECT_ID)


def join_ubi(
    queries: Sequence[Table], events: Sequence[Table], actions: Sequence[str] | None = None
) -> list[Table]:
    """Return tables of log rows: the events, or some `actions`, with the text of their query.

    Tables that are neither queries nor events are passed over if others are.
    """
    queries = [table for table in queries if _has([table], _USER_QUERY)] or queries
    events = [table for table in events if _has([table], _ACTION)] or events
    texts = " UNION ALL ".join(
        f"SELECT {_field_of(table, _QUERY_ID)} AS query_id, "
        f"{_field_of(table, _USER_QUERY)} AS text FROM {table.sql()}"
        for table in queries
    )
    distinct = f"SELECT query_id, min(text) AS text FROM ({texts}) GROUP BY query_id"
    return [_join(table, distinct, actions) for table in events]


def find_actions(connection: duckdb.DuckDBPyConnection, events: Sequence[Table]) -> list[str]:
    """Return the actions that occur, for a message."""
    union = " UNION ".join(
        f"SELECT DISTINCT {_field_of(table, _ACTION)} AS action FROM {table.sql()}"
        for table in events
    )
    rows = connection.execute(f"FROM ({union}) WHERE action IS NOT NULL ORDER BY 1").fetchall()
    return [str(action) for (action,) in rows]


def _join(events: Table, queries: str, actions: Sequence[str] | None) -> Table:
    action = _field_of(events, _ACTION)
    rows = (
        f"SELECT {_field_of(events, _QUERY_ID)} AS query_id, {_field_of(events, _OBJECT_ID)} "
        f"AS product_id, {action} AS event, {_field_of(events, _TIMESTAMP)} AS timestamp "
        f"FROM {events.sql()}"
    )
    if actions is not None:
        wanted = ", ".join(map(quote_text, actions)) or "NULL"
        rows += f" WHERE {action} IN ({wanted})"
    columns = dict.fromkeys(("query", "product_id", "event", "timestamp"), "VARCHAR")
    name = format_path(events.files[0]) if events.files else events.label
    return Table(
        columns | {"timestamp": events.columns.get(_TIMESTAMP, "VARCHAR")},
        events.format,
        (),
        f"(SELECT q.text AS query, e.* EXCLUDE (query_id) FROM ({rows}) e "
        f"LEFT JOIN ({queries}) q ON q.query_id = e.query_id)",
        label=f"the events of {name}",
    )


def _has(tables: Sequence[Table], *paths: str) -> bool:
    """Return whether one of the tables has all of these fields."""
    return any(all(_find_field(table, path) for path in paths) for table in tables)


def _field_of(table: Table, path: str) -> str:
    """Return SQL of a field; raise a DataError if the table does not have it."""
    sql = _find_field(table, path)
    if sql is None:
        rule = f"UBI must have the field {path!r}; there are {describe_columns(table)}"
        raise DataError(rule, **table.location)
    return sql


def _find_field(table: Table, path: str) -> str | None:
    """Return SQL of a field in any of the forms that a table may hold it in, None if it has none.

    It may be a column of its own, by its whole path or its last name, or inside a column.
    """
    for full in (path, f"_source.{path}"):
        if full in table.columns:
            return quote_name(full)
        parts = full.split(".")
        for n_outer in range(len(parts) - 1, 0, -1):
            outer, inner = ".".join(parts[:n_outer]), ".".join(parts[n_outer:])
            if outer in table.columns:
                return _inner_field(table, outer, inner)
    short = path.rpartition(".")[2]
    return quote_name(short) if short in table.columns else None


def _inner_field(table: Table, outer: str, inner: str) -> str:
    column, path = quote_name(outer), quote_text(f"$.{inner}")
    kind = table.columns[outer]
    if is_nested(kind) and kind != "JSON":
        return f"json_extract_string(to_json({column}), {path})"
    return f"if(json_valid({column}), json_extract_string({column}, {path}), NULL)"
