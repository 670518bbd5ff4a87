"""Given rows: how does a table of products become rows like those of the model?"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from matchset.data.catalog import Catalog, Column
from matchset.model.products import (
    Products,
    join_products,
    take_or_empty,
    texts_of,
    unite,
)
from matchset.strings import Strings


def to_rows(catalog: Catalog, current: Products) -> Products:
    """Products of a catalog, instead of those with their ids.

    What the catalog lacks stays as it is: a column, or the more text. A cell that is null is
    cleared, but for a title, on which hangs what was learned of a product. An attribute of another
    kind is converted where that loses nothing: numbers, booleans and dates to texts in their plain
    form, 0 and 1 to booleans. One that cannot be, or that the model lacks, is a ValueError.
    """
    check_attributes(catalog.attributes, current)
    check_distinct(catalog.ids)
    labels = current.index_of(catalog.ids).astype(np.int64)
    attributes = {
        name: _convert(name, catalog.attributes[name], column, catalog.ids)
        if name in catalog.attributes
        else column.take(labels)
        for name, column in current.attributes.items()
    }
    titles = _unless_empty(catalog.titles, take_or_empty(texts_of(current.titles), labels))
    more_text = None
    if current.more_text is not None:
        before = take_or_empty(current.more_text, labels)
        more_text = before if catalog.more_text is None else catalog.more_text
    return Products(catalog.ids, titles, attributes, more_text)


def known_rows(catalog: Catalog, current: Products) -> tuple[Products, int]:
    """Return the rows of products that are there, and how many others there are."""
    known = np.flatnonzero(current.index_of(catalog.ids) >= 0)
    return join_products([to_rows(catalog, current)], known), len(catalog) - len(known)


def _unless_empty(texts: Strings | None, otherwise: Strings) -> Strings:
    return otherwise if texts is None else unite([otherwise, texts], texts.lengths > 0)


def check_attributes(names: Iterable[str], current: Products) -> None:
    """Raise a ValueError about attributes that products do not have."""
    if unknown := [name for name in names if name not in current.attributes]:
        known = ", ".join(current.attributes) or "none at all"
        rule = f"attributes must be among those of the model, {known}"
        raise ValueError(f"{rule}; got {', '.join(map(repr, unknown))}")


def check_distinct(ids: Strings) -> None:
    """Raise a ValueError about a product that a step tells twice."""
    group, first = ids.factorize()
    if len(first) < len(ids):
        again = np.flatnonzero(first[group] != np.arange(len(ids)))[0]
        raise ValueError(f"a step must have each product once; got {ids[int(again)]!r} twice")


def _convert(name: str, given: Column, wanted: Column, ids: Strings) -> Column:
    """Return an attribute as the kind that it has in the model."""
    if given.kind == wanted.kind:
        return given
    if given.is_null.all():
        return wanted.take(np.full(len(given.values), -1, dtype=np.int64))
    if wanted.kind == "text":
        return _to_texts(given)
    is_zero_or_one = np.isin(given.values, [0, 1]) | given.is_null
    if (given.kind, wanted.kind) == ("number", "boolean") and is_zero_or_one.all():
        return Column("boolean", np.where(given.is_null, -1, given.values).astype(np.int8))
    row, value = _find_odd(given)
    rule = f"{name} must be a {wanted.kind} as in the model"
    raise ValueError(f"{rule}; got a {given.kind}, such as {value!r} of product {ids[row]!r}")


def _find_odd(given: Column) -> tuple[int, object]:
    """Return a row of a column to show, and its value: the first non-number, else the first."""
    values = [(row, value) for row, value in enumerate(given.to_list()) if value is not None]
    plain = re.compile(r"\s*[-+]?[0-9]+([.,][0-9]+)*\s*")
    return next((each for each in values if not plain.fullmatch(str(each[1]))), values[0])


def _to_texts(given: Column) -> Column:
    """Numbers, booleans or dates as they are written."""
    texts = ["" if value is None else _write(value) for value in given.to_list()]
    written = Strings.of(texts)
    group, first = written.factorize()
    distinct = written.take(first)
    order = distinct.argsort()
    code = np.argsort(order)[group]
    values = np.where(given.is_null, -1, code).astype(np.int32)
    return drop_unused(Column("text", values, distinct.take(order)))


def drop_unused(column: Column) -> Column:
    """Return the same values, with the categories that occur."""
    if column.categories is None:
        return column
    used = np.unique(column.values[column.values >= 0])
    code = np.append(np.searchsorted(used, column.values), 0)[: len(column.values)]
    values = np.where(column.values < 0, -1, code).astype(np.int32)
    return Column("text", values, column.categories.take(used))


def _write(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
