"""Codec: how does a value become a JSON header and named arrays, and come back checked?

The annotations of a dataclass say what it consists of: numbers, texts, arrays, `Strings`, sparse
rows, tuples, lists, mappings, and other dataclasses. The header holds plain values by field; in
place of an array stands its name, which is its path from the root, such as `model.tree.blocks`.
Reading is told the wanted type and makes no other: a file can choose among the classes of an
annotated union, and never name a class of its own.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, cached_property
from typing import (
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from matchset.matrices import Csr, from_scipy
from matchset.strings import Strings

T = TypeVar("T")
Json: TypeAlias = Any
TRANSIENT = {"codec": "transient"}  # metadata of a field that is not kept: it gets its default
_SHOWN = 60  # characters of a wrong value
_BUILD_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, eq=False)
class ArrayPieces:
    """An array that is written piece by piece, such as mapped files: it needs no memory as a whole.

    It can only be written; opened again, it is an array.
    """

    pieces: Sequence[NDArray[Any]]  # at least one; all of one type, and of one dimension

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of all pieces."""
        return self.pieces[0].dtype

    @property
    def shape(self) -> tuple[int]:
        """The length of all pieces together."""
        return (sum(map(len, self.pieces)),)


Arrays: TypeAlias = dict[str, NDArray[Any] | ArrayPieces]
Opened: TypeAlias = dict[str, NDArray[Any]]


def encode(value: Any, form: Any = None) -> tuple[Json, Arrays]:
    """Return the header and the arrays of a value; `form` is its declared type, if that is wider.

    A value that does not fit its annotations is a TypeError or ValueError that names the field.
    """
    arrays: Arrays = {}
    kind: Any = type(value) if form is None else form
    return codec_of(kind).encode(value, "", arrays), arrays


def decode(form: type[T], header: Json, arrays: Mapping[str, NDArray[Any]], *, at: str = "") -> T:
    """Return the value of a header and arrays; damage is a ValueError that names the field.

    `at` is its path in a larger value.
    """
    left, kind = dict(arrays), cast("Any", form)
    try:
        value: T = codec_of(kind).decode(header, at, left)
    except RecursionError:
        raise ValueError("the header must not be nested so deeply") from None
    if left:
        raise ValueError(f"arrays must belong to a field; got {_show(min(left))}")
    return value


