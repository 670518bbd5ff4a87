"""Upserts: how do products that are told one by one become a step?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import numpy as np

from matchset.data.arrow import NO_DAY
from matchset.data.catalog import Column
from matchset.model.changes import Changes
from matchset.model.fresh import Step, number_versions
from matchset.model.products import Products, take_or_empty
from matchset.strings import Strings


@dataclass(frozen=True, slots=True)
class Upsert:
    """A product that comes or changes; what is not told stays as it is."""

    id: str
    title: str | None = None  # a new product must have one
    attributes: Mapping[str, Any] = field(default_factory=dict)  # None: no value


def upserting(products: Sequence[Upsert], ids: Sequence[str], version: int | None) -> Step:
    """The step that adds or changes products, and removes those with `ids`.

    The last one counts where an id is told twice. One that is new and has no title is a ValueError,
    as is an attribute that the model lacks or a value of another kind.
    """
    removed = set(ids)
    told = {product.id: product for product in products if product.id not in removed}
    gone = Strings.of(list(dict.fromkeys(ids)))

    def upsert(current: Products) -> Changes:
        rows = _to_rows(list(told.values()), current)
        versions = number_versions(version, len(rows))
        return Changes(rows, gone, versions, number_versions(version, len(gone)))

    return Step(Strings.of(list(told)), upsert)


def _to_rows(products: Sequence[Upsert], current: Products) -> Products:
    ids = Strings.of([product.id for product in products])
    labels = current.index_of(ids).astype(np.int64)
    for product, label in zip(products, labels.tolist(), strict=True):
        if label < 0 and not product.title:
            raise ValueError(f"a new product must have a title; got none for {product.id!r}")
        for name in product.attributes:
            if name not in current.attributes:
                known = ", ".join(current.attributes) or "none at all"
                raise ValueError(f"attributes must be among {known}; got {name!r}")
    before = [] if current.titles is None else take_or_empty(current.titles, labels)
    titles = [p.title or old for p, old in zip(products, before, strict=True)]
    attributes = {
        name: _change(name, column.take(labels), products)
        for name, column in current.attributes.items()
    }
    more_text = None if current.more_text is None else take_or_empty(current.more_text, labels)
    return Products(ids, Strings.of(titles), attributes, more_text)


def _change(name: str, column: Column, products: Sequence[Upsert]) -> Column:
    """An attribute of products, with the values that they come with."""
    told = {i: p.attributes[name] for i, p in enumerate(products) if name in p.attributes}
    if not told:
        return column
    values = column.to_list()
    for row, value in told.items():
        values[row] = _read_value(name, column.kind, value)
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
    """A JSON value as a value of this kind."""
    if value is None:
        return None
    if kind == "number" and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if (kind, type(value)) in (("text", str), ("boolean", bool)):
        return value
    if kind == "date" and isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{name} must be a date such as 2026-12-31; got {value!r}") from None
    raise ValueError(f"{name} must be a {kind} as in the model; got {value!r}")
