"""Grouping: which rows of a log are the same, and in which order are they kept?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset.strings import Strings

_BLOCK = 1 << 22  # rows mapped at once
_SLAB = 1 << 21  # rows sorted at once
_NO_SLAB = np.iinfo(np.uint16).max  # the slab of a row that is dropped


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a log as codes; every array is (n_rows,)."""

    query: NDArray[np.int32]
    product: NDArray[np.int32]
    event: NDArray[np.uint8]
    day: NDArray[np.int32]
    count: NDArray[np.float64]

    @property
    def keys(self) -> list[NDArray[Any]]:
        """What makes rows the same: query, product, event, day."""
        return [self.query, self.product, self.event, self.day]


def mark_used(codes: NDArray[Any], size: int) -> NDArray[np.bool_]:
    """Return which of the codes below `size` occur, (size,)."""
    is_used = np.zeros(size, dtype=np.bool_)
    is_used[codes] = True
    return is_used


def compact(codes: NDArray[np.int32], size: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the distinct codes, ascending, and the index of each code among them."""
    is_used = mark_used(codes, size)
    index = np.cumsum(is_used, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(is_used), gather(index, codes)


def renumber(texts: Strings, used: NDArray[np.bool_]) -> tuple[Strings, NDArray[np.int32]]:
    """Sort the distinct `used` texts; also the new index of each text, -1 if it is not used."""
    group, first = texts.factorize()
    kept = np.flatnonzero(mark_used(group[used], len(first)))
    distinct = texts.take(first[kept])
    order = distinct.argsort()
    code = np.full(len(first), -1, dtype=np.int32)
    code[kept[order]] = np.arange(len(kept), dtype=np.int32)
    return distinct.take(order), code[group]


def group_coded(
    rows: Rows,
    *,
    query_code: NDArray[np.int32],
    product_code: NDArray[np.int32],
    event_code: NDArray[np.int32],
) -> Rows:
    """Give every row its new codes, drop rows whose query has none (-1), and group the others.

    Works on one slab of queries after another, so that sorting needs little extra memory.
    """
    query = gather(query_code, rows.query)
    slab = _plan_slabs(query)
    n_slabs = int(slab.max(initial=0, where=slab != _NO_SLAB)) + 1
    columns = [np.empty_like(column) for column in (*rows.keys, rows.count)]
    end = 0
    for number in range(n_slabs):
        at = np.flatnonzero(slab == number)
        group = group_rows(
            Rows(
                query[at],
                product_code[rows.product[at]],
                event_code[rows.event[at]].astype(np.uint8),
                rows.day[at],
                rows.count[at],
            )
        )
        begin, end = end, end + len(group.query)
        for column, part in zip(columns, (*group.keys, group.count), strict=True):
            column[begin:end] = part
    return Rows(*(_trim(column, end) for column in columns))


def _trim(values: NDArray[Any], n: int) -> NDArray[Any]:
    """Return the first n values; copied if that frees much memory."""
    return values[:n] if 10 * n > 9 * len(values) else values[:n].copy()


def gather(values: NDArray[Any], indices: NDArray[Any]) -> NDArray[Any]:
    """Return `values[indices]`, in blocks, because NumPy first widens all indices to 64 bits."""
    found = np.empty(len(indices), dtype=values.dtype)
    for begin in range(0, len(indices), _BLOCK):
        found[begin : begin + _BLOCK] = values[indices[begin : begin + _BLOCK]]
    return found


def sum_by(
    codes: NDArray[Any], size: int, weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Sum the weights of each code, or count it, in blocks for the same reason, (size,)."""
    sums = np.zeros(size, dtype=np.float64)
    for begin in range(0, len(codes), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        part = None if weights is None else weights[block]
        sums += np.bincount(codes[block], part, minlength=size)
    return sums


def settle(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round sums to 12 digits, so that the order in which fractions were added is no matter."""
    at = np.flatnonzero((sums != np.rint(sums)) & (sums > 1e-280))  # others are integers, or tiny
    if len(at):
        scale = 10.0 ** (11 - np.floor(np.log10(sums[at])))
        sums = sums.copy()
        sums[at] = np.rint(sums[at] * scale) / scale
    return sums


def _plan_slabs(query: NDArray[np.int32]) -> NDArray[np.uint16]:
    """Give each row a slab: whole queries, ascending, about as many rows in each."""
    n_queries = int(query.max(initial=-1)) + 1
    rows_before = np.cumsum(sum_by(query + 1, n_queries + 1)[1:])
    rows_per_slab = max(_SLAB, len(query) // (_NO_SLAB - 1) + 1)
    slab_of_query = np.full(n_queries + 1, _NO_SLAB)  # the last entry is for -1
    slab_of_query[:-1] = (rows_before - 1) // rows_per_slab
    return gather(slab_of_query.astype(np.uint16), query)


def group_rows(rows: Rows) -> Rows:
    """Sort rows by (query, product, event, day) and add up the counts of equal ones."""
    if len(rows.query) == 0:
        return rows
    keys = rows.keys
    lows = [int(key.min()) for key in keys]
    spans = [int(key.max()) - low + 1 for key, low in zip(keys, lows, strict=True)]
    if np.prod([float(span) for span in spans]) < 2**63:
        return _group_packed(rows, lows, spans)
    order = np.lexsort(keys[::-1])
    starts = np.flatnonzero(_differs([key[order] for key in keys]))
    query, product, event, day = (key[order[starts]] for key in keys)
    return Rows(query, product, event, day, np.add.reduceat(rows.count[order], starts))


def _group_packed(rows: Rows, lows: list[int], spans: list[int]) -> Rows:
    """Group by one integer per row, which takes a quarter of the memory of sorting by four keys."""
    packed = np.zeros(len(rows.query), dtype=np.int64)
    for key, low, span in zip(rows.keys, lows, spans, strict=True):
        packed *= span
        packed += key
        packed -= low
    count = rows.count
    if not _is_ascending(packed):
        order = np.argsort(packed)
        packed = packed[order]
        count = count[order]
        del order
    starts = np.flatnonzero(_differs([packed]))
    count = np.add.reduceat(count, starts)
    packed = packed[starts]
    columns: list[NDArray[Any]] = []
    for key, low, span in zip(rows.keys[::-1], lows[::-1], spans[::-1], strict=True):
        columns.append((packed % span + low).astype(key.dtype))
        packed //= span
    day, event, product, query = columns
    return Rows(query, product, event, day, count)


def _is_ascending(values: NDArray[np.int64]) -> bool:
    return bool(np.all(values[1:] >= values[:-1]))


def _differs(keys: list[NDArray[Any]]) -> NDArray[np.bool_]:
    """Return whether each row differs from the one before it."""
    differs = np.zeros(len(keys[0]), dtype=np.bool_)
    differs[0] = True
    for key in keys:
        differs[1:] |= key[1:] != key[:-1]
    return differs
