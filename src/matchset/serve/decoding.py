"""Decoding: how do a query string and a body become a struct, or an error that says why not?"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NoReturn, TypeVar, cast

import msgspec

from matchset import _native
from matchset.serve.request_errors import RequestError, shorten

T = TypeVar("T")
_FIELD = re.compile(r"field `([^`]*)`")
_KIND = re.compile(r"Expected `(.*?)`, got")
_ARTICLES = {"array": "an array", "object": "an object"}
_LIMIT = re.compile(r"Expected `(.*?)`( of length)? (<=|>=|>|<) (.*)")
_BOUNDS = {"<=": "at most", ">=": "at least", "<": "below", ">": "above"}
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
# What is beyond a limit has a code of its own, by the field, or of the items of one.
_CODES = {
    "q": "query_too_long",
    "query": "query_too_long",
    "queries": "too_many_queries",
    "queries[]": "query_too_long",
    "products": "too_many_products",
    "remove": "too_many_products",
    "where": "filter_too_long",
    "candidates[]": "too_many_candidates",
    "k": "k_out_of_range",
    "beam": "beam_out_of_range",
}


def decode(body: bytes, kind: type[T]) -> T:
    """Read a JSON body."""
    try:
        content: T = _decoder(cast("Hashable", kind)).decode(body)
    except msgspec.ValidationError as error:
        _refuse(str(error), _parse(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _bad_json(error) from None
    return content


def _parse(body: bytes) -> Any:
    """Return a body as plain values; it may be worse than its first fault says."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _bad_json(error) from None


def _bad_json(error: Exception) -> RequestError:
    fault = "too many levels" if isinstance(error, RecursionError) else str(error)
    return RequestError("bad_json", f"the body must be JSON; {fault}")


@lru_cache
def _decoder(kind: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def read_parameters(given: dict[str, str], kind: type[T]) -> T:
    """Read the parameters of a query string."""
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        _refuse(str(error), given)


def parse_query_string(query_string: bytes) -> dict[str, str]:
    """Return the parameters of a query string, each given at most once."""
    given: dict[str, str] = {}
    for pair in filter(None, query_string.split(b"&")):
        encoded_name, _, value = pair.partition(b"=")
        name = encoded_name.decode("latin-1")
        if name in given:
            raise RequestError(
                "bad_parameter", f"{name} must be given once; got it twice", parameter=name
            )
        given[name] = decode_text(value)
    return given


def read_text(name: str, given: Sequence[bytes], most: int) -> str:
    """Read a parameter that must be given once, and have at most so many characters."""
    if len(given) != 1:
        rule = f"{name} must be given once; got {len(given)}"
        raise RequestError("bad_parameter", rule, parameter=name)
    text = decode_text(given[0])
    if len(text) > most:
        rule = f"{name} must have at most {most} characters; got {len(text)}"
        raise RequestError(_CODES.get(name, "bad_parameter"), rule, parameter=name)
    return text


def decode_text(value: bytes) -> str:
    """Return the text of a value in a query string."""
    try:
        return _native.decode_parameter(value)
    except UnicodeDecodeError:
        raise RequestError("bad_parameter", "a parameter must be UTF-8; got other bytes") from None


def _refuse(fault: str, given: Any) -> NoReturn:
    """Raise an error that names the parameter, the rule that it breaks, and its value.

    msgspec says rule and place: "Expected `int` <= 1000 - at `$.k`".
    """
    rule, _, place = fault.partition(" - at `$")
    name = place.rstrip("`").removeprefix(".")
    if (field := _FIELD.search(rule)) is not None:  # missing or unknown, of the object at `name`
        name = f"{name}.{field[1]}".removeprefix(".")
        what = "must be given; got none" if "missing" in rule else "is no parameter of this request"
        raise RequestError("bad_parameter", f"{shorten(name)} {what}", parameter=name[:100])
    if not name:
        raise RequestError("bad_json", f"the body must be a JSON object; {rule}")
    value = _find(given, name)
    if (limit := _LIMIT.fullmatch(rule)) is None:
        kind = _KIND.match(rule)
        what = rule[:1].lower() + rule[1:100]
        if kind is not None:
            what = f"must be {_ARTICLES.get(kind[1], kind[1])}"
        raise RequestError("bad_parameter", f"{name} {what}; got {shorten(value)}", parameter=name)
    bound = f"{_BOUNDS[limit[3]]} {limit[4]}"
    code = _CODES.get(re.sub(r"\d+", "", name), "bad_parameter")
    if limit[2]:
        unit = "characters" if limit[1] == "str" else "items"
        raise RequestError(
            code, f"{name} must have {bound} {unit}; got {len(value)}", parameter=name
        )
    raise RequestError(code, f"{name} must be {bound}; got {str(value)[:40]}", parameter=name)


def _find(given: Any, name: str) -> Any:
    """Return the value at a place such as `fusion.weights[1]`, None where there is none."""
    with suppress(LookupError, TypeError):
        for field, index in _STEP.findall(name):
            given = given[int(index) if index else field]
        return given
    return None
