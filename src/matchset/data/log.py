"""Log: which products did customers choose after which query, how often, and when?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from matchset import _native
from matchset.config import DEFAULT_MIN_QUERY_COUNT, count_threads
from matchset.data.arrow import NO_DAY, ExportColumn, export_columns
from matchset.data.duckdb_session import write_parquet
from matchset.data.events import kind_of
from matchset.data.frames import require_package
from matchset.data.grouping import Rows, group_coded, mark_used, renumber, settle, sum_by
from matchset.data.read_report import NO_REPORT, ReadReport
from matchset.errors import DataError
from matchset.strings import Strings
from matchset.text import normalize_strings

if TYPE_CHECKING:
    import pyarrow as pa

MOST_EVENTS = 256  # the index of an event is one byte


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """A search log, grouped: one row per query, product, event and day.

    Queries are normalized, and each keeps its most frequent spelling. Rows are distinct and sorted
    by (query, product, event, day). Every query and product occurs in a row. Queries and products
    are sorted by their UTF-8 bytes, so the same rows give the same log in any order.
    """

    queries: Strings  # distinct, normalized, (n_queries,)
    spellings: Strings  # as customers typed them most often, for display, (n_queries,)
    products: Strings  # distinct product ids, (n_products,)
    events: tuple[str, ...]  # names of the events; one empty name if the log has none
    query: NDArray[np.int32]  # index into `queries`, (n_rows,)
    product: NDArray[np.int32]  # index into `products`, (n_rows,)
    event: NDArray[np.uint8]  # index into `events`, (n_rows,)
    day: NDArray[np.int32]  # days since 1970-01-01 (UTC), NO_DAY if unknown, (n_rows,)
    count: NDArray[np.float64]  # how often, possibly fractional, (n_rows,)
    report: ReadReport = NO_REPORT  # what was wrong with the rows it was made from

    def __len__(self) -> int:
        return len(self.query)

    def __eq__(self, other: object) -> bool:
        """Return whether both hold the same rows; the reports are not compared."""
        if not isinstance(other, Log):
            return NotImplemented
        names = [field.name for field in fields(self) if field.name != "report"]
        return all(_is_same(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]  # holds arrays

    def __repr__(self) -> str:
        parts = [
            f"{len(self):,} rows",
            f"{len(self.queries):,} queries",
            f"{len(self.products):,} products",
        ]
        if any(self.events):
            parts.append(f"events {', '.join(filter(None, self.events))}")
        if self.days:
            parts.append(f"{self.days[0]} to {self.days[1]}")
        return f"Log({', '.join(parts)})"

    @property
    def days(self) -> tuple[date, date] | None:
        """The first and the last day; None if no row has a time."""
        known = self.day[self.day != NO_DAY]
        if len(known) == 0:
            return None
        first, last = (date(1970, 1, 1) + timedelta(int(day)) for day in (known.min(), known.max()))
        return first, last

    def query_counts(self, *, threads: int | None = None) -> NDArray[np.float64]:
        """Return how often each query led to an event that is not an impression, (n_queries,).

        If the log has only impressions, they count.
        """
        counts = np.array([kind_of(name) != "impression" for name in self.events], dtype=np.float64)
        if not counts.any():
            counts[:] = 1.0
        columns = self.query, len(self.queries), self.event, self.count
        return _native.sum_queries(*columns, counts, count_threads(threads))

    def shown(self, min_query_count: float = DEFAULT_MIN_QUERY_COUNT) -> NDArray[np.bool_]:
        """Return which queries may be shown to people, (n_queries,).

        Rare queries can hold personal data (a name, an address, an order number). Queries that led
        to fewer than `min_query_count` events stay out of reports, pages and vocabularies. They are
        still used for training.
        """
        return self.query_counts() >= min_query_count

    def select(self, rows: NDArray[np.bool_], *, threads: int = 1) -> Log:
        """Return the log of the rows that a mask selects, with only their queries and products.

        It keeps the names of all events, so that all parts of a log get the same weights.
        """
        rows = np.ascontiguousarray(rows)
        if rows.dtype != np.bool_:
            raise TypeError(f"rows must be a mask of bool; got {rows.dtype}")
        columns = self.query, self.product, self.event, self.day, self.count
        marks = rows.view(np.uint8)
        sizes = len(self.queries), len(self.products)
        found = _native.select_rows(columns, marks, *sizes, threads)
        queries, products, query, product, event, day, count = found
        return Log(
            queries=self.queries.take(queries),
            spellings=self.spellings.take(queries),
            products=self.products.take(products),
            events=self.events,
            query=query,
            product=product,
            event=event,
            day=day,
            count=count,
        )

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export to Arrow without a copy: `polars.DataFrame(log)`, `pyarrow.table(log)`.

        Columns: query (its spelling), product_id, event, date, count. Event is left out if the log
        has none, date if no row has a time.
        """
        columns = [
            ExportColumn("query", self.query, self.spellings),
            ExportColumn("product_id", self.product, self.products),
        ]
        if any(self.events):
            columns.append(ExportColumn("event", self.event, Strings.of(self.events)))
        is_undated = self.day == NO_DAY
        if not is_undated.all():
            columns.append(ExportColumn("date", self.day, is_date=True, is_null=is_undated))
        columns.append(ExportColumn("count", self.count))
        return export_columns(columns, len(self))

    def to_arrow(self) -> pa.Table:
        """Return a pyarrow table of the same columns; its `to_pandas` makes a pandas frame."""
        return require_package("pyarrow").table(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the log as Parquet, which `read_log` reads back to an equal log.

        Queries are saved in their most frequent spelling, which normalizes to the query. The file
        appears under its name only when it is complete.
        """
        write_parquet(self, Path(path))


def make_log(
    *,
    queries: Strings,
    products: Strings,
    events: Sequence[str],
    query: ArrayLike,
    product: ArrayLike,
    event: ArrayLike,
    day: ArrayLike,
    count: ArrayLike,
    normal: Strings | None = None,
    report: ReadReport | None = None,
) -> Log:
    """Make a log from raw query strings, product ids, event names, and rows that index them.

    Queries equal after normalization become one; its spelling is the raw string with the largest
    total count, the smallest of those that tie. Rows whose query normalizes to nothing are
    dropped, as are queries and products without a row. A caller that has normalized the queries or
    counted the dropped rows already passes `normal` and `report`.
    """
    if len(events) > MOST_EVENTS:
        rule = f"the event column must hold at most {MOST_EVENTS} kinds of event"
        raise DataError(f"{rule}; got {len(events):,}, such as {events[0]!r}")
    if normal is None:
        normal = normalize_strings(queries)
    rows = Rows(
        np.asarray(query, dtype=np.int32),
        np.asarray(product, dtype=np.int32),
        np.asarray(event, dtype=np.uint8),
        np.asarray(day, dtype=np.int32),
        np.asarray(count, dtype=np.float64),
    )
    is_used = mark_used(rows.query, len(queries)) & (normal.lengths > 0)
    distinct, query_code = renumber(normal, is_used)
    is_kept = is_used[rows.query] if not is_used.all() else None
    distinct_products, product_code = _renumber_kept(products, rows.product, is_kept)
    names, event_code = _renumber_kept(Strings.of(events), rows.event, is_kept)
    totals = settle(sum_by(rows.query, len(queries), rows.count))
    spellings = _choose_spellings(queries, query_code, np.where(is_used, totals, -1.0))
    grouped = group_coded(
        rows, query_code=query_code, product_code=product_code, event_code=event_code
    )
    return Log(
        queries=distinct,
        spellings=spellings,
        products=distinct_products,
        events=tuple(names),
        query=grouped.query,
        product=grouped.product,
        event=grouped.event,
        day=grouped.day,
        count=settle(grouped.count),
        report=_count_dropped(rows, is_kept) if report is None else report,
    )


def join_logs(logs: Sequence[Log]) -> Log:
    """Return the rows of several logs as one; equal rows are added up."""
    names = [name for log in logs for name in log.events]
    starts = {
        name: np.cumsum([0, *(len(getattr(log, name)) for log in logs)])
        for name in ("queries", "products", "events")
    }

    def renumber_rows(column: str, of: str) -> NDArray[np.int64]:
        return np.concatenate(
            [getattr(log, column) + start for log, start in zip(logs, starts[of], strict=False)]
        )

    known = list(dict.fromkeys(names))
    event = np.array([known.index(name) for name in names])[renumber_rows("event", "events")]
    return make_log(
        queries=Strings.concatenate([log.spellings for log in logs]),
        products=Strings.concatenate([log.products for log in logs]),
        events=known,
        query=renumber_rows("query", "queries"),
        product=renumber_rows("product", "products"),
        event=event,
        day=np.concatenate([log.day for log in logs]),
        count=np.concatenate([log.count for log in logs]),
        normal=Strings.concatenate([log.queries for log in logs]),
    )


def _renumber_kept(
    texts: Strings, codes: NDArray[Any], is_kept: NDArray[np.bool_] | None
) -> tuple[Strings, NDArray[np.int32]]:
    """Sort the distinct texts of the kept rows; also the new index of each text."""
    return renumber(texts, mark_used(codes if is_kept is None else codes[is_kept], len(texts)))


def _count_dropped(rows: Rows, is_kept: NDArray[np.bool_] | None) -> ReadReport:
    without_query = 0 if is_kept is None else int(np.count_nonzero(~is_kept))
    return ReadReport(rows=len(rows.query), without_query=without_query)


def _choose_spellings(
    queries: Strings, code: NDArray[np.int32], totals: NDArray[np.float64]
) -> Strings:
    """Return the most frequent raw string of each query, (n_queries,); negative totals are out."""
    candidates = np.flatnonzero(totals >= 0)
    candidates = candidates[queries.take(candidates).argsort()]  # so that ties go to the smallest
    candidates = candidates[np.argsort(-totals[candidates], kind="stable")]
    _, first = np.unique(code[candidates], return_index=True)
    return queries.take(candidates[first])


def _is_same(a: Any, b: Any) -> bool:
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else bool(a == b)
