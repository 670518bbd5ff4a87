"""Reading a log: how does a table of raw rows become a Log?"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import NO_DAY, ArrowColumn
from matchset.data.columns import ColumnChoice
from matchset.data.log import Log, make_log
from matchset.data.log_rows import (
    HAS_COMMA,
    IS_FAULTY,
    IS_UNREAD_TIME,
    LogTable,
    find_roles,
    group_rows_of,
    keep_texts,
    make_report,
    refuse_first,
)
from matchset.data.read_report import ReadReport
from matchset.data.tables import TableSource, open_tables
from matchset.data.value_forms import Decimal, check_decimal, check_time_format
from matchset.errors import DataError, InputError
from matchset.memory import DEFAULT_MEMORY, Memory, limit_memory
from matchset.strings import Strings
from matchset.text import clean_markup, normalize_strings

logger = logging.getLogger(__name__)

_SHOW_MORE = "{strict=True} stops at the first such row and shows it"


def read_log(
    source: TableSource,
    *,
    query: ColumnChoice = None,
    product: ColumnChoice = None,
    event: ColumnChoice = None,
    timestamp: ColumnChoice = None,
    count: ColumnChoice = None,
    strict: bool = False,
    encoding: str | None = None,
    decimal: Decimal | None = None,
    time_format: str | None = None,
    memory: Memory = DEFAULT_MEMORY,
) -> Log:
    """Read a search log from files or from a table in memory.

    `source` is a file, a glob, a folder or a list of them (Parquet, CSV, TSV, JSON Lines; the last
    three also with .gz). It can also be a pandas or polars frame, a pyarrow table, or
    anything with `__arrow_c_stream__`.

    `query`, `product`, `event`, `timestamp` and `count` name columns. A column that is not named is
    found by its usual names: query, search_term, q, keywords, query_text; product_id, sku, asin,
    item_id; event, event_type, action; timestamp, time, ts, date; count, clicks, quantity. `False`
    means that there is none. Name a field inside nested columns by its path, as in
    "request.params.q". Without a count, every row counts 1. Times may be dates, timestamps, ISO
    text or numbers since 1970.

    Other times need `time_format` ("%d.%m.%Y %H:%M"), and counts with a decimal comma `decimal`
    (","); an error shows the first value and what to say. `encoding` is that of text files that are
    not UTF-8, such as "cp1252".

    Rows without a query, a product or a usable count are dropped (NaN and infinity are not
    products). Rows whose time cannot be read are kept without a day. `log.report` counts both, and
    a warning sums them up. If no row is left, or no time can be read, it is a DataError. With
    `strict`, the first such row is a DataError that names file, row and column. Rows are then read
    in order, by one thread. Reading owns at most about `memory`. What needs more goes to temporary
    files.
    """
    choices = {
        "query": query,
        "product": product,
        "event": event,
        "timestamp": timestamp,
        "count": count,
    }
    check_decimal(decimal)
    with limit_memory(memory):
        opened = open_tables(source, is_ordered=strict, encoding=encoding)
        with opened as (connection, (tables,)):
            check_time_format(connection, time_format)
            log_tables = [
                find_roles(table, choices, time_format=time_format, decimal=decimal)
                for table in tables
            ]
            if event is not False and count is not False:
                _tell_unused(log_tables, name=_name_source(source))
            groups = read_groups(connection, log_tables, strict=strict)
        return to_log(groups, name=_name_source(source))


@dataclass(frozen=True, slots=True)
class LogGroups:
    """Raw rows, grouped by query, product, event, day and fault; a column per role and more.

    `count` is the sum of the counts, `rows` the number of rows if that differs, `fault` a Fault.
    Rows without a time have the day NO_DAY. Dropped rows have neither query, product nor event.
    """

    columns: dict[str, ArrowColumn]
    normal: Strings  # the normalized form of each distinct query
    report: ReadReport
    tables: Sequence[LogTable]  # as they were read: a frame may be a copy


def read_groups(
    connection: duckdb.DuckDBPyConnection, tables: Sequence[LogTable], *, strict: bool
) -> LogGroups:
    """Group the rows of tables; with `strict`, a faulty row is a DataError."""
    kept = [keep_texts(connection, table) for table in tables]
    columns = group_rows_of(connection, kept)
    normal = normalize_strings(columns["query"].texts)
    report = make_report(columns, normal)
    if strict and not report.is_clean:
        blank = columns["query"].texts.take(np.flatnonzero(normal.lengths == 0))
        refuse_first(connection, kept, IS_FAULTY, blank=list(blank))
    if report.bad_count and kept[0].decimal is None:
        refuse_first(connection, kept, HAS_COMMA)
    if report.rows and report.dropped == report.rows:
        rule = f"must have a row that can be used; got {report}"
        raise DataError(rule, advice=_SHOW_MORE, **kept[0].table.location)
    query, day = columns["query"].values, columns["day"].values
    is_used = (query >= 0) & (normal.lengths > 0)[query]
    if report.bad_timestamp and not (is_used & (day != NO_DAY)).any():
        refuse_first(connection, kept, IS_UNREAD_TIME)
    return LogGroups(columns, normal, report, kept)


def to_log(groups: LogGroups, *, name: str) -> Log:
    """Make a log of grouped rows; if some were faulty, log a warning that calls it `name`."""
    raw, report = groups.columns, groups.report
    queries, products, events = (raw[key].texts for key in ("query", "product", "event"))
    is_kept = raw["query"].values >= 0
    keys = ("query", "product", "event", "day", "count")
    columns = {key: _select(raw[key].values, is_kept) for key in keys}
    raw.clear()  # at 50 million rows, a second copy of a column is 200 to 400 MB
    _check_sum(columns["count"], name)
    columns["event"] = columns["event"].astype(np.uint8)
    if not report.is_clean:
        logger.warning("%s", InputError(str(report), source=name, advice=_SHOW_MORE))
    return make_log(
        queries=clean_markup(queries),
        normal=groups.normal,
        products=products,
        events=events,
        report=report,
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
