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
Operator: TypeAlias = Literal[
    "=", "!=", "<", "<=", ">", ">=", "in", "like", "is null", "is true"
]  # fmt: skip

KEYWORDS = frozenset({"and", "or", "not", "in", "is", "null", "true", "false", "like", "between"})
PLAIN_NAME = re.compile(r"[^\W\d]\w*")
ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t"}  # what follows a backslash


@dataclass(frozen=True, slots=True)
class Attribute:
    """The name of an attribute."""

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
class Term:
    """An attribute against a value, several (`in`) or none; `20 > price` is `price < 20`."""

    attribute: Attribute
    operator: Operator = "is true"
    constants: tuple[Constant, ...] = ()

    def __str__(self) -> str:
        if self.operator == "is true":
            return str(self.attribute)
        values = ", ".join(map(str, self.constants))
        values = f"({values})" if self.operator == "in" else values
        return f"{self.attribute} {self.operator} {values}".rstrip(" ")


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; also what `not in`, `not like` and `is not null` are read as."""

    condition: Condition

    def __str__(self) -> str:
        return f"not ({self.condition})"


@dataclass(frozen=True, slots=True)
class Joined:
    """At least two conditions, of which all (`and`) or one (`or`) must be true."""

    word: Literal["and", "or"]
    conditions: tuple[Condition, ...]

    def __str__(self) -> str:
        texts = [f"({one})" if isinstance(one, Joined) else str(one) for one in self.conditions]
        return f" {self.word} ".join(texts)


Condition: TypeAlias = Term | Not | Joined


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition and the text that it was read from."""

    text: str = field(compare=False)
    condition: Condition

    def terms(self) -> Iterator[Term]:
        """Yield the terms, from left to right."""
        return _find_terms(self.condition)


def _find_terms(condition: Condition) -> Iterator[Term]:
    match condition:
        case Not(inner):
            yield from _find_terms(inner)
        case Joined(_, parts):
            for part in parts:
                yield from _find_terms(part)
        case Term():
            yield condition
