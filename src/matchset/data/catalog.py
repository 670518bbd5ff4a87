"""Catalogue: what does the shop sell?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from numpy.typing import NDArray

from matchset.strings import Strings


@dataclass(frozen=True, slots=True)
class Column:
    """One attribute of every product; a null is stored as the kind's own null value.

    | kind    | values                                   | null   |
    |---------|------------------------------------------|--------|
    | text    | int32, place in `categories`             | -1     |
    | number  | float64                                  | NaN    |
    | boolean | int8, 0 or 1                             | -1     |
    | date    | int32, days since 1970-01-01             | NO_DAY |
    """

    kind: Literal["text", "number", "boolean", "date"]
    values: NDArray[Any]  # (n_products,)
    categories: Strings | None = None  # distinct texts of a text column, sorted


@dataclass(frozen=True, slots=True)
class Catalog:
    """The shop's products in catalogue order: id, title, perhaps a description, attributes."""

    ids: Strings  # distinct, (n_products,)
    titles: Strings  # (n_products,)
    descriptions: Strings | None = None  # (n_products,)
    attributes: Mapping[str, Column] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)
