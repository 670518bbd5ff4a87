"""Plain: how do values of typed records become JSON, and records again?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


def to_plain(value: Any) -> Any:
    """Records, tuples and mappings as JSON has them; an unknown number becomes null."""
    if is_dataclass(value):
        return {each.name: to_plain(getattr(value, each.name)) for each in fields(value)}
    if hasattr(value, "_asdict"):
        return to_plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): to_plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def from_plain(kind: Any, value: Any) -> Any:
    """A value of a type, from what `to_plain` made of it; another form is an error of any kind."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        inner = next(each for each in arguments if each is not NoneType)
        return None if value is None else from_plain(inner, value)
    if origin is tuple:
        inner = [arguments[0]] * len(value) if arguments[1:] == (...,) else arguments
        return tuple(from_plain(each, part) for each, part in zip(inner, value, strict=True))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        make = int if arguments[0] is int else str
        return {make(key): from_plain(arguments[1], each) for key, each in value.items()}
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        types = get_type_hints(kind)
        names = kind._fields if hasattr(kind, "_fields") else [f.name for f in fields(kind)]
        return kind(**{name: from_plain(types[name], value[name]) for name in names})
    return math.nan if kind is float and value is None else value
