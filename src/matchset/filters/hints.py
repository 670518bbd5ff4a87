"""Hints: which values of an expression may be mistakes?"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping

from matchset.data.catalog import Column
from matchset.filters.syntax import And, Attribute, Compare, Condition, Constant, In, Not, Or

_MAX_COMPARED = 2_000  # values of an attribute that are searched for a similar one
_MAX_SHOWN = 40  # characters of a value
_NUMBER_LIKE = re.compile(r"\W*(?:[A-Za-z]{3}\s*)?[+-]?\d[\d.,' ]*\s*[^\d\s-]{0,4}")


def find_hints(condition: Condition, attributes: Mapping[str, Column]) -> tuple[str, ...]:
    """A sentence for each text that no product has, or that is a number compared as text.

    Neither is an error: the shop may have had such products. But it is often a mistake.
    """
    hints = (
        _hint(attribute, constant, attributes[attribute.name])
        for attribute, constant in _equated(condition)
        if attribute.name in attributes
    )
    ordered = (
        _hint_at_order(compared, attributes[compared.attribute.name])
        for compared in _ordered(condition)
        if compared.attribute.name in attributes
    )
    return tuple(dict.fromkeys(filter(None, (*hints, *ordered))))


def _ordered(condition: Condition) -> Iterator[Compare]:
    match condition:
        case Not(inner):
            yield from _ordered(inner)
        case And(parts) | Or(parts):
            for part in parts:
                yield from _ordered(part)
        case Compare(_, "<" | "<=" | ">" | ">=", _):
            yield condition


def _hint_at_order(compared: Compare, column: Column) -> str | None:
    text = compared.constant.value
    if column.kind != "text" or not isinstance(text, str) or len(text) > _MAX_SHOWN:
        return None
    if not _NUMBER_LIKE.fullmatch(text):
        return None
    return (
        f"{compared.attribute} is text, so {compared} compares character by character: "
        "'1000' is less than '9'"
    )


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
    index = bisect_left(values, text)
    if index < len(values) and values[index] == text:
        return None
    shown = text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."
    close: list[str] = []
    if len(values) <= _MAX_COMPARED and len(text) <= _MAX_SHOWN:
        by_lower = {value.lower(): value for value in values}
        close = [by_lower[one] for one in difflib.get_close_matches(text.lower(), by_lower, n=1)]
    suggestion = f" (did you mean {close[0]!r}?)" if close else ""
    return f"no product has {attribute} = {shown!r}{suggestion}"
