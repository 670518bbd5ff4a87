"""Reading a log: how does a table of raw rows become a Log?"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from matchset.data.columns import LOG_NAMES, VISITOR_NAMES, ColumnChoice, choose_columns
from matchset.data.grouping import compact
from matchset.data.log import MOST_EVENTS, Log, make_log
from matchset.data.log_rows import LogRows, LogTable, keep_texts, read_rows
from matchset.data.row_faults import SHOW_MORE, refuse_faults
from matchset.data.tables import Table, TableSource, open_tables
from matchset.data.ubi import find_actions, is_ubi, join_ubi
from matchset.data.value_forms import Decimal, check_decimal, check_time_format
from matchset.errors import DataError, InputError
from matchset.memory import DEFAULT_MEMORY, Memory, limit_memory
from matchset.text import clean_markup

logger = logging.getLogger(__name__)


def read_log(
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
) -> Log:
    """Read a search log from files or from a table in memory.

    `source` is a file, a glob, a folder or a list of them (Parquet, CSV, TSV, JSON Lines; the last
    three also with .gz). It can also be a pandas or polars frame, a pyarrow table, or
    anything with `__arrow_c_stream__`. A list of UBI's queries and events is read as `read_ubi`
    does.

    `query`, `product`, `event`, `timestamp` and `count` name columns. A column that is not named is
    found by its usual names: query, search_term, q, keywords, query_text; product_id, sku, asin,
    item_id; event, event_name, event_type, action; timestamp, time, ts, date, event_timestamp,
    event_date; count, clicks, quantity. `False` means that there is none. Name a field inside
    nested columns by its path, as in "request.params.q". Without a count, every row counts 1. Times
    may be dates, timestamps, ISO text or numbers since 1970.

    Other times need `time_format` ("%d.%m.%Y %H:%M"), and counts with a decimal comma `decimal`
    (","); an error shows the first value and what to say. `encoding` is that of text files that are
    not UTF-8, such as "cp1252".

    A click without a query gets it from the last search (a row with a query and no product) of its
    session, if that was at most 30 minutes before. `user` and `session` name columns too: user_id,
    customer_id, ..., session_id, visit_id, ...

    Rows without a query, a product or a usable count are dropped (NaN and infinity are not
    products). Rows whose time cannot be read are kept without a day. `log.report` counts both, and
    a warning sums them up. If no row is left, or no time can be read, it is a DataError. With
    `strict`, the first such row is a DataError that names file, row and column. Rows are then read
    in order, by one thread. Reading owns at most about `memory`. What needs more goes to temporary
    files.
    """
    choices = {
        "query": query, "product": product, "event": event, "timestamp": timestamp,
        "count": count, "user": user, "session": session,
    }  # fmt: skip
    name = _name_source(source)
    with limit_memory(memory):
        opened = open_log(
            source,
            choices,
            strict=strict,
            encoding=encoding,
            time_format=time_format,
            decimal=decimal,
        )
        with opened as (connection, tables):
            if event is not False and count is not False:
                _tell_unused(tables, name=name)
            rows = read_checked(connection, tables, strict=strict)
        return to_log(rows, name=name)


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
        opened = open_tables(queries, events, is_ordered=strict)
        with opened as (connection, (query_tables, event_tables)):
            joined = join_ubi(query_tables, event_tables, actions)
            tables = [LogTable(table, _find_roles(table, {})) for table in joined]
            rows = read_checked(connection, tables, strict=strict)
        if actions:
            missing = set(actions) - set(rows.texts["event"])
            _check_actions(missing, actions, events)
        return to_log(rows, name="UBI")


@contextmanager
def open_log(
    source: TableSource,
    choices: Mapping[str, ColumnChoice],
    *,
    strict: bool = False,
    encoding: str | None = None,
    decimal: Decimal | None = None,
    time_format: str | None = None,
) -> Iterator[tuple[duckdb.DuckDBPyConnection, list[LogTable]]]:
    """Open the tables of a log, and find its columns in each of them."""
    check_decimal(decimal)
    with open_tables(source, is_ordered=strict, encoding=encoding) as (connection, (tables,)):
        check_time_format(connection, time_format)
        of_log = join_ubi(tables, tables) if is_ubi(tables) else tables
        find = _find_roles_of_half if len(of_log) > 1 else _find_roles
        found = [LogTable(table, find(table, choices), time_format, decimal) for table in of_log]
        yield connection, found


def _find_roles(table: Table, choices: Mapping[str, ColumnChoice]) -> dict[str, str]:
    names = {**LOG_NAMES, **VISITOR_NAMES}
    return choose_columns(table, names, choices, required=("query", "product"))


def _find_roles_of_half(table: Table, choices: Mapping[str, ColumnChoice]) -> dict[str, str]:
    """Find the columns in one of several tables: of searches alone, of clicks alone, or of both."""
    names = {**LOG_NAMES, **VISITOR_NAMES}
    known = {*table.columns, *table.fields}
    there = {
        role: None if role in ("query", "product") and choice not in known else choice
        for role, choice in choices.items()
    }
    roles = choose_columns(table, names, there)
    n_needed = len({"query", "product"} & roles.keys())
    is_half = n_needed == 1 and {"session", "timestamp"} <= roles.keys()
    is_whole = n_needed == 2 and there == choices
    return roles if is_half or is_whole else _find_roles(table, choices)


def read_checked(
    connection: duckdb.DuckDBPyConnection,
    tables: Sequence[LogTable],
    *,
    strict: bool,
    by_session: bool = False,
) -> LogRows:
    """Read the rows of a log; faults that must not be are a DataError."""
    tables = [keep_texts(connection, table) for table in tables]
    rows = read_rows(connection, tables, by_session=by_session)
    refuse_faults(connection, tables, rows, strict=strict)
    return rows


def to_log(rows: LogRows, *, name: str) -> Log:
    """Make a log of its rows; if some were faulty, log a warning that calls it `name`."""
    is_kept = rows.is_kept
    names = ("query", "product", "event", "day", "count")
    columns = {key: _select(rows.columns[key], is_kept) for key in names}
    rows.columns.clear()  # at 50 million rows, a second copy of a column is 200 to 400 MB
    _check_sum(columns["count"], name)
    if not rows.report.is_clean or rows.report.searches:
        level = logging.INFO if rows.report.is_clean else logging.WARNING
        logger.log(level, "%s", InputError(str(rows.report), source=name, advice=SHOW_MORE))
    events, event = rows.texts["event"], columns.pop("event")
    if len(events) > MOST_EVENTS:  # rows that are not kept may have others
        used, event = compact(event, len(events))
        events = events.take(used)
    return make_log(
        queries=clean_markup(rows.texts["query"]),
        normal=rows.normal,
        products=rows.texts["product"],
        events=list(events),
        event=event if len(events) > MOST_EVENTS else event.astype(np.uint8),
        report=rows.report,
        **columns,
    )


def _tell_unused(tables: Sequence[LogTable], *, name: str) -> None:
    """Warn of columns that may say what a row is worth, such as ratings."""
    for one in tables:
        unused = [column for column in one.table.columns if column not in one.roles.values()]
        if unused and not one.roles.keys() & {"event", "count"}:
            shown = ", ".join(map(repr, unused[:5])) + ", ..." * (len(unused) > 5)
            rule = "no column of events or counts is known, so every row counts 1"
            logger.warning("%s: %s; columns that are not used: %s", name, rule, shown)
            return


def _check_actions(missing: Collection[str], actions: Sequence[str], events: TableSource) -> None:
    """Report actions that do not occur; the `missing` may still occur in rows without a product."""
    if not missing:
        return
    # Read again, and only if needed. A stream can be read only once: nothing is found here then.
    with open_tables(events) as (connection, (tables,)):
        found = find_actions(connection, tables)
    unknown = [name for name in actions if name in missing and name not in found]
    error = DataError(
        f"must occur in the events; got {', '.join(map(repr, unknown))}, "
        f"but there are {', '.join(map(repr, found))}",
        parameter="actions",
    )
    if found and len(unknown) == len(actions):
        raise error
    if found and unknown:
        logger.warning("%s", error)


def _check_sum(counts: NDArray[np.float64], name: str) -> None:
    """Refuse counts whose sum is beyond float32, in which pairs hold sums."""
    limit = float(np.finfo(np.float32).max)
    with np.errstate(over="ignore"):
        total = float(counts.sum())
    if not total <= limit:
        raise DataError(f"the counts of {name} must add up to at most {limit:.1e}; got {total}")


def _select(values: NDArray[Any], is_kept: NDArray[np.bool_]) -> NDArray[Any]:
    return values if is_kept.all() else values[is_kept]


def _name_source(source: Any) -> str:
    if isinstance(source, str | os.PathLike):
        return str(source)
    if isinstance(source, list | tuple):
        return f"{len(source)} sources"
    return f"a {type(source).__name__}"
