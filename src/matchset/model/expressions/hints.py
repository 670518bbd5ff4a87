"""Hints: which texts of an expression has no product?"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections.abc import Iterator, Mapping

from matchset.data.catalog import Column
from matchset.model.expressions.syntax import (
    And,
    Attribute,
    Compare,
    Condition,
    Constant,
    In,
    Not,
    Or,
)

_MOST_COMPARED = 2_000  # values of an attribute among which a similar one is looked for
_LONGEST = 40  # characters of a value that are shown


def find_hints(condition: Condition, attributes: Mapping[str, Column]) -> tuple[str, ...]:
    """A sentence for each text that an attribute is compared with and that no product has.

    That is no mistake by itself, since the shop may have had such products; but often it is one.
    """
    hints = (
        _hint(attribute, constant, attributes[attribute.name])
        for attribute, constant in _equated(condition)
        if attribute.name in attributes
    )
    return tuple(dict.fromkeys(filter(None, hints)))


def _equated(condition: Condition) -> Iterator[tuple[Attribute, Constant]]:
    match condition:
        case Not(inner):
            yield from _equated(inner)
        case And(parts) | Or(parts):
            for part in parts:
                yield from _equated(part)
        case Compare(attribute, "=" | "!=", constant):
            yield attribute, constant
        case In(attribute, constants):
            yield from ((attribute, constant) for constant in constants)


def _hint(attribute: Attribute, constant: Constant, column: Column) -> str | None:
    values, text = column.categories, constant.value
    if values is None or not isinstance(text, str):
        return None
    place = bisect_left(values, text)
    if place < len(values) and values[place] == text:
        return None
    shown = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
    close: list[str] = []
    if len(values) <= _MOST_COMPARED and len(text) <= _LONGEST:
        by_lower = {value.lower(): value for value in values}
        close = [by_lower[one] for one in difflib.get_close_matches(text.lower(), by_lower, n=1)]
    suggestion = f" (did you mean {close[0]!r}?)" if close else ""
    return f"no product has {attribute} = {shown!r}{suggestion}"
