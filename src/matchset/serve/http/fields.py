"""Fields: what may a request hold?

A field reads a value and describes itself as JSON Schema. The tables in `requests` are made of
fields; validation, the OpenAPI document and /docs all follow from them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matchset.serve.http.request_errors import RequestError, bad_parameter, shorten

Json = dict[str, Any]
REQUIRED = "required"  # in place of a default
_MAX_DIGITS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Field(ABC):
    """One value of a request."""

    description: str = ""
    default: Any = REQUIRED
    code: str = "bad_parameter"  # error code of a value outside the limits
    is_nullable: bool = False

    @abstractmethod
    def read(self, name: str, value: object) -> Any:
        """The checked value; `name` is what an error calls it."""

    @abstractmethod
    def schema(self) -> Json:
        """JSON Schema of the values that `read` accepts, other than null."""

    def parse(self, _: str, text: str) -> object:
        """The JSON value of a text in a query string."""
        return text

    def codes(self) -> set[str]:
        """Error codes that `read` may raise, or whoever uses the value."""
        return {"bad_parameter", self.code}

    def take(self, name: str, given: Mapping[str, object], prefix: str = "") -> Any:
        """The checked value of this field, or its default."""
        if name not in given:
            if self.default is REQUIRED:
                message = f"{prefix}{name} must be given; got none"
                raise RequestError("bad_parameter", message, parameter=prefix + name)
            return self.default
        value = given[name]
        return None if value is None and self.is_nullable else self.read(prefix + name, value)

    def describe(self) -> Json:
        """The whole JSON Schema, with description and default."""
        schema = self.schema()
        if self.is_nullable:
            kinds = schema["type"]
            schema["type"] = [*(kinds if isinstance(kinds, list) else [kinds]), "null"]
        if self.description:
            schema["description"] = self.description
        if self.default is not REQUIRED and self.default is not None:
            schema["default"] = self.default
        return schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Integer(Field):
    """An integer from `minimum` to `maximum`."""

    maximum: int
    minimum: int = 1

    def read(self, name: str, value: object) -> int:
        if isinstance(value, float) and value.is_integer():  # JSON Schema: 10.0 is an integer
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise bad_parameter(name, "must be an integer", value)
        if not self.minimum <= value <= self.maximum:
            rule = f"{name} must be from {self.minimum} to {self.maximum}"
            raise RequestError(self.code, f"{rule}; got {value}", parameter=name)
        return value

    def parse(self, name: str, text: str) -> int:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS):
            raise bad_parameter(name, "must be an integer", text)
        return int(text)

    def schema(self) -> Json:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Field):
    """A number from 0 to `maximum`; not 0 itself if it must be positive."""

    maximum: float
    is_positive: bool = False

    def read(self, name: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise bad_parameter(name, "must be a number", value)
        if not 0 <= value <= self.maximum or (self.is_positive and value == 0):
            bounds = "above 0 and at most" if self.is_positive else "from 0 to"
            raise bad_parameter(name, f"must be {bounds} {self.maximum}", value)
        return float(value)

    def schema(self) -> Json:
        least = "exclusiveMinimum" if self.is_positive else "minimum"
        return {"type": "number", least: 0, "maximum": self.maximum}


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Field):
    """A string, of limited length or one of several."""

    max_length: int | None = None
    choices: Sequence[str] = ()

    def read(self, name: str, value: object) -> str:
        if not isinstance(value, str):
            raise bad_parameter(name, "must be a string", value)
        if self.max_length is not None and len(value) > self.max_length:
            rule = f"{name} must have at most {self.max_length} characters"
            raise RequestError(self.code, f"{rule}; got {len(value)}", parameter=name)
        if self.choices and value not in self.choices:
            rule = f"{name} must be one of {', '.join(self.choices)}"
            raise RequestError(self.code, f"{rule}; got {shorten(value)}", parameter=name)
        return value

    def schema(self) -> Json:
        length = {} if self.max_length is None else {"maxLength": self.max_length}
        return {"type": "string", **length, **({"enum": [*self.choices]} if self.choices else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Boolean(Field):
    """True or false."""

    def read(self, name: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise bad_parameter(name, "must be true or false", value)
        return value

    def parse(self, _: str, text: str) -> object:
        return {"true": True, "false": False}.get(text, text)

    def schema(self) -> Json:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Array(Field):
    """Values of one kind; `max_items` None: as many as a body has room for."""

    items: Field
    max_items: int | None = None
    min_items: int = 0
    is_unique: bool = False

    def read(self, name: str, value: object) -> list[Any]:
        if not isinstance(value, list):
            raise bad_parameter(name, "must be an array", value)
        n = len(value)
        if n < self.min_items:
            raise bad_parameter(name, f"must have at least {self.min_items} items", n)
        if self.max_items is not None and n > self.max_items:
            rule = f"{name} must have at most {self.max_items} items"
            raise RequestError(self.code, f"{rule}; got {n}", parameter=name)
        read = self.items.read
        try:
            values = [read(name, item) for item in value]
        except RequestError:  # only an error needs the name of each item
            for index, item in enumerate(value):
                read(f"{name}[{index}]", item)
            raise
        if self.is_unique and len(set(values)) < n:
            raise RequestError(
                "bad_parameter", f"{name} must have no duplicates; got some", parameter=name
            )
        return values

    def codes(self) -> set[str]:
        return {"bad_parameter", self.code} | self.items.codes()

    def schema(self) -> Json:
        schema: Json = {"type": "array", "items": self.items.describe()}
        if self.max_items is not None:
            schema["maxItems"] = self.max_items
        if self.min_items:
            schema["minItems"] = self.min_items
        return schema | ({"uniqueItems": True} if self.is_unique else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Object(Field):
    """Named fields, and no others."""

    fields: Mapping[str, Field]

    def read(self, name: str, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise bad_parameter(name, "must be an object", value)
        prefix = f"{name}." if name else ""
        for given in value:
            self.require(given, f"a field of {name}" if name else "a field")
        return {known: field.take(known, value, prefix) for known, field in self.fields.items()}

    def require(self, given: str, what: str) -> Field:
        """The field of a name; `what` is what an error calls it."""
        if given not in self.fields:
            rule = f"{what} must be one of {', '.join(sorted(self.fields))}"
            raise RequestError("bad_parameter", f"{rule}; got {shorten(given)}")
        return self.fields[given]

    def codes(self) -> set[str]:
        return {"bad_parameter"}.union(*(field.codes() for field in self.fields.values()))

    def schema(self) -> Json:
        return {
            "type": "object",
            "properties": {name: field.describe() for name, field in self.fields.items()},
            "required": [name for name, field in self.fields.items() if field.default is REQUIRED],
            "additionalProperties": False,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Where(Field):
    """A filter expression, or in a body also the ids of the allowed products."""

    expression: Text
    ids: Array | None = None

    def read(self, name: str, value: object) -> str | tuple[str, ...] | None:
        if self.ids is not None and isinstance(value, list):
            return tuple(self.ids.read(name, value))
        if not isinstance(value, str):
            raise bad_parameter(name, "must be a string or an array of product ids", value)
        return self.expression.read(name, value) or None

    def codes(self) -> set[str]:
        return {"bad_filter"} | self.expression.codes()

    def schema(self) -> Json:
        schema = {
            **self.expression.schema(),
            "format": "filter",  # our own: the language of `matchset.filters`
            "examples": ["price < 500 and brand is not null"],
        }
        if self.ids is not None:
            schema |= {"type": ["string", "array"], "items": self.ids.items.schema()}
        return schema
