"""Log: what did customers search for, and what did they do with the products they saw?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from matchset.data.grouping import Rows, group_rows, renumber
from matchset.data.report import NO_REPORT, ReadReport
from matchset.errors import DataError
from matchset.strings import Strings
from matchset.text import normalize_strings

NO_DAY = np.int32(np.iinfo(np.int32).min)  # the day of a row without a time


@dataclass(frozen=True, slots=True, eq=False)
class Log:
    """A search log, grouped: one row per query, product, event and day.

    Queries are normalised, and each remembers its most frequent spelling. Rows are sorted by
    (query, product, event, day) and distinct; every query and product occurs in a row. Queries
    and products are sorted by their UTF-8 bytes: the same rows give the same log in any order.
    """

    queries: Strings  # distinct, normalised, (n_queries,)
    spellings: Strings  # as customers typed them most often, for display, (n_queries,)
    products: Strings  # distinct product ids, (n_products,)
    events: tuple[str, ...]  # names of the events; one empty name where the log has none
    query: NDArray[np.int32]  # place in `queries`, (n_rows,)
    product: NDArray[np.int32]  # place in `products`, (n_rows,)
    event: NDArray[np.uint8]  # place in `events`, (n_rows,)
    day: NDArray[np.int32]  # days since 1970-01-01 (UTC), NO_DAY where unknown, (n_rows,)
    count: NDArray[np.float64]  # how often, possibly fractional, (n_rows,)
    report: ReadReport = NO_REPORT  # what was wrong with the rows it was made from

    def __len__(self) -> int:
        return len(self.query)

    def __eq__(self, other: object) -> bool:
        """Whether both hold the same rows; what was dropped on the way does not matter."""
        if not isinstance(other, Log):
            return NotImplemented
        names = [field.name for field in fields(self) if field.name != "report"]
        return all(_is_same(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]  # holds arrays


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
    source_rows: NDArray[np.floating] | None = None,
) -> Log:
    """Make a log from raw query strings and rows of codes into them.

    Queries equal after normalisation become one; its spelling is the raw string with the largest
    total count, the smallest of those that tie. Rows whose query normalises to nothing are
    dropped and counted in the report, as are queries and products without a row. `source_rows`
    tells how many rows of a file each row stands for (one, if not given).
    """
    rows = _check_rows(
        Rows(
            np.asarray(query, dtype=np.int32),
            np.asarray(product, dtype=np.int32),
            np.asarray(event, dtype=np.uint8),
            np.asarray(day, dtype=np.int32),
            np.asarray(count, dtype=np.float64),
        ),
        {"query": len(queries), "product": len(products), "event": len(events)},
    )
    normal = normalize_strings(queries)
    is_used = _occurs(rows.query, len(queries)) & (normal.lengths > 0)
    kept = is_used[rows.query]
    report = _count_dropped(kept, source_rows)
    if not kept.all():
        rows = rows.take(kept)
    distinct, query_code = renumber(normal, is_used)
    spellings = _choose_spellings(queries, query_code, rows)
    distinct_products, product_code = renumber(products, _occurs(rows.product, len(products)))
    names, event_code = renumber(Strings.of(events), _occurs(rows.event, len(events)))
    rows = group_rows(
        Rows(
            query_code[rows.query],
            product_code[rows.product],
            event_code.astype(np.uint8)[rows.event],
            rows.day,
            rows.count,
        )
    )
    return Log(
        queries=distinct,
        spellings=spellings,
        products=distinct_products,
        events=tuple(names),
        query=rows.query,
        product=rows.product,
        event=rows.event,
        day=rows.day,
        count=rows.count,
        report=report,
    )


def _check_rows(rows: Rows, sizes: dict[str, int]) -> Rows:
    n_rows = len(rows.query)
    for field in fields(rows):
        values = getattr(rows, field.name)
        if values.shape != (n_rows,):
            raise ValueError(f"{field.name} must have the shape ({n_rows},); got {values.shape}")
    for name, size in sizes.items():
        codes = getattr(rows, name)
        if n_rows and not 0 <= int(codes.min()) <= int(codes.max()) < size:
            wrong = int(codes.min()) if int(codes.min()) < 0 else int(codes.max())
            raise ValueError(f"{name} must be a place within {size}; got {wrong}")
    if sizes["event"] > 256:
        raise DataError(f"a log must have at most 256 kinds of event; got {sizes['event']}")
    if n_rows and not (float(rows.count.min()) >= 0 and np.isfinite(rows.count.max())):
        raise ValueError("count must be finite and not negative")
    return rows


def _count_dropped(kept: NDArray[np.bool_], source_rows: NDArray[np.floating] | None) -> ReadReport:
    if source_rows is None:
        return ReadReport(rows=len(kept), without_query=int(len(kept) - np.count_nonzero(kept)))
    return ReadReport(rows=int(source_rows.sum()), without_query=int(source_rows.sum(where=~kept)))


def _choose_spellings(queries: Strings, code: NDArray[np.int32], rows: Rows) -> Strings:
    """The most frequent raw string of each query, (n_queries,)."""
    candidates = np.flatnonzero(_occurs(rows.query, len(queries)))
    totals = np.bincount(rows.query, weights=rows.count, minlength=len(queries))
    candidates = candidates[queries.take(candidates).order()]  # so that ties go to the smallest
    candidates = candidates[np.argsort(-totals[candidates], kind="stable")]
    _, first = np.unique(code[candidates], return_index=True)
    return queries.take(candidates[first])


def _occurs(codes: NDArray[np.integer], size: int) -> NDArray[np.bool_]:
    occurs = np.zeros(size, dtype=np.bool_)
    occurs[codes] = True
    return occurs


def _is_same(a: Any, b: Any) -> bool:
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else bool(a == b)