class Picklable:
    """A dataclass that is pickled as its header and arrays; what is derived is made again."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        header, arrays = encode(self)
        return decode, (type(self), header, arrays)


class Codec(NamedTuple):
    """How values of one type are written and read; both are given the path from the root."""

    encode: Callable[[Any, str, Arrays], Json]
    decode: Callable[[Json, str, Opened], Any]


@cache
def codec_of(form: Any) -> Codec:
    """Return the codec of a type, as it is annotated."""
    if form in _CODECS:
        return _CODECS[form]
    kind, arguments = get_origin(form) or form, get_args(form)
    if kind in _GENERIC:
        return _GENERIC[kind](arguments)
    if hasattr(kind, "class_named"):
        return _family(kind)
    return _own(kind)


def _own(kind: Any) -> Codec:
    """Return the codec of a class: by its fields, or by the value that it keeps instead."""
    if hasattr(kind, "to_stored"):
        stored = get_type_hints(kind.to_stored)["return"]
        return _instead(kind, kind.to_stored, stored, kind.from_stored)
    if is_dataclass(kind) or hasattr(kind, "_fields"):  # a named tuple
        return _dataclass(kind)
    raise TypeError(f"a value to keep must be of arrays and dataclasses; got {kind}")


def _fail(at: str, rule: str, value: object) -> ValueError:
    return ValueError(f"{at or 'the value'} must be {rule}; got {_show(value)}")


def _show(value: object) -> str:
    if isinstance(value, np.ndarray | ArrayPieces):
        return f"an array of {value.dtype}"
    text = repr(value) if isinstance(value, str | int | float | None) else type(value).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _build(at: str, make: Callable[..., Any], *args: Any, **values: Any) -> Any:
    """Make a value of its parts; what it refuses is told with the path."""
    try:
        return make(*args, **values)
    except _BUILD_ERRORS as error:
        raise ValueError(f"{at}: {error}" if at else str(error)) from None


def join_path(at: str, name: object) -> str:
    """Return where a part of a value stands."""
    return f"{at}.{name}" if at else str(name)


def _scalar(rule: str, *kinds: type) -> Codec:
    """Values of exactly these types: no bool counts as a number."""

    def check(value: Any, at: str, _: Any) -> Any:
        plain = value.item() if isinstance(value, np.generic) else value
        if type(plain) not in kinds:
            raise _fail(at, rule, value)
        return plain

    return Codec(check, check)


def _number() -> Codec:
    """Numbers; JSON has null for one that is not known, NaN."""
    number = _scalar("a number", int, float)

    def write(value: Any, at: str, _: Any) -> float | None:
        known = float(_build(at, float, number.encode(value, at, _)))
        return known if known == known else None

    def read(value: Any, at: str, _: Any) -> float:
        return math.nan if value is None else float(_build(at, float, number.decode(value, at, _)))

    return Codec(write, read)


def _anything() -> Codec:
    """Plain values, such as the figures of a report: what JSON holds, tuples as lists."""

    def check(value: Any, at: str, _: Any) -> Json:
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, list | tuple):
            return [check(item, join_path(at, i), _) for i, item in enumerate(value)]
        if isinstance(value, Mapping) and all(type(key) is str for key in value):
            return {key: check(item, join_path(at, key), _) for key, item in value.items()}
        raise _fail(at, "a plain value", value)

    return Codec(check, check)


def _texts() -> Codec:
    """Texts as bytes and offsets from 0 on; single texts are checked when they are read."""

    def write(texts: Any, at: str, arrays: Arrays) -> Json:
        if not isinstance(texts, Strings):
            raise _fail(at, "Strings", texts)
        kept = texts.used, texts.offsets - texts.offsets[0]
        return _PAIR.encode(kept, at, arrays)

    def read(stored: Json, at: str, arrays: Opened) -> Strings:
        data, offsets = _PAIR.decode(stored, at, arrays)
        if data.ndim != 1 or offsets.ndim != 1:
            raise ValueError(f"{at}: texts must be bytes and offsets; got {data.shape}")
        if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(data):
            raise ValueError(f"{at}: offsets must go from 0 to the number of bytes, {len(data):,}")
        return Strings(data, offsets)

    return Codec(write, read)


def _csr() -> Codec:
    """Sparse rows whose offsets fit their entries; rows are checked when they are read."""
    plain = _dataclass(Csr)

    def read(stored: Json, at: str, arrays: Opened) -> Csr:
        rows: Csr = plain.decode(stored, at, arrays)
        if any(array.ndim != 1 for array in rows.arrays):
            raise ValueError(f"{at}: rows must have arrays of one dimension")
        ends = rows.indptr[[0, -1]].tolist() if len(rows.indptr) else []
        if ends != [0, len(rows.indices)] or len(rows.indices) != len(rows.data):
            raise ValueError(f"{at}: offsets must go from 0 to {len(rows.indices):,}; got {ends}")
        return rows

    return Codec(plain.encode, read)


def _to_scipy(rows: Csr) -> csr_array:
    """Return rows for SciPy, which does not check them when it reads them."""
    matrix = rows.to_scipy()
    matrix.check_format(full_check=True)
    return matrix


def _array(arguments: tuple[Any, ...]) -> Codec:
    """Arrays of one type, or of any numbers; in the header stands the name."""
    scalar = get_args(arguments[1])[0] if arguments else Any
    wanted = scalar if isinstance(scalar, type) and scalar is not Any else np.generic
    rule = "an array of numbers" if wanted is np.generic else f"an array of {wanted.__name__}"

    def check(value: Any, at: str) -> Any:
        is_array = isinstance(value, np.ndarray | ArrayPieces) and value.dtype.kind in "biuf"
        # Of the two types of 64-bit integers, long and long long, by the name of both.
        if not is_array or not np.issubdtype(np.dtype(value.dtype.str), wanted):
            raise _fail(at, rule, value)
        return value

    def write(value: Any, at: str, arrays: Arrays) -> str:
        name = at or "array"
        arrays[name] = check(value, at)
        return name

    def read(stored: Json, at: str, arrays: Opened) -> Any:
        if type(stored) is not str or stored not in arrays:
            raise _fail(at, "the name of an array, each of one field", stored)
        return check(arrays.pop(stored), at)

    return Codec(write, read)


def _sequence(kind: type, arguments: tuple[Any, ...]) -> Codec:
    """Lists and tuples of any length, or, as in `tuple[Csr, int]`, of a value for each type."""
    is_fixed = kind is tuple and len(arguments) > 0 and arguments[-1] is not Ellipsis
    each = [codec_of(one) for one in arguments if one is not Ellipsis] or [_untyped()]

    def pair(items: Any, at: str) -> list[tuple[Codec, Any, str]]:
        if not isinstance(items, list | tuple) or (is_fixed and len(items) != len(each)):
            raise _fail(at, f"a list of {len(each)}" if is_fixed else "a list", items)
        codecs = each if is_fixed else each * len(items)
        paths = (join_path(at, number) for number in range(len(items)))
        return list(zip(codecs, items, paths, strict=True))

    return Codec(
        lambda items, at, arrays: [c.encode(i, path, arrays) for c, i, path in pair(items, at)],
        lambda items, at, arrays: kind([c.decode(i, p, arrays) for c, i, p in pair(items, at)]),
    )


def _mapping(arguments: tuple[Any, ...]) -> Codec:
    """Mappings of texts. Arrays inside are named by number, as a key can hold anything."""
    codec = codec_of(arguments[1]) if arguments else _untyped()

    def pair(mapping: Any, at: str) -> list[tuple[str, Any, str]]:
        if not isinstance(mapping, Mapping) or not all(type(name) is str for name in mapping):
            raise _fail(at, "an object", mapping)
        return [(key, item, join_path(at, i)) for i, (key, item) in enumerate(mapping.items())]

    return Codec(
        lambda value, at, arrays: {k: codec.encode(v, p, arrays) for k, v, p in pair(value, at)},
        lambda value, at, arrays: {k: codec.decode(v, p, arrays) for k, v, p in pair(value, at)},
    )


def _untyped() -> Codec:
    """Return the codec of a value without a type: it is written, and cannot be read."""

    def write(value: Any, at: str, arrays: Arrays) -> Json:
        kind: Any = type(value)
        return codec_of(kind).encode(value, at, arrays)

    def read(stored: Json, at: str, _: Any) -> Any:
        raise TypeError(f"{at or 'the value'} must be annotated to be read; got {_show(stored)}")

    return Codec(write, read)


def _literal(values: tuple[Any, ...]) -> Codec:
    def check(value: Any, at: str, _: Any) -> Any:
        if not any(type(value) is type(one) and value == one for one in values):
            raise _fail(at, f"one of {', '.join(map(repr, values))}", value)
        return value

    return Codec(check, check)


def _union(members: tuple[Any, ...]) -> Codec:
    """Return the codec that tries types in order; of several dataclasses, the file names one."""
    codecs = {form: codec_of(form) for form in members if form is not types.NoneType}
    classes: dict[str, Any] = {
        form.__name__: form for form in codecs if isinstance(form, type) and is_dataclass(form)
    }
    named = classes if len(classes) > 1 else {}
    others = [codec for form, codec in codecs.items() if form not in named.values()]
    is_optional = len(codecs) < len(members)
    rule = " or ".join(getattr(form, "__name__", str(form)) for form in members)

    def choose(name: str, value: Any, at: str, arrays: Any) -> Any:
        if value is None and is_optional:
            return None
        if len(others) == 1 and not named:
            return getattr(others[0], name)(value, at, arrays)
        for codec in others:
            try:
                return getattr(codec, name)(value, at, arrays)
            except (TypeError, ValueError):
                continue
        raise _fail(at, rule, value)

    def write(value: Any, at: str, arrays: Arrays) -> Json:
        form = named.get(type(value).__name__)
        if form is None:
            return choose("encode", value, at, arrays)
        return {"class": form.__name__, "fields": codecs[form].encode(value, at, arrays)}

    def read(stored: Json, at: str, arrays: Opened) -> Any:
        form = named.get(_name_of(stored)) if named else None
        if form is None:
            return choose("decode", stored, at, arrays)
        return codecs[form].decode(stored["fields"], at, arrays)

    return Codec(write, read)


def _name_of(stored: Json) -> str:
    """Return the name of a class in a header; empty where there is none."""
    is_named = isinstance(stored, dict) and stored.keys() == {"class", "fields"}
    name = stored["class"] if is_named else ""
    return name if isinstance(name, str) else ""


def _family(base: Any) -> Codec:
    """Classes that their base knows by name, such as the registered kinds of matchers."""

    def write(value: Any, at: str, arrays: Arrays) -> Json:
        if not isinstance(value, base):
            raise _fail(at, f"a {base.__name__}", value)
        fields_of = _own(type(value)).encode(value, at, arrays)
        return {"class": value.kind, "fields": fields_of}

    def read(stored: Json, at: str, arrays: Opened) -> Any:
        name = _name_of(stored)
        kind = _build(at, base.class_named, name)
        if not issubclass(kind, base):
            raise _fail(at, f"a {base.__name__}", name)
        return _own(kind).decode(stored["fields"], at, arrays)

    return Codec(write, read)


def _instead(
    kind: type, take: Callable[[Any], Any], form: Any, make: Callable[[Any], Any]
) -> Codec:
    """Return the codec of a class that is kept as a value of another type."""
    codec = codec_of(form)

    def write(value: Any, at: str, arrays: Arrays) -> Json:
        if not isinstance(value, kind):
            raise _fail(at, f"a {kind.__name__}", value)
        return codec.encode(take(value), at, arrays)

    return Codec(
        write, lambda stored, at, arrays: _build(at, make, codec.decode(stored, at, arrays))
    )


class _Fields:
    """The codecs of the fields of a dataclass, found when the first value comes."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    @cached_property
    def codecs(self) -> dict[str, Codec]:
        hints = get_type_hints(self.kind)
        if not is_dataclass(self.kind):
            return {name: codec_of(hints[name]) for name in self.kind._fields}
        kept = [each for each in fields(self.kind) if each.init]
        return {
            each.name: codec_of(hints[each.name])
            for each in kept
            if not TRANSIENT.items() <= each.metadata.items()
        }

    def encode(self, value: Any, at: str, arrays: Arrays) -> Json:
        if type(value) is not self.kind:
            raise _fail(at, f"a {self.kind.__name__}", value)
        return {
            name: codec.encode(getattr(value, name), join_path(at, name), arrays)
            for name, codec in self.codecs.items()
        }

    def decode(self, stored: Json, at: str, arrays: Opened) -> Any:
        if type(stored) is not dict:
            raise _fail(at, f"the fields of a {self.kind.__name__}", stored)
        for names, rule in (
            (self.codecs.keys() - stored.keys(), "is missing"),
            (stored.keys() - self.codecs.keys(), f"is no field of {self.kind.__name__}"),
        ):
            if names:
                raise ValueError(f"{join_path(at, _show(min(names))[1:-1])} {rule}")
        values = {
            name: codec.decode(stored[name], join_path(at, name), arrays)
            for name, codec in self.codecs.items()
        }
        return _build(at, self.kind, **values)


def _dataclass(kind: Any) -> Codec:
    found = _Fields(kind)
    return Codec(found.encode, found.decode)


_CODECS: dict[Any, Codec] = {
    Any: _anything(),
    object: _anything(),
    types.NoneType: _literal((None,)),
    bool: _scalar("true or false", bool),
    int: _scalar("an integer", int),
    float: _number(),
    str: _scalar("a text", str),
    Strings: _texts(),
    Csr: _csr(),
}
_GENERIC: dict[Any, Callable[[tuple[Any, ...]], Codec]] = {
    Literal: _literal,
    Union: _union,
    types.UnionType: _union,
    np.ndarray: _array,
    tuple: lambda arguments: _sequence(tuple, arguments),
    Sequence: lambda arguments: _sequence(tuple, arguments),
    list: lambda arguments: _sequence(list, arguments),
    dict: _mapping,
    Mapping: _mapping,
    csr_array: lambda _: _CODECS[csr_array],
}
_CODECS[csr_array] = _instead(csr_array, from_scipy, Csr, _to_scipy)
_PAIR = codec_of(tuple[NDArray[np.uint8], NDArray[np.int64]])
