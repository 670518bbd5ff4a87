"""Columns: which column of a table holds the query, which the product, which the title?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from matchset.data.tables import Table
from matchset.errors import DataError

# None: find the column by its usual names. A name: take that column. False: there is none.
ColumnChoice: TypeAlias = "str | bool | None"

LOG_NAMES: Mapping[str, tuple[str, ...]] = {
    "query": ("query", "search_term", "q", "keywords", "query_text"),
    "product": ("product_id", "sku", "asin", "item_id"),
    "event": ("event", "event_type", "action"),
    "timestamp": ("timestamp", "time", "ts", "date"),
    "count": ("count", "clicks", "quantity"),
}
# Who searched; read only where searches are told apart (`session_rows`).
VISITOR_NAMES: Mapping[str, tuple[str, ...]] = {
    "user": ("user_id", "user", "userid", "customer_id", "client_id", "visitor_id", "visitorid"),
    "session": ("session_id", "session", "sessionid", "visit_id"),
}
CATALOG_NAMES: Mapping[str, tuple[str, ...]] = {
    "product": (*LOG_NAMES["product"], "id"),  # of a log, it may be that of the row
    "title": ("title", "product_title", "product_name", "name"),
    "description": ("description", "product_description"),
}


_MAX_LISTED = 100  # columns in a message


def choose_columns(
    table: Table,
    usual: Mapping[str, tuple[str, ...]],
    choices: Mapping[str, ColumnChoice],
    *,
    required: Sequence[str] = (),
) -> dict[str, str]:
    """Return the column of each role that has one; raise a DataError where a required has none."""
    roles = {}
    for role, names in usual.items():
        is_required = role in required
        column = choose_column(table, role, choices.get(role), names=names, is_required=is_required)
        if column is not None:
            roles[role] = column
        elif is_required:
            raise DataError("must name a column; got False", parameter=role)
    return roles


def choose_column(
    table: Table, role: str, choice: ColumnChoice, *, names: tuple[str, ...], is_required: bool
) -> str | None:
    """Return the column of a role: the one named, or one with a usual name in any case.

    A user can also name a field inside a column by its path, as in request.params.q. A missing or
    ambiguous column is a DataError that lists what the table has.
    """
    if choice is False:
        return None
    by_lower = {column.lower(): column for column in table.columns}
    if isinstance(choice, str):
        is_there = choice in table.columns or choice in table.fields
        found = choice if is_there else by_lower.get(choice.lower())
        if found is None:
            raise DataError(
                f"must name a column; got {choice!r}, but there are {describe_columns(table)}",
                parameter=role,
                **table.location,
            )
        return found
    usual = [by_lower[name] for name in names if name in by_lower]
    if len(usual) > 1 and usual[-1].lower() == "id":  # only where there is no better name
        usual.pop()
    if len(usual) > 1:
        raise DataError(
            f"must say which column to take, {' or '.join(map(repr, usual))}; "
            f"there are {describe_columns(table)}",
            parameter=role,
            **table.location,
        )
    if not usual and is_required:
        raise DataError(
            f"must name a column, as none is called {', '.join(names)}; "
            f"there are {describe_columns(table)}",
            parameter=role,
            **table.location,
        )
    return usual[0] if usual else None


def describe_columns(table: Table) -> str:
    """Return the columns of a table, for messages."""
    names = list(map(repr, table.names))
    if len(names) > _MAX_LISTED:
        names[_MAX_LISTED:] = [f"{len(names) - _MAX_LISTED} more"]
    return f"the columns {', '.join(names)}" if names else "no columns"
