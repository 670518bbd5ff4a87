"""Columns: which column of a table holds the query, which the product, which the title?"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from matchset.data.nested import is_nested
from matchset.data.tables import Table
from matchset.errors import DataError, InputError

# None: find the column by its usual names. A name: take that column. False: there is none.
ColumnChoice: TypeAlias = "str | bool | None"

LOG_NAMES: Mapping[str, tuple[str, ...]] = {
    "query": ("query", "search_term", "q", "keywords", "query_text"),
    "product": ("product_id", "sku", "asin", "item_id"),
    "event": ("event", "event_name", "event_type", "action"),
    "timestamp": ("timestamp", "time", "ts", "date", "event_timestamp", "event_date"),
    "count": ("count", "clicks", "quantity"),
}
# Who searched: tells searches apart, and joins clicks to them.
VISITOR_NAMES: Mapping[str, tuple[str, ...]] = {
    "user": ("user_id", "user", "userid", "customer_id", "client_id", "visitor_id", "visitorid"),
    "session": ("session_id", "session", "sessionid", "visit_id"),
}
CATALOG_NAMES: Mapping[str, tuple[str, ...]] = {
    "product": (*LOG_NAMES["product"], "id"),  # of a log, it may be that of the row
    "title": ("title", "product_title", "product_name", "name"),
    "description": ("description", "product_description"),
}
_LAST_CHOICES = ("id", "event_date")  # taken only where there is no better name: GA4 has both times
_MAX_LISTED = 100  # columns in a message
logger = logging.getLogger(__name__)


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
    ambiguous column is a DataError that lists what the table has. A column of objects that no user
    named is ignored, with a warning.
    """

    def refuse(rule: str) -> DataError:
        rule = f"{rule} there are {describe_columns(table)}"
        return DataError(rule, parameter=role, **table.location)

    if choice is False:
        return None
    by_lower = {column.lower(): column for column in table.columns}
    if isinstance(choice, str):
        if choice in table.columns or choice in table.fields:
            return choice
        if choice.lower() not in by_lower:
            raise refuse(f"must name a column; got {choice!r}, but")
        return by_lower[choice.lower()]
    usual = [by_lower[name] for name in names if name in by_lower]
    if len(usual) > 1 and usual[-1].lower() in _LAST_CHOICES:
        usual.pop()
    if len(usual) > 1:
        raise refuse(f"must say which column to take, {' or '.join(map(repr, usual))};")
    if not usual and is_required:
        raise refuse(f"must name a column, as none is called {', '.join(names)};")
    if usual and not is_required and is_nested(table.type_of(usual[0])):
        inside = next((path for path in table.fields if path.startswith(f"{usual[0]}.")), None)
        advice = None if inside is None else f"name a field of it, such as {{{role}={inside}}}"
        rule = "holds objects or lists, so it is ignored"
        logger.warning("%s", InputError(rule, column=usual[0], advice=advice, **table.location))
        return None
    return usual[0] if usual else None


def describe_columns(table: Table) -> str:
    """Return the columns of a table, for messages."""
    names = list(map(repr, table.names))
    if len(names) > _MAX_LISTED:
        names[_MAX_LISTED:] = [f"{len(names) - _MAX_LISTED} more"]
    return f"the columns {', '.join(names)}" if names else "no columns"
