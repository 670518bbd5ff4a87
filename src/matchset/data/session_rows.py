"""Session rows: what did each customer do, search by search?

A `Log` sums up over customers. To tell their searches apart, the rows are read one by one here,
with the user or the session that they belong to.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import NO_DAY, ArrowColumn, read_columns
from matchset.data.columns import VISITOR_NAMES, ColumnChoice, choose_column, describe_columns
from matchset.data.duckdb_session import naming_errors
from matchset.data.events import EventKind, kind_of
from matchset.data.log_reader import read_groups
from matchset.data.log_rows import SECONDS, Fault, LogTable, find_roles
from matchset.data.tables import TableSource, is_frame, open_tables
from matchset.data.value_forms import Decimal, check_decimal, check_time_format
from matchset.errors import DataError
from matchset.memory import DEFAULT_MEMORY, Memory, limit_memory
from matchset.strings import Strings
from matchset.text import normalize_strings

NO_SECOND = int(NO_DAY) * SECONDS  # of a row without a time
_UNKNOWN = -1
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class SessionRows:
    """The rows of a log, each with the visit that it belongs to.

    A visit is a session of a unit, or else what a user did in a day. A unit is what is independent
    of all others: a user, or else a session.
    """

    queries: Strings  # distinct, normalized, (n_queries,)
    products: Strings  # distinct product ids, (n_products,)
    events: tuple[str, ...]
    query: NDArray[np.int32]  # index into `queries`, (n_rows,)
    product: NDArray[np.int32]  # index into `products`, (n_rows,)
    event: NDArray[np.int32]  # index into `events`, (n_rows,)
    unit: NDArray[np.int64]  # number of the unit, from 0, (n_rows,)
    visit: NDArray[np.int64]  # number of the visit, from 0, (n_rows,)
    second: NDArray[np.int64]  # since 1970, NO_SECOND if unknown, (n_rows,)
    count: NDArray[np.float64]  # (n_rows,)
    unit_kind: str  # "user" or "session"

    def __len__(self) -> int:
        return len(self.query)

    @property
    def n_units(self) -> int:
        """How many units there are."""
        return int(self.unit.max(initial=_UNKNOWN)) + 1

    @property
    def day(self) -> NDArray[np.int64]:
        """Days since 1970, NO_DAY if unknown, (n_rows,)."""
        return np.asarray(self.second // SECONDS)

    def is_kind(self, *kinds: EventKind) -> NDArray[np.bool_]:
        """Which rows are events of some kinds, (n_rows,)."""
        return np.array([kind_of(name) in kinds for name in self.events], np.bool_)[self.event]

    def searches(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The number of each row's search, and the first row of each search.

        A search is a query in a visit: a second page or a reload is the same search.
        """
        key = self.visit * max(len(self.queries), 1) + self.query
        _, first, number = np.unique(key, return_index=True, return_inverse=True)
        return number, first

    def began(self) -> NDArray[np.int64]:
        """The second at which each search began, NO_SECOND if unknown, (n_searches,)."""
        number, first = self.searches()
        latest = np.iinfo(np.int64).max
        began = np.full(len(first), latest)
        np.minimum.at(began, number, np.where(self.second == NO_SECOND, latest, self.second))
        return np.where(began == latest, NO_SECOND, began)


def read_session_rows(
    source: TableSource,
    *,
    query: ColumnChoice = None,
    product: ColumnChoice = None,
    event: ColumnChoice = None,
    timestamp: ColumnChoice = None,
    count: ColumnChoice = None,
    user: ColumnChoice = None,
    session: ColumnChoice = None,
    strict: bool = False,
    encoding: str | None = None,
    decimal: Decimal | None = None,
    time_format: str | None = None,
    memory: Memory = DEFAULT_MEMORY,
) -> SessionRows:
    """Read a log row by row; options as for `read_log`, and the columns of user and session.

    Rows without a user and a session are left out, which a warning says. A log that has neither
    column is a DataError.
    """
    choices = {
        "query": query,
        "product": product,
        "event": event,
        "timestamp": timestamp,
        "count": count,
    }
    visitors = {"user": user, "session": session}
    check_decimal(decimal)
    is_ordered = strict or is_frame(source)  # a stream could be read only once
    with limit_memory(memory):
        opened = open_tables(source, is_ordered=is_ordered, encoding=encoding)
        with opened as (connection, (tables,)):
            check_time_format(connection, time_format)
            found = [
                find_roles(table, choices, time_format=time_format, decimal=decimal)
                for table in tables
            ]
            found = [_add_visitors(table, visitors) for table in found]
            groups = read_groups(connection, found, strict=strict)
            columns = _read_rows(connection, groups.tables)
    rows = columns["query"].values
    is_somebody = (columns["user"].values >= 0) | (columns["session"].values >= 0)
    if not is_somebody.all():
        logger.warning(
            "%s of %s rows have neither a user nor a session and are left out",
            f"{int((~is_somebody).sum()):,}",
            f"{len(rows):,}",
        )
    return _to_rows(columns, is_somebody)


