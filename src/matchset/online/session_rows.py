"""Session rows: what did each customer do, search by search?

A `Log` sums up over customers. To tell their searches apart, the rows are read one by one here,
with the user or the session that they belong to.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import NO_DAY
from matchset.data.columns import VISITOR_NAMES, ColumnChoice, describe_columns
from matchset.data.events import EventKind, kind_of
from matchset.data.log_reader import open_log, read_checked
from matchset.data.log_rows import LogRows, LogTable
from matchset.data.sessions import DAY, number_groups
from matchset.data.tables import TableSource, open_tables
from matchset.data.value_forms import Decimal
from matchset.errors import DataError
from matchset.memory import DEFAULT_MEMORY, Memory, limit_memory
from matchset.strings import Strings

SECONDS = 86_400  # of a day
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
        """Return which rows are events of some kinds, (n_rows,)."""
        return np.array([kind_of(name) in kinds for name in self.events], np.bool_)[self.event]

    def searches(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the number of each row's search, and the first row of each search.

        A search is a query in a visit: a second page or a reload is the same search.
        """
        key = self.visit * max(len(self.queries), 1) + self.query
        _, first, number = np.unique(key, return_index=True, return_inverse=True)
        return number, first

    def began(self) -> NDArray[np.int64]:
        """Return the second at which each search began, NO_SECOND if unknown, (n_searches,)."""
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
        "query": query, "product": product, "event": event, "timestamp": timestamp,
        "count": count, "user": user, "session": session,
    }  # fmt: skip
    with limit_memory(memory):
        opened = open_log(
            source,
            choices,
            strict=strict,
            encoding=encoding,
            decimal=decimal,
            time_format=time_format,
        )
        with opened as (connection, tables):
            for table in tables:
                _require_visitors(table)
            rows = read_checked(connection, tables, strict=strict, by_session=True)
    is_kept, columns = rows.is_kept, rows.columns
    is_somebody = (columns["user"] >= 0) | (columns["session"] >= 0)
    if not is_somebody[is_kept].all():
        logger.warning(
            "%s of %s rows have neither a user nor a session and are left out",
            f"{int((is_kept & ~is_somebody).sum()):,}",
            f"{int(is_kept.sum()):,}",
        )
    return _to_rows(rows, is_kept & is_somebody)


def has_visitors(source: TableSource, *, memory: Memory = DEFAULT_MEMORY) -> bool:
    """Return whether a log has a column with a usual name of a user or a session."""
    with limit_memory(memory), open_tables(source) as (_, (tables,)):
        names = {name for usual in VISITOR_NAMES.values() for name in usual}
        return all(names & {column.lower() for column in table.columns} for table in tables)


def _require_visitors(table: LogTable) -> None:
    if not table.roles.keys() & VISITOR_NAMES.keys():
        raise DataError(
            "a log must have a column of users or sessions to tell searches apart; "
            f"there are {describe_columns(table.table)}",
            advice="name one with {user=COLUMN} or {session=COLUMN}",
            **table.table.location,
        )


def _to_rows(rows: LogRows, is_used: NDArray[np.bool_]) -> SessionRows:
    values = {name: column[is_used] for name, column in rows.columns.items()}
    code, first = rows.normal.factorize()
    has_user = bool((values["user"] >= 0).any())
    # A row without a user, among others that have one, is of a user of its own session.
    unit = number_groups(values["user"], values["session"] * (values["user"] < 0))
    by_day = np.where(values["session"] < 0, values["time"] // DAY, 0)
    visit = number_groups(values["session"], unit, by_day)  # users may count their sessions alike
    return SessionRows(
        queries=rows.normal.take(first),
        products=rows.texts["product"],
        events=tuple(rows.texts["event"]),
        query=code[values["query"]].astype(np.int32),
        product=values["product"],
        event=values["event"],
        unit=unit,
        visit=visit,
        second=values["time"].astype(np.int64) // 1000,
        count=values["count"].astype(np.float64),
        unit_kind="user" if has_user else "session",
    )
