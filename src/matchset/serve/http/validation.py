"""Validation: does a value fit its schema?

The JSON Schema that describes a request in OpenAPI and on /docs also checks it, so the two cannot
differ. `x-errors` in a schema are the codes of errors in its value; the first is for its limits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from matchset.serve.http.request_errors import RequestError, bad_parameter, shorten

Json = dict[str, Any]
_KINDS = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
_NAMES = {
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "array": "an array",
    "object": "an object",
}
_MAX_DIGITS = 16  # of an integer in a query string: 2^53 has so many
_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,3})?")  # of JSON


def make_object(required: Mapping[str, Json], optional: Mapping[str, Json] | None = None) -> Json:
    """The schema of an object with these fields and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def check(name: str, value: Any, schema: Json) -> Any:
    """The value, with defaults where fields are missing; errors call it `name`."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    kind = _KINDS[type(value)]
    if kind == "number" and value.is_integer() and "integer" in kinds:  # JSON Schema: 10.0 is one
        kind, value = "integer", int(value)
    if kind not in kinds and not (kind == "integer" and "number" in kinds):
        rule = " or ".join(_NAMES[each] for each in kinds if each != "null")
        raise bad_parameter(name, f"must be {rule}", value)
    return _CHECKS[kind](name, value, schema) if kind in _CHECKS else value


def parse(name: str, text: str, schema: Json) -> object:
    """The JSON value of a parameter in a query string."""
    if schema["type"] == "boolean":
        return {"true": True, "false": False}.get(text, text)
    if schema["type"] == "number":
        if not _NUMBER.fullmatch(text):
            raise bad_parameter(name, "must be a number", text)
        return float(text)
    if schema["type"] != "integer":
        return text
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS):
        raise bad_parameter(name, "must be an integer", text)
    return int(text)


def require_known(given: Iterable[str], schema: Json, what: str) -> None:
    """Raise an error about a field that the schema does not have; it is called `what`."""
    for name in given:
        if name not in schema["properties"]:
            rule = f"{what} must be one of {', '.join(sorted(schema['properties']))}"
            raise RequestError("bad_parameter", f"{rule}; got {shorten(name)}")


def find_errors(schema: Json) -> set[str]:
    """Codes of all errors in values of a schema."""
    inner = [
        *schema.get("properties", {}).values(),
        *([schema["items"]] if "items" in schema else []),
    ]
    return {"bad_parameter", *schema.get("x-errors", ())}.union(*map(find_errors, inner))


def _beyond(name: str, rule: str, got: object, schema: Json) -> RequestError:
    code = schema.get("x-errors", ["bad_parameter"])[0]
    return RequestError(code, f"{name} must {rule}; got {got}", parameter=name)


def _check_number(name: str, value: float, schema: Json) -> float:
    most = schema["maximum"]
    if "exclusiveMinimum" in schema:
        least = schema["exclusiveMinimum"]
        is_within, rule = least < value <= most, f"be above {least} and at most {most}"
    else:
        least = schema["minimum"]
        is_within, rule = least <= value <= most, f"be from {least} to {most}"
    if not is_within:
        raise _beyond(name, rule, value, schema)
    return value


def _check_text(name: str, value: str, schema: Json) -> str:
    most = schema.get("maxLength")
    if most is not None and len(value) > most:
        raise _beyond(name, f"have at most {most} characters", len(value), schema)
    least = schema.get("minLength", 0)
    if len(value) < least:
        raise _beyond(name, f"have at least {least} characters", len(value), schema)
    if "enum" in schema and value not in schema["enum"]:
        raise _beyond(name, f"be one of {', '.join(schema['enum'])}", shorten(value), schema)
    return value


def _check_array(name: str, value: list[Any], schema: Json) -> list[Any]:
    n, items = len(value), schema["items"]
    least, most = schema.get("minItems", 0), schema.get("maxItems", n)
    if n > most:
        raise _beyond(name, f"have at most {most} items", n, schema)
    if n < least:
        raise _beyond(name, f"have at least {least} items", n, schema)
    max_length = items.get("maxLength", -1)  # of texts alone: an empty one is no object
    is_texts = set(map(type, value)) == {str}  # mostly ids
    if not (is_texts and max(map(len, value)) <= max_length):
        value = [check(f"{name}[{index}]", item, items) for index, item in enumerate(value)]
    if schema.get("uniqueItems") and len(set(value)) < n:
        raise _beyond(name, "have no duplicates", "some", {})
    return value


def _check_object(name: str, value: Json, schema: Json) -> Json:
    if "properties" not in schema:  # any fields
        return value
    require_known(value, schema, f"a field of {name}" if name else "a field")
    prefix = f"{name}." if name else ""
    read: Json = {}
    for field, inner in schema["properties"].items():
        if field in value:
            read[field] = check(prefix + field, value[field], inner)
        elif field in schema["required"]:
            message = f"{prefix}{field} must be given; got none"
            raise RequestError("bad_parameter", message, parameter=prefix + field)
        else:
            read[field] = inner.get("default")
    return read


_CHECKS: dict[str, Callable[[str, Any, Json], Any]] = {
    "integer": _check_number,
    "number": _check_number,
    "string": _check_text,
    "array": _check_array,
    "object": _check_object,
}
