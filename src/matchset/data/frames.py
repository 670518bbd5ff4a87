"""Frames: how does a result become a pandas or pyarrow table without depending on them?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from matchset.data.arrow import ExportColumn, export_columns
from matchset.strings import Strings

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class Tabular(ABC):
    """A result with columns of texts and numbers, which converts to data frames."""

    __slots__ = ()

    @abstractmethod
    def _columns(self) -> list[ExportColumn]:
        """Return at least one column, all of the same length."""

    def to_pandas(self) -> pd.DataFrame:
        """Return a pandas frame with the columns of `to_dicts`."""
        pandas = require_package("pandas")
        return pandas.DataFrame(
            {column.name: _to_pandas(column, pandas) for column in self._columns()}
        )

    def to_arrow(self) -> pa.Table:
        """Return a pyarrow table with the columns of `to_dicts`."""
        return require_package("pyarrow").table(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export to Arrow, with the columns of `to_dicts`."""
        columns = self._columns()
        numbers = next(column.values for column in columns if column.values is not None)
        return export_columns(columns, len(numbers))


def to_columns(rows: Sequence[Mapping[str, Any]]) -> list[ExportColumn]:
    """Return the columns of dicts that all have the same keys, and texts or numbers as values."""
    columns = []
    for name, first in rows[0].items():
        values = [row[name] for row in rows]
        if isinstance(first, str):
            columns.append(ExportColumn(name, texts=Strings.of(values)))
        else:
            dtype = np.int32 if isinstance(first, int) else np.float64
            columns.append(ExportColumn(name, np.array(values, dtype=dtype)))
    return columns


def _to_pandas(column: ExportColumn, pandas: Any) -> Any:
    if column.texts is not None:
        return list(column.texts)
    if column.is_null is not None:  # counts and ranks, which stay integers
        return pandas.arrays.IntegerArray(column.values, column.is_null)
    return column.values


def require_package(name: str) -> Any:
    """Import a package that only conversions need."""
    try:
        return import_module(name)
    except ImportError as error:
        rule = f"this conversion needs {name}, which is not installed: pip install {name}"
        raise ImportError(rule, name=name) from error
