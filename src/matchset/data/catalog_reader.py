"""Reading a catalog: how does a table of products become a Catalog?"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import duckdb
import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import NO_DAY, ArrowColumn, read_columns
from matchset.data.attributes import Attribute, Forms, find_attributes, merge_kinds, text_value
from matchset.data.catalog import Catalog, CatalogReport, Column, ColumnKind
from matchset.data.columns import (
    CATALOG_NAMES,
    ColumnChoice,
    choose_column,
    choose_columns,
    describe_columns,
)
from matchset.data.duckdb_session import blaming_files, naming_errors, quote_text
from matchset.data.grouping import renumber
from matchset.data.log_rows import MOST_BYTES
from matchset.data.sql import id_of, text_of
from matchset.data.tables import Table, TableSource, open_tables
from matchset.data.value_forms import Decimal, check_decimal, check_time_format
from matchset.errors import DataError, ParameterError, format_path
from matchset.memory import DEFAULT_MEMORY, Memory, limit_memory
from matchset.strings import Strings
from matchset.text import clean_markup

logger = logging.getLogger(__name__)

_MOST_CELL = 100_000  # bytes of any other text: a small packed file must not become gigabytes

Duplicates: TypeAlias = Literal["error", "first", "last"]


def read_catalog(
    source: TableSource,
    *,
    product: ColumnChoice = None,
    title: ColumnChoice = None,
    description: ColumnChoice = None,
    attributes: Sequence[str] | None = None,
    text: Sequence[str] = (),
    duplicates: Duplicates = "error",
    encoding: str | None = None,
    decimal: Decimal | None = None,
    time_format: str | None = None,
    memory: Memory = DEFAULT_MEMORY,
    requires_title: bool = True,
) -> Catalog:
    """Read a catalog from anything that `read_log` accepts.

    `product`, `title` and `description` name columns. A column that is not named is found by its
    usual names: product_id, sku, asin, item_id, id; title, product_title, product_name, name;
    description, product_description. All other columns become attributes, or only those in
    `attributes`: numbers, booleans, dates, and text for everything else. Columns of CSV and JSON
    files become numbers, booleans or dates if every value is one. A column with an integer beyond
    2^53 is read as text, so that two such ids never become the same number. Filters then compare it
    with text: seller = '1765432109876543210'.

    Prices ("1.299,00 €") and decimal commas need `decimal` ("," or "."), dates such as 31.12.2026
    `time_format` ("%d.%m.%Y"): the columns of which every value then is one. Until then they are
    text, and a warning shows a value and what to say. `encoding` is that of text files that are not
    UTF-8.

    `text` names columns, such as brand, category or description, that are searched in addition to
    the title, as `Catalog.more_text`. HTML is removed from titles, descriptions, that text and
    attributes that are text: brand = 'B&D' also finds what the table calls B&amp;D.

    A product that occurs twice with different titles is a DataError that names both rows, unless
    `duplicates` is "first" or "last". With the same title, the first row is kept.

    Without `requires_title`, a table may lack titles, and all titles are then empty. This is enough
    to update attributes. In such a table, a product that occurs twice is a DataError too.
    """
    if duplicates not in ("error", "first", "last"):
        rule = f"must be error, first or last; got {duplicates!r}"
        raise ParameterError(rule, parameter="duplicates")
    check_decimal(decimal)
    choices = {"product": product, "title": title, "description": description}
    needed = ("product", "title") if requires_title else ("product",)
    with limit_memory(memory):
        opened = open_tables(source, is_ordered=True, encoding=encoding)
        with opened as (connection, (tables,)):
            check_time_format(connection, time_format)
            forms = Forms(decimal, time_format)
            parts = []
            for table in tables:
                roles = choose_columns(table, CATALOG_NAMES, choices, required=needed)
                parts.append(_find_part(connection, table, roles, attributes, text, forms))
            kinds = merge_kinds([part.attributes for part in parts])
            columns = _read_parts(connection, parts, kinds)
        files = [format_path(path) for table in tables for path in table.files] or [tables[0].label]
        catalog = _to_catalog(columns, kinds, files=files, duplicates=duplicates)
    report = catalog.report
    is_lacking = report.without_title > 0 and any("title" in part.roles for part in parts)
    if report.without_product or is_lacking or report.duplicates:
        logger.warning("%s: %s", files[0], report)
    return catalog


@dataclass(frozen=True, slots=True)
class _Part:
    """A table, the columns of its roles, and the kinds of the others."""

    table: Table
    roles: dict[str, str]
    attributes: dict[str, Attribute]
    text: list[str]  # columns that are searched beside the title

    def select(self, kinds: dict[str, ColumnKind]) -> list[str]:
        """Return SQL of each file: roles, attributes in the order of `kinds`, and the row."""
        table = self.table
        texts = {role: text_of(table, column) for role, column in self.roles.items()}
        texts["product"] = id_of(table, self.roles["product"])
        fields = [
            f"{_limit(text, self.roles[role], role)} AS {role}" for role, text in texts.items()
        ]
        if self.text:
            joined = f"concat_ws(' ', {', '.join(text_value(table, name) for name in self.text)})"
            fields.append(f"{_limit(joined, self.text[0])} AS more_text")
        for index, (name, kind) in enumerate(kinds.items()):
            if name in self.attributes:
                value = self.attributes[name].sql
                value = _limit(text_value(table, name), name) if kind == "text" else value
                fields.append(f"{value} AS a{index}")
        listed = ", ".join([*fields, "row_number() OVER () AS row"])
        rows = [table.sql(path) for path in table.files] or [table.sql()]
        return [f"SELECT {listed} FROM {sql}" for sql in rows]


def _limit(text: str, column: str, role: str = "") -> str:
    """Return SQL that fails at the first text that is too long, before more are in memory."""
    most = MOST_BYTES if role in ("product", "title") else _MOST_CELL
    rule = quote_text(f": column {column!r} must have at most {most:,} bytes; got ")
    said = f"'row ' || row_number() OVER () || {rule} || format('{{:,}}', strlen({text}))"
    return f"if(strlen({text}) > {most}, error({said}), {text})"


def _find_part(
    connection: duckdb.DuckDBPyConnection,
    table: Table,
    roles: dict[str, str],
    attributes: Sequence[str] | None,
    text: Sequence[str],
    forms: Forms,
) -> _Part:
    for name in attributes or ():
        if name not in table.columns and name not in table.fields:
            raise DataError(
                f"must be columns; got {name!r}, but there are {describe_columns(table)}",
                parameter="attributes",
                **table.location,
            )
    wanted = table.columns if attributes is None else attributes
    others = [name for name in wanted if name not in roles.values()]
    with naming_errors(table.kind, **table.location):
        found, notes = find_attributes(connection, table, others, forms)
    for note in notes:
        logger.warning("%s", note)
    searched = [choose_column(table, "text", name, names=(), is_required=True) for name in text]
    return _Part(table, roles, found, [name for name in searched if name is not None])


def _read_parts(
    connection: duckdb.DuckDBPyConnection, parts: Sequence[_Part], kinds: dict[str, ColumnKind]
) -> dict[str, ArrowColumn]:
    selects = [sql for part in parts for sql in part.select(kinds)]
    union = " UNION ALL BY NAME ".join(
        f"SELECT *, {file}::INTEGER AS file FROM ({sql})" for file, sql in enumerate(selects)
    )
    coded = [f"a{index}" for index, kind in enumerate(kinds.values()) if kind == "text"]
    probes = (
        (part.table.kind, path, f"CREATE OR REPLACE TEMP TABLE probe AS {sql}")
        for part in parts
        for path, sql in zip(part.table.files, part.select(kinds), strict=False)
    )
    with blaming_files(connection, probes):
        return read_columns(connection.sql(union), coded=coded)


def _to_catalog(
    columns: dict[str, ArrowColumn],
    kinds: dict[str, ColumnKind],
    *,
    files: Sequence[str],
    duplicates: Duplicates,
) -> Catalog:
    ids = columns["product"].texts
    kept = np.flatnonzero(ids.lengths > 0)
    if len(ids) and not len(kept):
        rule = f"must have a row with a product id; got {len(ids):,} rows without one"
        raise DataError(rule, source=files[0], parameter="product")
    group, chosen = ids.take(kept).factorize()  # the first row of each product
    if duplicates == "error":
        _refuse_others(columns, kept, chosen[group], files=files)
    if duplicates == "last":
        chosen = chosen.copy()
        chosen[group] = np.arange(len(group))  # of equal groups, the last one is written last
    rows = kept[chosen]
    texts = {
        role: clean_markup(columns[role].texts.take(rows))
        for role in ("title", "description", "more_text")
        if role in columns
    }
    titles = texts["title"] if "title" in texts else Strings.of([""] * len(rows))
    return Catalog(
        ids.take(rows),
        titles,
        texts.get("description"),
        {
            name: _to_column(columns[f"a{index}"], kind).take(rows)
            for index, (name, kind) in enumerate(kinds.items())
        },
        CatalogReport(
            rows=len(ids),
            without_product=len(ids) - len(kept),
            without_title=int(np.count_nonzero(titles.lengths == 0)),
            duplicates=len(kept) - len(rows),
        ),
        texts.get("more_text"),
    )


def _refuse_others(
    columns: dict[str, ArrowColumn],
    kept: NDArray[np.int64],
    first: NDArray[np.int64],
    *,
    files: Sequence[str],
) -> None:
    """Raise a DataError for a product that has another title in its first row, or no titles."""
    ids = columns["product"].texts
    if "title" not in columns:
        again = np.flatnonzero(first != np.arange(len(first)))
        if len(again):
            rule = "must be 'first' or 'last' where a product has several rows"
            rule = f"{rule}; got {ids[int(kept[again[0]])]!r}"
            raise DataError(rule, source=files[0], parameter="duplicates")
        return
    texts = columns["title"].texts
    title, _ = texts.take(kept).factorize()
    others = np.flatnonzero(title != title[first])
    if len(others):
        rows = kept[[first[others[0]], others[0]]].tolist()
        number, file = columns["row"].values, columns["file"].values
        shown = " and ".join(f"{texts[r]!r} in row {number[r]} of {files[file[r]]}" for r in rows)
        rule = "must be 'first' or 'last' where a product has several titles"
        raise DataError(f"{rule}; got for {ids[rows[0]]!r}: {shown}", parameter="duplicates")


def _to_column(column: ArrowColumn, kind: ColumnKind) -> Column:
    values, is_null = column.values, column.is_null
    if kind == "text":
        cleaned = clean_markup(column.texts)
        is_used = (cleaned.lengths > 0) | (column.texts.lengths == 0)  # markup alone is no value
        categories, code = renumber(cleaned, is_used)
        return Column(kind, np.append(code, np.int32(-1))[values], categories)
    null = {"number": np.nan, "boolean": -1, "date": NO_DAY}[kind]
    values = values.astype(np.int8) if kind == "boolean" else values.copy()
    if is_null is not None:
        values[is_null] = null
    return Column(kind, values)
