"""Hints: which values of an expression may be mistakes?"""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping

from matchset.data.catalog import Column
from matchset.filters.syntax import Constant, Expression, Term

_MAX_COMPARED = 2_000  # values of an attribute that are searched for a similar one
_MAX_SHOWN = 40  # characters of a value
_NUMBER_LIKE = re.compile(r"\W*(?:[A-Za-z]{3}\s*)?[+-]?\d[\d.,' ]*\s*[^\d\s-]{0,4}")


def find_hints(expression: Expression, attributes: Mapping[str, Column]) -> tuple[str, ...]:
    """Return a sentence for each text that no product has, or that is a number compared as text.

    Neither is an error: the shop may have had such products. But it is often a mistake.
    """
    hints = (
        hint
        for term in expression.terms()
        for constant in term.constants
        for hint in _hints(term, constant, attributes[term.attribute.name])
    )
    return tuple(dict.fromkeys(hints))


def _hints(term: Term, constant: Constant, column: Column) -> Iterator[str]:
    text = constant.value
    if column.categories is None or not isinstance(text, str):
        return
    if term.operator in ("=", "!=", "in"):
        index = bisect_left(column.categories, text)
        if index == len(column.categories) or column.categories[index] != text:
            shown = text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."
            yield f"no product has {term.attribute} = {shown!r}{_suggest(text, column)}"
    elif term.operator != "like" and len(text) <= _MAX_SHOWN and _NUMBER_LIKE.fullmatch(text):
        yield (
            f"{term.attribute} is text, so {term} compares character by character: "
            "'1000' is less than '9'"
        )


def _suggest(text: str, column: Column) -> str:
    if len(column.categories or ()) > _MAX_COMPARED or len(text) > _MAX_SHOWN:
        return ""
    by_lower = {value.lower(): value for value in column.categories or ()}
    close = difflib.get_close_matches(text.lower(), by_lower, n=1)
    return f" (did you mean {by_lower[close[0]]!r}?)" if close else ""
