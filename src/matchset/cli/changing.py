"""Changing products: how do products come, change and go without a retraining?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from matchset.cli.console import print_text
from matchset.cli.flags import READING, LogColumns
from matchset.data.catalog import Catalog
from matchset.data.catalog_reader import Duplicates, read_catalog
from matchset.data.value_forms import Decimal
from matchset.errors import InputError, ParameterError
from matchset.matchers.match_set import MatchSet
from matchset.matchers.model_writer import Writer, open_writer
from matchset.model.changes import is_same_row
from matchset.model.products import join_products
from matchset.strings import Strings


@Parameter(name="*", group=READING)
@dataclass(frozen=True, slots=True, kw_only=True)
class ProductColumns:
    """How a file of products is read."""

    product: str | None = None
    "Column of the product id."
    title: str | None = None
    "Column of the title; an update needs none."
    text: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")] = ()
    "Columns to search in addition to the title, as in training."
    attributes: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")] = (
        None
    )
    "Columns to read as attributes; all others if not set."
    duplicates: Duplicates = "error"
    "Which row to keep if the file has a product with several titles."
    time_format: str | None = None
    "Format of dates that are not ISO, such as %d/%m/%Y."
    decimal: Decimal | None = None
    "Decimal separator of prices and of numbers with a decimal comma."
    encoding: str | None = None
    "Encoding of text files that are not UTF-8, such as cp1252 or utf-16."

    def read(self, file: Path, *, requires_title: bool = False) -> Catalog:
        """Read the products."""
        return read_catalog(
            str(file),
            product=self.product,
            title=self.title,
            text=self.text,
            attributes=self.attributes,
            duplicates=self.duplicates,
            time_format=self.time_format,
            decimal=self.decimal,
            encoding=self.encoding,
            requires_title=requires_title,
        )


COLUMNS, LOG_COLUMNS = ProductColumns(), LogColumns()
_FEW = 5  # ids that are shown of many


def add(
    model: Path,
    file: Path,
    /,
    *,
    version: int | None = None,
    columns: ProductColumns = COLUMNS,
) -> None:
    """Add products to a model without retraining; they are found at once.

    A product that the model already has gets the new values; columns that the file lacks keep the
    old ones. An empty title keeps the old one.

    Parameters
    ----------
    model
        File of a match set that was trained with a catalog.
    file
        The products: id, title and attributes; Parquet, CSV, TSV or JSON Lines.
    version
        Number of this change: products that have this version or a later one stay as they are.
    columns
        Columns of the file.

    """
    goods = columns.read(file, requires_title=True)
    _take(model, goods.ids, lambda writer: writer.add(goods, version=version))


def update(
    model: Path,
    file: Path,
    /,
    *,
    version: int | None = None,
    columns: ProductColumns = COLUMNS,
) -> None:
    """Change titles or attributes of a model's products; filters see prices and stock at once.

    Parameters
    ----------
    model
        File of a match set that was trained with a catalog.
    file
        Ids, and the columns that change: titles, attributes, or both. Empty cells delete values.
    version
        Number of this change: products that have this version or a later one stay as they are.
    columns
        Columns of the file.

    """
    goods = columns.read(file)
    _take(model, goods.ids, lambda writer: writer.update(goods, version=version))


def remove(
    model: Path,
    file: Path | None = None,
    /,
    *,
    id: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")] = (),  # noqa: A002
    version: int | None = None,
    product: Annotated[str | None, Parameter(group=READING)] = None,
    encoding: Annotated[str | None, Parameter(group=READING)] = None,
) -> None:
    """Remove products from a model; they are never shown again.

    Parameters
    ----------
    model
        File of a match set that was trained with a catalog.
    file
        A table with the ids.
    id
        Product ids, instead of a file or in addition to one.
    version
        Number of this change: products that have this version or a later one stay as they are.
    product
        Column of the product id.
    encoding
        Encoding of text files that are not UTF-8, such as cp1252 or utf-16.

    """
    if file is None and not id:
        raise ParameterError("must be given, or a file; got neither", parameter="id")
    ids = [*id, *(() if file is None else _read_ids(file, product, encoding))]
    _take(model, Strings.of(ids, "ids"), lambda writer: writer.remove(ids, version=version))


def refresh(
    model: Path,
    log: list[str],
    /,
    *,
    old_log: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")] = (),
    columns: LogColumns = LOG_COLUMNS,
) -> None:
    """Learn from the log since the training, far cheaper than by a full training.

    It says when a full training is due, and learns changes of products too. N-grams and their
    embeddings, leaves of the tree without new pairs, and the re-ranker stay as they are.

    Parameters
    ----------
    model
        File of a match set that was trained with a catalog.
    log
        Files, globs or folders of what customers did since then.
    old_log
        The log that the model was trained on. Without it, old pairs come from the past queries in
        the model, which lack pairs with too few events and, in very large logs, rare queries.
    columns
        Columns of the logs.

    """
    with open_writer(model) as writer:
        writer.matcher.check_refresh()
        old = columns.read(list(old_log)) if old_log else None
        refreshed = writer.refresh(columns.read(log), old)
    _tell(refreshed)
    print_text(str(refreshed.refreshed))


def _read_ids(file: Path, product: str | None, encoding: str | None) -> Strings:
    """Return the ids of a table, each once, whatever else is in it."""
    return read_catalog(
        str(file),
        product=product,
        title=False,
        description=False,
        attributes=(),
        duplicates="first",
        encoding=encoding,
        requires_title=False,
    ).ids


def _take(model: Path, ids: Strings, step: Callable[[Writer], MatchSet]) -> None:
    """Take a step, and print what it did to the products that it names."""
    with open_writer(model) as writer:
        before = writer.matcher
        try:
            after = step(writer)
        except OSError as error:
            if isinstance(error, InputError):
                raise
            raise OSError(f"{model}: {error.strerror or error}; nothing changed") from None
    _tell_step(before, after, ids)
    _tell(after)


def _tell_step(before: MatchSet, after: MatchSet, ids: Strings) -> None:
    named = ids.take(ids.factorize()[1])
    was, now = before.products.index_of(named), after.products.index_of(named)
    stayed = (was >= 0) & (now >= 0)
    kept = join_products([after.products], now[stayed].astype(np.int64))
    n_same = int(np.count_nonzero(is_same_row(before.products, kept)))
    counts = {
        "added": np.count_nonzero((was < 0) & (now >= 0)),
        "updated": np.count_nonzero(stayed) - n_same,
        "removed": np.count_nonzero((was >= 0) & (now < 0)),
        "unchanged": n_same,
    }
    unknown = named.take(np.flatnonzero((was < 0) & (now < 0)))
    told = ", ".join(f"{n:,} {name}" for name, n in counts.items())
    few = ", ".join(list(unknown.take(np.arange(min(_FEW, len(unknown))))))
    more = ", ..." if len(unknown) > _FEW else ""
    print_text(f"{told}" + (f", {len(unknown):,} not in the model: {few}{more}" if few else ""))


def _tell(matcher: MatchSet) -> None:
    """Print what the model holds now."""
    print_text(f"{len(matcher.products):,} products; {matcher.freshness}")
