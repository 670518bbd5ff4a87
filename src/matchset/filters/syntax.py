"""Syntax: what is an expression once it is parsed?

Every condition prints as text that parses back to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from typing import Literal, TypeAlias

Value: TypeAlias = str | float | bool | date
Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]

KEYWORDS = frozenset({"and", "or", "not", "in", "is", "null", "true", "false", "like", "between"})
PLAIN_NAME = re.compile(r"[^\W\d]\w*")
ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t"}  # what follows a backslash


@dataclass(frozen=True, slots=True)
class Attribute:
    """The name of an attribute; by itself, the condition that it is true."""

    name: str
    position: int = field(default=0, compare=False)  # in the text of the expression, for errors

    def __str__(self) -> str:
        if PLAIN_NAME.fullmatch(self.name) and self.name.lower() not in KEYWORDS:
            return self.name
        return "`" + self.name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class Constant:
    """A value, and its position in the text."""

    value: Value
    position: int = field(default=0, compare=False)

    def __str__(self) -> str:
        if isinstance(self.value, bool):
            return str(self.value).lower()
        if isinstance(self.value, float):
            return repr(self.value).removesuffix(".0")
        if isinstance(self.value, date):
            return f"date '{self.value.isoformat()}'"
        return "'" + self.value.replace("\\", "\\\\").replace("'", "''") + "'"


@dataclass(frozen=True, slots=True)
class Compare:
    """An attribute against a value; `20 > price` is read as `price < 20`."""

    attribute: Attribute
    operator: Operator
    constant: Constant

    def __str__(self) -> str:
        return f"{self.attribute} {self.operator} {self.constant}"


@dataclass(frozen=True, slots=True)
class In:
    """An attribute that is one of some values."""

    attribute: Attribute
    constants: tuple[Constant, ...]

    def __str__(self) -> str:
        return f"{self.attribute} in ({', '.join(map(str, self.constants))})"


@dataclass(frozen=True, slots=True)
class Like:
    """A text that has a pattern: % stands for any characters, _ for one."""

    attribute: Attribute
    pattern: Constant

    def __str__(self) -> str:
        return f"{self.attribute} like {self.pattern}"


@dataclass(frozen=True, slots=True)
class IsNull:
    """An attribute that has no value."""

    attribute: Attribute

    def __str__(self) -> str:
        return f"{self.attribute} is null"


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; also what `not in`, `not like` and `is not null` are read as."""

    condition: Condition

    def __str__(self) -> str:
        return f"not ({self.condition})"


@dataclass(frozen=True, slots=True)
class And:
    """All of at least two conditions."""

    conditions: tuple[Condition, ...]

    def __str__(self) -> str:
        return _join(self.conditions, " and ")


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of at least two conditions."""

    conditions: tuple[Condition, ...]

    def __str__(self) -> str:
        return _join(self.conditions, " or ")


Condition: TypeAlias = Attribute | Compare | In | Like | IsNull | Not | And | Or


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition and the text that it was read from."""

    text: str = field(compare=False)
    condition: Condition


def find_names(condition: Condition) -> Iterator[str]:
    """The attributes that a condition reads."""
    match condition:
        case Attribute(name):
            yield name
        case Not(inner):
            yield from find_names(inner)
        case And(parts) | Or(parts):
            for part in parts:
                yield from find_names(part)
        case _:
            yield condition.attribute.name


def _join(conditions: tuple[Condition, ...], word: str) -> str:
    return word.join(f"({one})" if isinstance(one, And | Or) else str(one) for one in conditions)
