"""Predicate: which products satisfy an expression?"""

from __future__ import annotations

import difflib
import operator
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Column, ColumnKind
from matchset.errors import FilterError
from matchset.filters.parser import parse_date
from matchset.filters.syntax import (
    Attribute,
    Condition,
    Constant,
    Expression,
    Joined,
    Not,
    Term,
    Value,
)
from matchset.strings import Strings

Mask: TypeAlias = NDArray[np.bool_]

_NO_CODE = -2  # the code of a text that no product has; -1 is null
_MAX_NAMES = 20  # attributes listed in an error
_MAX_SHOWN = 40  # characters of a name
_NO_TEXTS = Strings.of([])
_EPOCH = date(1970, 1, 1)
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
_WANTED = {
    "text": "text in quotes",
    "number": "a number",
    "boolean": "true or false",
    "date": "a date like '2026-10-01'",
}


def evaluate(expression: Expression, attributes: Mapping[str, Column], n_products: int) -> Mask:
    """Return which products satisfy an expression, (n_products,).

    False and unknown are not distinguished: every `not` is pushed down to the terms (De Morgan's
    laws hold in three-valued logic), where a null satisfies neither a term nor its opposite.
    """
    evaluator = _Evaluator(expression.text, attributes, n_products)
    return evaluator.hold(expression.condition, is_negated=False)


@dataclass(frozen=True, slots=True)
class _Evaluator:
    text: str
    attributes: Mapping[str, Column]
    n_products: int

    def hold(self, condition: Condition, *, is_negated: bool) -> Mask:
        """Return where a condition is true, or where it is false."""
        match condition:
            case Not(inner):
                return self.hold(inner, is_negated=not is_negated)
            case Joined(word, parts):
                is_all = (word == "and") != is_negated
                combined = np.full(self.n_products, is_all, dtype=np.bool_)
                merge = np.logical_and if is_all else np.logical_or
                for part in parts:
                    merge(combined, self.hold(part, is_negated=is_negated), out=combined)
                return combined
            case Term():
                column = self.column(condition.attribute)
                is_null = column.is_null
                if condition.operator == "is null":
                    return np.asarray(is_null != is_negated)
                return np.asarray((self.compare(condition, column) != is_negated) & ~is_null)

    def compare(self, term: Term, column: Column) -> Mask:
        """Return where a term is true; what it says where there is no value does not matter."""
        attribute, sign = term.attribute, str(term.operator)
        name = f"{attribute} ({column.kind}) must"
        if sign == "is true":
            if column.kind != "boolean":
                rule = f"{name} be compared with {_WANTED[column.kind]}; got no operator"
                self.fail(rule, attribute)
            return np.asarray(column.values == 1)
        if sign == "like":
            if column.categories is None:
                self.fail(f"{name} be text for like; got {column.kind}", attribute)
            is_like = match_pattern(str(term.constants[0].value), column.categories)
            return np.asarray(np.append(is_like, np.False_)[column.values])  # null is -1, the last
        values = [self.value(term.attribute, column, one) for one in term.constants]
        if column.kind == "boolean" and sign not in ("=", "!=", "in"):
            self.fail(f"{name} be compared by = or !=; got {sign}", attribute)
        if sign == "in":
            codes = [_to_code(column, "=", value)[1] for value in values]
            return np.isin(column.values, codes)
        sign, value = _to_code(column, sign, values[0])
        mask: Mask = _COMPARE[sign](column.values, value)
        return mask

    def column(self, attribute: Attribute) -> Column:
        column = self.attributes.get(attribute.name)
        if column is None:
            self.fail(_unknown(attribute.name, self.attributes), attribute)
        return column

    def value(self, attribute: Attribute, column: Column, constant: Constant) -> Any:
        """Return a value as the column holds it; for text, the text."""
        stored = _to_stored(column.kind, constant.value)
        if stored is None:
            wanted = f"be compared with {_WANTED[column.kind]}"
            self.fail(f"{attribute} ({column.kind}) must {wanted}; got {constant}", constant)
        return stored

    def fail(self, rule: str, where: Attribute | Constant) -> NoReturn:
        raise FilterError(rule, self.text, where.position)


def match_pattern(pattern: str, texts: Strings) -> Mask:
    """Return which texts have a pattern of % (any characters) and _ (one), (n_texts,).

    Patterns come from users. What stands between two % is found as far left as it can be, which
    leaves most to the rest, and never again: so matching takes no exponential time.
    """
    runs = [""]
    for sign in re.findall(r"\\.|.", pattern, re.DOTALL):
        if sign == "%":
            runs.append("")
        else:
            runs[-1] += "." if sign == "_" else re.escape(sign[-1])
    first, *others = runs
    middle = "".join(f"(?>.*?{run})" for run in others[:-1])
    end = f".*{others[-1]}" if others else ""
    has_pattern = re.compile(f"{first}{middle}{end}", re.DOTALL).fullmatch
    return np.fromiter((has_pattern(text) is not None for text in texts), dtype=np.bool_)


def _to_stored(kind: ColumnKind, value: Value) -> str | float | int | None:
    """Return a value as columns of a kind hold it; None if it is of another kind."""
    match kind, value:
        case ("boolean", bool(stored)) | ("text", str(stored)) | ("number", float(stored)):
            return stored
        case "date", date() as day:
            return (day - _EPOCH).days
        case "date", str(text):
            parsed = parse_date(text)
            return None if parsed is None else (parsed - _EPOCH).days
        case _:
            return None


def _to_code(column: Column, sign: str, value: Any) -> tuple[str, Any]:
    """Return the comparison of codes that equals that of texts: categories are sorted."""
    if column.kind != "text":
        return sign, value
    categories = column.categories if column.categories is not None else _NO_TEXTS
    index = bisect_left(categories, value)
    if index < len(categories) and categories[index] == value:
        return sign, index
    if sign in ("=", "!="):
        return sign, _NO_CODE
    return ("<" if sign in ("<", "<=") else ">="), index


def _unknown(name: str, attributes: Mapping[str, Column]) -> str:
    if not attributes:
        return f"a filter needs a catalog with attributes; got {name!r}, but there are none"
    listed = [f"{one} ({column.kind})" for one, column in attributes.items()][:_MAX_NAMES]
    if len(attributes) > _MAX_NAMES:
        listed.append(f"{len(attributes) - _MAX_NAMES} more")
    by_lower = {one.lower(): one for one in attributes}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    hint = f" (did you mean {by_lower[close[0]]!r}?)" if close else ""
    got = name if len(name) <= _MAX_SHOWN else f"{name[: _MAX_SHOWN - 3]}..."
    return f"an attribute must be one of {', '.join(listed)}; got {got!r}{hint}"