def has_visitors(source: TableSource, *, memory: Memory = DEFAULT_MEMORY) -> bool:
    """Whether a log has a column with a usual name of a user or a session."""
    with limit_memory(memory), open_tables(source) as (_, (tables,)):
        names = {name for usual in VISITOR_NAMES.values() for name in usual}
        return all(names & {column.lower() for column in table.columns} for table in tables)


def _add_visitors(table: LogTable, choices: dict[str, ColumnChoice]) -> LogTable:
    roles = dict(table.roles)
    for role, names in VISITOR_NAMES.items():
        column = choose_column(table.table, role, choices[role], names=names, is_required=False)
        if column is not None:
            roles[role] = column
    if not roles.keys() & VISITOR_NAMES.keys():
        raise DataError(
            "a log must have a column of users or sessions to tell searches apart; "
            f"there are {describe_columns(table.table)}",
            advice="name one with {user=COLUMN} or {session=COLUMN}",
            **table.table.location,
        )
    return replace(table, roles=roles)


def _read_rows(
    connection: duckdb.DuckDBPyConnection, tables: Sequence[LogTable]
) -> dict[str, ArrowColumn]:
    parts = []
    for table in tables:
        user, session = (role if role in table.roles else "NULL" for role in VISITOR_NAMES)
        second = f"if(fault = {Fault.NONE:d}, second, {NO_SECOND})"
        if "timestamp" not in table.roles:
            second = str(NO_SECOND)
        parts.append(
            f"SELECT query, product, event, count, {second}::DOUBLE AS second, "
            f"{user}::VARCHAR AS user, {session}::VARCHAR AS session FROM ({table.select()}) "
            f"WHERE fault IN ({Fault.NONE:d}, {Fault.TIMESTAMP:d})"
        )
    sql = " UNION ALL ".join(parts)
    with naming_errors("log", **tables[0].table.location):
        return read_columns(
            connection.sql(sql), coded=("query", "product", "event", "user", "session")
        )


def _to_rows(columns: dict[str, ArrowColumn], is_somebody: NDArray[np.bool_]) -> SessionRows:
    normal = normalize_strings(columns["query"].texts)
    code, first = normal.factorize()
    is_kept = is_somebody & (normal.lengths > 0)[columns["query"].values]
    values = {name: column.values[is_kept] for name, column in columns.items()}
    second = values["second"].astype(np.int64)
    has_user = bool((values["user"] >= 0).any())
    # A row without a user, among others that have one, is of a user of its own session.
    unit = _number(values["user"], values["session"] * (values["user"] < 0))
    by_day = np.where(values["session"] < 0, second // SECONDS, 0)
    visit = _number(values["session"], unit, by_day)  # users may count their sessions alike
    return SessionRows(
        queries=normal.take(first),
        products=columns["product"].texts,
        events=tuple(columns["event"].texts),
        query=code[values["query"]].astype(np.int32),
        product=values["product"],
        event=values["event"],
        unit=unit,
        visit=visit,
        second=second,
        count=values["count"].astype(np.float64),
        unit_kind="user" if has_user else "session",
    )


def _number(*keys: NDArray[Any]) -> NDArray[np.int64]:
    """Number rows that agree in all keys, from 0."""
    number = np.zeros(len(keys[0]), dtype=np.int64)
    for key in keys:
        _, code = np.unique(key, return_inverse=True)
        _, number = np.unique(number * (int(code.max(initial=0)) + 1) + code, return_inverse=True)
    return number.astype(np.int64)
