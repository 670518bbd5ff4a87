"""Upserts: how do products that are told one by one become a step?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np

from matchset.data.arrow import NO_DAY
from matchset.data.catalog import Column
from matchset.model.changes import Changes
from matchset.model.fresh import Step, number_versions
from matchset.model.given_rows import check_attributes, check_distinct
from matchset.model.products import Products, take_or_empty, texts_of
from matchset.strings import Strings
from matchset.text import clean_markup

_LARGEST = 2**1023  # that a float holds


@dataclass(frozen=True, slots=True)
class Upsert:
    """A product to add or change. Fields that are not given stay as they are.

    HTML is removed from the title and from attributes that are text.
    """

    id: str
    title: str | None = None  # a new product must have one
    attributes: Mapping[str, Any] = field(default_factory=dict)  # None: no value


def upserting(products: Sequence[Upsert], ids: Sequence[str], version: int | None) -> Step:
    """Return the step that adds or changes products, and removes those with `ids`.

    An id that is empty or told twice is a ValueError, as are a new product without a title, an
    attribute that the model lacks and a value of another kind.
    """
    gone = Strings.of(list(dict.fromkeys(ids)), "remove")
    told = Strings.of([product.id for product in products], "ids")
    named = Strings.concatenate([told, gone])
    check_distinct(named)
    if np.any(told.lengths == 0):
        raise ValueError("a product must have an id; got an empty one")

    def upsert(current: Products) -> Changes:
        rows = _to_rows(products, current)
        versions = number_versions(version, len(rows))
        return Changes(rows, gone, versions, number_versions(version, len(gone)))

    return Step(named, upsert)


def _to_rows(products: Sequence[Upsert], current: Products) -> Products:
    ids = Strings.of([product.id for product in products])
    labels = current.index_of(ids).astype(np.int64)
    check_attributes(dict.fromkeys(name for each in products for name in each.attributes), current)
    given = clean_markup(Strings.of([product.title or "" for product in products]))
    titles = list(take_or_empty(texts_of(current.titles), labels))
    for row, (product, title) in enumerate(zip(products, given, strict=True)):
        if product.title is not None and not title.strip():
            raise ValueError(f"a title must have words; got {product.title!r} for {product.id!r}")
        if product.title is None and labels[row] < 0:
            raise ValueError(f"a new product must have a title; got none for {product.id!r}")
        titles[row] = title or titles[row]
    attributes = {
        name: _change(name, column.take(labels), products)
        for name, column in current.attributes.items()
    }
    more_text = None if current.more_text is None else take_or_empty(current.more_text, labels)
    return Products(ids, Strings.of(titles), attributes, more_text)


def _change(name: str, column: Column, products: Sequence[Upsert]) -> Column:
    """Return an attribute of products, with the values that they come with."""
    told = {i: p.attributes[name] for i, p in enumerate(products) if name in p.attributes}
    if not told:
        return column
    values, given = column.to_list(), [_read_value(name, column.kind, v) for v in told.values()]
    if column.kind == "text":  # as in a catalog that is read
        cleaned = clean_markup(Strings.of([value or "" for value in given]))
        given = [value and (text or None) for value, text in zip(given, cleaned, strict=True)]
    for row, value in zip(told, given, strict=True):
        values[row] = value
    if column.kind == "text":
        known = sorted({v for v in values if v is not None}, key=str.encode)
        code = {text: index for index, text in enumerate(known)}
        codes = [-1 if v is None else code[v] for v in values]
        return Column("text", np.array(codes, dtype=np.int32), Strings.of(known))
    if column.kind == "number":
        return Column("number", np.array([np.nan if v is None else v for v in values], float))
    if column.kind == "boolean":
        return Column("boolean", np.array([-1 if v is None else v for v in values], np.int8))
    days = [NO_DAY if v is None else (v - date(1970, 1, 1)).days for v in values]
    return Column("date", np.array(days, dtype=np.int32))


def _read_value(name: str, kind: str, value: Any) -> Any:
    """Return a JSON value as a value of this kind."""
    if value is None:
        return None
    if kind == "number" and isinstance(value, int | float) and not isinstance(value, bool):
        if (isinstance(value, int) and abs(value) > _LARGEST) or math.isinf(value):
            raise ValueError(f"{name} must be a finite number; got {str(value)[:20]}")
        return float(value)
    if (kind, type(value)) in (("text", str), ("boolean", bool)):
        return value
    if kind == "date" and isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{name} must be a date such as 2026-12-31; got {value!r}") from None
    raise ValueError(f"{name} must be a {kind} as in the model; got {value!r}")
