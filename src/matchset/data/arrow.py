"""Arrow: how do columns come from any library without a Python object per value?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.strings import Strings

NO_DAY = np.int32(np.iinfo(np.int32).min)  # the null of a column of days since 1970-01-01
_NO_TEXTS = Strings.of([])
_FORMATS = {
    np.dtype(np.int32): "i",
    np.dtype(np.uint8): "C",
    np.dtype(np.float32): "f",
    np.dtype(np.float64): "g",
}


@runtime_checkable
class ArrowSource(Protocol):
    """A table of any library: pandas, polars, pyarrow, DuckDB and others have this method."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the table as a capsule of an Arrow C stream."""


@dataclass(frozen=True, slots=True)
class ArrowColumn:
    """A column: numbers or codes as an array; texts (if coded, the distinct ones) as Strings."""

    values: NDArray[Any]  # for plain texts: empty
    texts: Strings  # for numbers: empty
    is_null: NDArray[np.bool_] | None  # (n_rows,), None where no value is null


def read_columns(source: ArrowSource, *, coded: Sequence[str] = ()) -> dict[str, ArrowColumn]:
    """Read every column; texts named in `coded` become int32 indices into their distinct values.

    Distinct values are numbered by first appearance, a null is -1. A failing stream or a type that
    is neither text, number, boolean nor date is a RuntimeError.
    """
    columns = {}
    capsule = source.__arrow_c_stream__()
    for name, values, nulls in _native.read_arrow_stream(capsule, list(coded)):
        is_null = nulls.view(np.bool_) if len(nulls) else None
        columns[name] = _to_column(values, is_null)
    return columns


def _to_column(values: Any, is_null: NDArray[np.bool_] | None) -> ArrowColumn:
    if isinstance(values, np.ndarray):
        return ArrowColumn(values, _NO_TEXTS, is_null)
    *codes, data, offsets = values
    array = codes[0] if codes else np.empty(0, dtype=np.int32)
    return ArrowColumn(array, Strings(data, offsets), is_null)


@dataclass(frozen=True, slots=True)
class ExportColumn:
    """A column to export without a copy: numbers, days, booleans, or texts."""

    name: str
    values: NDArray[Any] | None = None  # int32, uint8, float32, float64 or bool; None: texts
    texts: Strings | None = None  # the values, or the distinct texts that `values` index
    is_date: bool = False  # int32 days since 1970-01-01
    is_null: NDArray[np.bool_] | None = None


def export_columns(columns: Sequence[ExportColumn], n_rows: int) -> object:
    """Make an Arrow C stream capsule of equally long columns; it borrows their arrays."""
    exported = []
    for column in columns:
        valid = None
        if column.is_null is not None and column.is_null.any():
            valid = np.packbits(~column.is_null, bitorder="little")
        texts = (column.texts.data, column.texts.offsets) if column.texts is not None else None
        form, values = _to_arrow(column)
        exported.append((column.name, form, valid, values, texts))
    return _native.export_arrow_table(exported, n_rows)


def _to_arrow(column: ExportColumn) -> tuple[str, NDArray[Any] | None]:
    """Return Arrow's name of the type, and the values as Arrow holds them."""
    if column.values is None:
        return "U", None
    if column.values.dtype == np.bool_:
        return "b", np.packbits(column.values, bitorder="little")
    form = "tdD" if column.is_date else _FORMATS[column.values.dtype]
    return form, np.ascontiguousarray(column.values)
