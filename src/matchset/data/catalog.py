"""Catalog: what does the shop sell?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import NO_DAY, ExportColumn, export_columns
from matchset.data.duckdb_session import write_parquet
from matchset.data.frames import require_package
from matchset.errors import DataError
from matchset.strings import Strings

if TYPE_CHECKING:
    import pyarrow as pa

ColumnKind: TypeAlias = Literal["text", "number", "boolean", "date"]
_NULLS = {"text": -1, "number": np.nan, "boolean": -1, "date": NO_DAY}


@dataclass(frozen=True, slots=True)
class Column:
    """One attribute of every product; each kind has its own value for null.

    | kind    | values                                   | null   |
    |---------|------------------------------------------|--------|
    | text    | int32, index into `categories`           | -1     |
    | number  | float64                                  | NaN    |
    | boolean | int8, 0 or 1                             | -1     |
    | date    | int32, days since 1970-01-01             | NO_DAY |
    """

    kind: ColumnKind
    values: NDArray[Any]  # (n_products,)
    categories: Strings | None = None  # distinct texts of a text column, sorted

    @property
    def is_null(self) -> NDArray[np.bool_]:
        """Which products have no value, (n_products,)."""
        values = self.values
        is_null: NDArray[np.bool_]
        is_null = np.isnan(values) if self.kind == "number" else values == _NULLS[self.kind]
        return is_null

    def to_list(self) -> list[Any]:
        """Return plain values, None for null; a date is a `datetime.date`."""
        is_null = self.is_null
        known = self.values[~is_null]
        if self.categories is not None:
            values = iter(self.categories.decode(known))
        elif self.kind == "date":
            values = iter(known.astype("datetime64[D]").tolist())
        else:
            values = iter((known == 1 if self.kind == "boolean" else known).tolist())
        return [None if none else next(values) for none in is_null.tolist()]

    def take(self, indices: NDArray[np.int64]) -> Column:
        """Return the values at `indices`, null where an index is -1; the categories stay."""
        null = np.array(_NULLS[self.kind], dtype=self.values.dtype)
        if len(self.values) == 0:
            return Column(self.kind, np.full(len(indices), null), self.categories)
        taken = np.asarray(self.values)[indices]
        taken[np.asarray(indices) < 0] = null
        return Column(self.kind, taken, self.categories)


@dataclass(frozen=True, slots=True)
class CatalogReport:
    """Rows read, and those that are missing from the catalog or incomplete."""

    rows: int = 0
    without_product: int = 0  # dropped: no product id
    without_title: int = 0  # kept, with an empty title
    duplicates: int = 0  # dropped: the product occurred before

    def __str__(self) -> str:
        return (
            f"{self.rows:,} rows read, {self.without_product:,} without a product id dropped, "
            f"{self.duplicates:,} duplicates dropped, {self.without_title:,} without a title kept"
        )


NO_CATALOG_REPORT = CatalogReport()  # of a catalog that was not read


@dataclass(frozen=True, slots=True)
class Catalog:
    """The shop's products in catalog order: id, title, perhaps a description, attributes."""

    ids: Strings  # distinct, (n_products,)
    titles: Strings  # (n_products,)
    descriptions: Strings | None = None  # (n_products,)
    attributes: Mapping[str, Column] = field(default_factory=dict)
    report: CatalogReport = NO_CATALOG_REPORT  # what was wrong with the rows it was read from
    more_text: Strings | None = None  # searched beside the title, not shown, (n_products,)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        kinds = ", ".join(f"{name} ({column.kind})" for name, column in self.attributes.items())
        return f"Catalog({len(self):,} products{f'; {kinds}' if kinds else ''})"

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export to Arrow: product_id, title, perhaps description, and the attributes."""
        columns = [
            ExportColumn("product_id", texts=self.ids),
            ExportColumn("title", texts=self.titles),
        ]
        if self.descriptions is not None:
            columns.append(ExportColumn("description", texts=self.descriptions))
        columns += [_to_export(name, column) for name, column in self.attributes.items()]
        return export_columns(columns, len(self))

    def without(self, ids: Strings) -> Catalog:
        """Return the catalog without some products, and without attributes."""
        rows = np.flatnonzero(ids.index_of(self.ids) < 0)
        texts = (self.descriptions, self.more_text)
        descriptions, more = (None if each is None else each.take(rows) for each in texts)
        return Catalog(self.ids.take(rows), self.titles.take(rows), descriptions, more_text=more)

    def to_arrow(self) -> pa.Table:
        """Return a pyarrow table of the same columns; its `to_pandas` makes a pandas frame."""
        return require_package("pyarrow").table(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the catalog as Parquet, which `read_catalog` reads back."""
        write_parquet(self, Path(path))


def require_products_of(log_products: Strings, catalog: Catalog) -> None:
    """Raise a DataError if a catalog has not one product of a log."""
    ids = catalog.ids
    if not len(log_products) or (log_products.index_of(ids) >= 0).any():
        return
    in_log, in_catalog = (", ".join(map(repr, one[:2])) or "none" for one in (log_products, ids))
    is_alike = not {one.lstrip("0") for one in log_products}.isdisjoint(
        one.lstrip("0") for one in ids
    )
    raise DataError(
        f"must have products of the log, such as {in_log}; got others, such as {in_catalog}",
        parameter="catalog",
        advice="keep the zeros in front of ids on both sides" if is_alike else None,
    )


def _to_export(name: str, column: Column) -> ExportColumn:
    values = column.values == 1 if column.kind == "boolean" else column.values
    is_date = column.kind == "date"
    return ExportColumn(name, values, column.categories, is_date=is_date, is_null=column.is_null)
