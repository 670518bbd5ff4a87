"""Columns: which column of a table holds what we look for?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from matchset.data.tables import Table
from matchset.errors import DataError

# None: look for a usual name. A name: take that column. False: take none.
ColumnChoice: TypeAlias = "str | bool | None"

LOG_NAMES: Mapping[str, tuple[str, ...]] = {
    "query": ("query", "search_term", "q", "keywords"),
    "product": ("product_id", "sku", "asin", "item_id"),
    "event": ("event", "event_type", "action"),
    "timestamp": ("timestamp", "time", "ts", "date"),
    "count": ("count", "clicks", "quantity"),
}
CATALOG_NAMES: Mapping[str, tuple[str, ...]] = {
    "product": LOG_NAMES["product"],
    "title": ("title", "product_title", "product_name", "name"),
    "description": ("description", "product_description"),
}


def choose_column(
    table: Table, role: str, choice: ColumnChoice, *, names: tuple[str, ...], is_required: bool
) -> str | None:
    """The column of a role: the one the user named, or the one with a usual name, in any case.

    A missing or ambiguous column is a DataError that lists what the table has.
    """
    if choice is False:
        return None
    by_lower = {column.lower(): column for column in table.columns}
    if isinstance(choice, str):
        found = choice if choice in table.columns else by_lower.get(choice.lower())
        if found is None:
            raise DataError(f"{role}={choice!r} must name a column; got {describe_columns(table)}")
        return found
    usual = [by_lower[name] for name in names if name in by_lower]
    if len(usual) > 1:
        raise DataError(
            f"{role}= must say which column to take, {' or '.join(map(repr, usual))}; "
            f"got {describe_columns(table)}"
        )
    if not usual and is_required:
        raise DataError(
            f"{role}= must name a column where none is called {', '.join(names)}; "
            f"got {describe_columns(table)}"
        )
    return usual[0] if usual else None


def describe_columns(table: Table) -> str:
    """The columns of a table, for messages."""
    return f"{table.name} with the columns {', '.join(map(repr, table.columns)) or '(none)'}"
