"""UBI: how is a log read that follows User Behavior Insights, the schema of OpenSearch?"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from matchset.data.columns import describe_columns
from matchset.data.duckdb_session import quote_name, quote_text
from matchset.data.log import Log
from matchset.data.log_reader import read_groups, to_log
from matchset.data.log_rows import find_roles
from matchset.data.nested import is_nested
from matchset.data.tables import Table, TableSource, open_tables
from matchset.errors import DataError, format_path
from matchset.memory import DEFAULT_MEMORY, Memory, limit_memory

logger = logging.getLogger(__name__)

# Field names of the UBI specification 1.3 (the indexes ubi_queries and ubi_events).
_QUERY_ID = "query_id"
_USER_QUERY = "user_query"
_ACTION = "action_name"
_TIMESTAMP = "timestamp"
_OBJECT_ID = "event_attributes.object.object_id"


def read_ubi(
    *,
    queries: TableSource,
    events: TableSource,
    actions: Sequence[str] | None = None,
    strict: bool = False,
    memory: Memory = DEFAULT_MEMORY,
) -> Log:
    """Read a log from UBI's queries and events, joined by their query id.

    Both are sources that `read_log` accepts. Fields may be nested, as in JSON and Parquet, flat
    with dotted names ("event_attributes.object.object_id"), or JSON text in a CSV column. Dumps
    that wrap each document in "_source" work too. The query is `user_query`, the product
    `event_attributes.object.object_id`, the event `action_name`.

    `actions` names the actions to read. Others, such as "login", have no product and would be
    counted as rows without one. A name that does not occur gives a warning. If none occurs, it is a
    DataError. An event whose query is not in `queries` is a row without a query. The specification
    gives a query id one text. If it has several, the smallest is used.
    """
    if isinstance(actions, str):
        raise TypeError(f"actions must be a list of names; got the text {actions!r}")
    with limit_memory(memory):
        both = open_tables(queries, events, is_ordered=strict)
        with both as (connection, (query_tables, event_tables)):
            texts = " UNION ALL ".join(
                f"SELECT {field_of(table, _QUERY_ID)} AS query_id, "
                f"{field_of(table, _USER_QUERY)} AS text FROM {table.sql()}"
                for table in query_tables
            )
            distinct = f"SELECT query_id, min(text) AS text FROM ({texts}) GROUP BY query_id"
            joined = [_join(table, distinct, actions) for table in event_tables]
            roles = [find_roles(table, {}) for table in joined]
            groups = read_groups(connection, roles, strict=strict)
        if actions:
            found = set(groups.columns["event"].texts)
            missing = [name for name in actions if name not in found]
            _check_actions(missing, events, n_actions=len(actions))
        return to_log(groups, name="UBI")


def _check_actions(missing: Sequence[str], events: TableSource, *, n_actions: int) -> None:
    """Report actions that do not occur; `missing` may still occur in rows without a product."""
    if not missing:
        return
    # Read again, and only if needed. A stream can be read only once: nothing is found here then.
    with open_tables(events) as (connection, (tables,)):
        union = " UNION ".join(
            f"SELECT DISTINCT {field_of(table, _ACTION)} AS action FROM {table.sql()}"
            for table in tables
        )
        rows = connection.execute(f"FROM ({union}) WHERE action IS NOT NULL ORDER BY 1").fetchall()
    found = [str(action) for (action,) in rows]
    unknown = [name for name in missing if name not in found]
    error = DataError(
        f"must occur in the events; got {', '.join(map(repr, unknown))}, "
        f"but there are {', '.join(map(repr, found))}",
        parameter="actions",
    )
    if found and len(unknown) == n_actions:
        raise error
    if unknown:
        logger.warning("%s", error)


def _join(events: Table, queries: str, actions: Sequence[str] | None) -> Table:
    """Return a table of log rows: the events with the text of their query."""
    action = field_of(events, _ACTION)
    rows = (
        f"SELECT {field_of(events, _QUERY_ID)} AS query_id, {field_of(events, _OBJECT_ID)} "
        f"AS product_id, {action} AS event, {field_of(events, _TIMESTAMP)} AS timestamp "
        f"FROM {events.sql()}"
    )
    if actions is not None:
        wanted = ", ".join(map(quote_text, actions)) or "NULL"
        rows += f" WHERE {action} IN ({wanted})"
    columns = dict.fromkeys(("query", "product_id", "event", "timestamp"), "VARCHAR")
    return Table(
        columns | {"timestamp": events.columns.get(_TIMESTAMP, "VARCHAR")},
        events.format,
        (),
        f"(SELECT q.text AS query, e.* EXCLUDE (query_id) FROM ({rows}) e "
        f"LEFT JOIN ({queries}) q ON q.query_id = e.query_id)",
        label=f"the events of {_name(events)}",
    )


def _name(table: Table) -> str:
    return format_path(table.files[0]) if table.files else table.label


def field_of(table: Table, path: str) -> str:
    """Return SQL of a field, in any of the forms that a table may hold it in."""
    for full in (path, f"_source.{path}"):
        if full in table.columns:
            return quote_name(full)
        parts = full.split(".")
        for n_outer in range(len(parts) - 1, 0, -1):
            outer, inner = ".".join(parts[:n_outer]), ".".join(parts[n_outer:])
            if outer in table.columns:
                return _inner_field(table, outer, inner)
    short = path.rpartition(".")[2]
    if short in table.columns:
        return quote_name(short)
    raise DataError(
        f"UBI must have the field {path!r}; there are {describe_columns(table)}", **table.location
    )


def _inner_field(table: Table, outer: str, inner: str) -> str:
    column, path = quote_name(outer), quote_text(f"$.{inner}")
    kind = table.columns[outer]
    if is_nested(kind) and kind != "JSON":
        return f"json_extract_string(to_json({column}), {path})"
    return f"if(json_valid({column}), json_extract_string({column}, {path}), NULL)"
