"""Tables: how does a result reach pandas, polars and pyarrow, none of which we need?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from matchset.data.arrow import ArrowSource, ExportColumn

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


def to_pandas(columns: Sequence[ExportColumn]) -> pandas.DataFrame:
    """A pandas frame of columns of texts and numbers."""
    frame: pandas.DataFrame = _require("pandas").DataFrame(
        {
            column.name: column.values if column.texts is None else list(column.texts)
            for column in columns
        }
    )
    return frame


def to_polars(source: ArrowSource) -> polars.DataFrame:
    """A polars frame of an Arrow stream."""
    frame: polars.DataFrame = _require("polars").DataFrame(_Stream(source))
    return frame


def to_arrow(source: ArrowSource) -> pyarrow.Table:
    """A pyarrow table of an Arrow stream."""
    table: pyarrow.Table = _require("pyarrow").table(_Stream(source))
    return table


@dataclass(frozen=True, slots=True)
class _Stream:
    """A source that is nothing else: these libraries read a sequence item by item."""

    source: ArrowSource

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.source.__arrow_c_stream__(requested_schema)


def _require(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"this conversion needs {name}, which is not installed: pip install {name}"
        ) from error
