"""Predicate: which products satisfy an expression?"""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, NoReturn, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Column, ColumnKind
from matchset.errors import FilterError
from matchset.filters.parser import parse_date
from matchset.filters.patterns import match_pattern
from matchset.filters.syntax import (
    And,
    Attribute,
    Compare,
    Condition,
    Constant,
    Expression,
    In,
    IsNull,
    Like,
    Not,
    Operator,
    Or,
    Value,
)
from matchset.strings import Strings

Mask: TypeAlias = NDArray[np.bool_]

_NO_CODE = -2  # the code of a text that no product has; -1 is null
_MAX_NAMES = 20  # attributes listed in an error
_NO_TEXTS = Strings.of([])
_EPOCH = date(1970, 1, 1)
_COMPARE: dict[Operator, Callable[[Any, Any], Any]] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_OPPOSITE: dict[Operator, Operator] = {
    "=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">",
}  # fmt: skip
_WANTED = {
    "text": "text in quotes",
    "number": "a number",
    "boolean": "true or false",
    "date": "a date like '2026-10-01'",
}


def evaluate(expression: Expression, attributes: Mapping[str, Column], n_products: int) -> Mask:
    """The products that satisfy an expression, (n_products,).

    False and unknown are not distinguished: every `not` is pushed down to the comparisons (De
    Morgan's laws hold in three-valued logic), where a null satisfies neither an operator nor its
    opposite.
    """
    evaluator = _Evaluator(expression.text, attributes, n_products)
    return evaluator.hold(expression.condition, is_negated=False)


@dataclass(frozen=True, slots=True)
class _Evaluator:
    text: str
    attributes: Mapping[str, Column]
    n_products: int

    def hold(self, condition: Condition, *, is_negated: bool) -> Mask:
        """Where a condition is true, or where it is false."""
        match condition:
            case Not(inner):
                return self.hold(inner, is_negated=not is_negated)
            case And(parts):
                return self.combine(parts, is_all=not is_negated, is_negated=is_negated)
            case Or(parts):
                return self.combine(parts, is_all=is_negated, is_negated=is_negated)
            case Attribute():
                return self.is_true(condition, is_negated=is_negated)
            case IsNull(attribute):
                is_null = self.column(attribute).is_null
                return ~is_null if is_negated else is_null
            case Compare():
                return self.compare(condition, is_negated=is_negated)
            case In():
                return self.is_in(condition, is_negated=is_negated)
            case Like():
                return self.is_like(condition, is_negated=is_negated)
            case _:
                assert_never(condition)

    def combine(self, parts: tuple[Condition, ...], *, is_all: bool, is_negated: bool) -> Mask:
        combined = np.full(self.n_products, is_all, dtype=np.bool_)
        merge = np.logical_and if is_all else np.logical_or
        for part in parts:
            merge(combined, self.hold(part, is_negated=is_negated), out=combined)
        return combined

    def is_true(self, attribute: Attribute, *, is_negated: bool) -> Mask:
        column = self.column(attribute)
        if column.kind != "boolean":
            wanted = f"be compared with {_WANTED[column.kind]}"
            self.fail(f"{attribute} ({column.kind}) must {wanted}; got no operator", attribute)
        mask: Mask = column.values == (0 if is_negated else 1)
        return mask

    def compare(self, condition: Compare, *, is_negated: bool) -> Mask:
        column = self.column(condition.attribute)
        value = self.value(condition.attribute, column, condition.constant)
        operator = condition.operator
        if column.kind == "boolean" and operator not in ("=", "!="):
            rule = f"{condition.attribute} (boolean) must be compared by = or !=; got {operator}"
            self.fail(rule, condition.attribute)
        if is_negated:
            operator = _OPPOSITE[operator]
        if column.kind == "text":
            operator, value = _to_code(column, operator, value)
        mask: Mask = _COMPARE[operator](column.values, value)
        mask &= ~column.is_null
        return mask

    def is_in(self, condition: In, *, is_negated: bool) -> Mask:
        column = self.column(condition.attribute)
        values = [self.value(condition.attribute, column, one) for one in condition.constants]
        if column.kind == "text":
            values = [_to_code(column, "=", value)[1] for value in values]
        mask = np.isin(column.values, values, invert=is_negated)
        mask &= ~column.is_null
        return mask

    def is_like(self, condition: Like, *, is_negated: bool) -> Mask:
        column = self.column(condition.attribute)
        if column.categories is None:
            rule = f"{condition.attribute} ({column.kind}) must be text for like; got {column.kind}"
            self.fail(rule, condition.attribute)
        found = match_pattern(str(condition.pattern.value), column.categories)
        mask = np.append(found != is_negated, np.False_)[column.values]  # null is -1, the last
        return np.asarray(mask, dtype=np.bool_)

    def column(self, attribute: Attribute) -> Column:
        column = self.attributes.get(attribute.name)
        if column is None:
            self.fail(_unknown(attribute.name, self.attributes), attribute)
        return column

    def value(self, attribute: Attribute, column: Column, constant: Constant) -> Any:
        """A value as the column holds it; for text, the text."""
        stored = _to_stored(column.kind, constant.value)
        if stored is None:
            wanted = f"be compared with {_WANTED[column.kind]}"
            self.fail(f"{attribute} ({column.kind}) must {wanted}; got {constant}", constant)
        return stored

    def fail(self, rule: str, where: Attribute | Constant) -> NoReturn:
        raise FilterError(rule, self.text, where.position)


def _to_stored(kind: ColumnKind, value: Value) -> str | float | int | None:
    """A value as columns of a kind hold it; None if it is of another kind."""
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


def _to_code(column: Column, operator: Operator, text: str) -> tuple[Operator, int]:
    """The comparison of codes that equals that of the texts: categories are sorted."""
    categories = column.categories if column.categories is not None else _NO_TEXTS
    index = bisect_left(categories, text)
    if index < len(categories) and categories[index] == text:
        return operator, index
    if operator in ("=", "!="):
        return operator, _NO_CODE
    return ("<" if operator in ("<", "<=") else ">="), index


def _unknown(name: str, attributes: Mapping[str, Column]) -> str:
    if not attributes:
        return f"a filter needs a catalog with attributes; got {name!r}, but there are none"
    listed = [f"{one} ({column.kind})" for one, column in attributes.items()][:_MAX_NAMES]
    if len(attributes) > _MAX_NAMES:
        listed.append(f"{len(attributes) - _MAX_NAMES} more")
    by_lower = {one.lower(): one for one in attributes}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    hint = f" (did you mean {by_lower[close[0]]!r}?)" if close else ""
    got = name if len(name) <= 40 else f"{name[:37]}..."
    return f"an attribute must be one of {', '.join(listed)}; got {got!r}{hint}"
