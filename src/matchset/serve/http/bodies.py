"""Bodies: how is what a caller sends read, and not a byte more?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.requests import Request

from matchset.matchers.fusion_rules import FusionRule
from matchset.serve.http.problems import RequestError, bad
from matchset.serve.options import Limits

# Bytes of a refused body may still be under way; nobody will read them.
_CLOSE = ((b"connection", b"close"),)


async def read_body(request: Request, limits: Limits) -> bytes:
    """The JSON body of a request, refused as soon as it is too large, and in time."""
    headers = request.headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        rule = "content-type must be application/json"
        raise RequestError("not_json", f"{rule}; got {kind[:100] or 'none'}", _CLOSE)
    told = headers.get("content-length", "")
    if told.isascii() and told.isdigit() and int(told) > limits.body_bytes:
        raise _too_large(limits, f"{told[:20]}")
    try:
        async with asyncio.timeout(limits.body_seconds):
            return await _receive(request, limits)
    except TimeoutError:
        rule = f"a body must come in within {limits.body_seconds:g} s"
        raise RequestError("body_too_slow", f"{rule}; got less", _CLOSE) from None


async def _receive(request: Request, limits: Limits) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise RequestError("bad_json", "a body must be whole; got a part of it")
        part = message.get("body", b"")
        size += len(part)
        if size > limits.body_bytes:
            raise _too_large(limits, "more")
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _too_large(limits: Limits, got: str) -> RequestError:
    rule = f"a body must have at most {limits.body_bytes} bytes"
    return RequestError("body_too_large", f"{rule}; got {got}", _CLOSE)


MOST = 1_000_000  # of any number that a fusion has
MOST_WEIGHTS = 32


def read_candidates(given: object, n_queries: int, limits: Limits) -> list[list[str]] | None:
    """One list of product ids per query, best first."""
    if given is None:
        return None
    if not isinstance(given, list) or len(given) != n_queries:
        got = len(given) if isinstance(given, list) else type(given).__name__
        rule = f"candidates must be one array per query, {n_queries}"
        raise RequestError("bad_parameter", f"{rule}; got {got}")
    for place, ids in enumerate(given):
        _check_ids(f"candidates[{place}]", ids, limits)
    return given


def read_fusion(given: object) -> FusionRule | None:
    """How rankings become one."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise bad("fusion must be an object", given)
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _FIELDS:
            raise bad(f"a field of fusion must be one of {', '.join(_FIELDS)}", name)
        values[name] = _FIELDS[name](name, value)
    try:
        return FusionRule(**values)
    except ValueError as error:
        raise RequestError("bad_parameter", f"fusion: {error}") from None


def check_weights(rule: FusionRule | None, n_rankings: int) -> None:
    """Refuse weights that are not one per ranking: the caller's first, then each matcher's."""
    try:
        if rule is not None:
            rule.weigh(n_rankings)
    except ValueError as error:
        raise RequestError("bad_parameter", f"fusion: {error}") from None


def _read_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise bad(f"{name} must be a string", value)
    return value


def _read_number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise bad(f"{name} must be a number", value)
    if not 0 <= value <= MOST:
        raise bad(f"{name} must be from 0 to {MOST}", value)
    return float(value)


def _read_integer(name: str, value: object) -> int:
    number = _read_number(name, value)
    if not number.is_integer():
        raise bad(f"{name} must be an integer", value)
    return int(number)


def _read_weights(name: str, value: object) -> tuple[float, ...]:
    if not isinstance(value, list) or len(value) > MOST_WEIGHTS:
        raise bad(f"{name} must be an array of at most {MOST_WEIGHTS} numbers", value)
    return tuple(_read_number(name, weight) for weight in value)


def _check_ids(name: str, ids: object, limits: Limits) -> None:
    if not isinstance(ids, list):
        raise bad(f"{name} must be an array of product ids", ids)
    if len(ids) > limits.candidates:
        rule = f"{name} must have at most {limits.candidates} ids"
        raise RequestError("too_many_candidates", f"{rule}; got {len(ids)}")
    for product in ids:
        if not isinstance(product, str) or len(product) > limits.id_characters:
            rule = f"{name} must hold strings of at most {limits.id_characters} characters"
            raise bad(rule, product)
    if len(set(ids)) < len(ids):
        raise RequestError("bad_parameter", f"{name} must hold each id once; got one twice")


_FIELDS: dict[str, Callable[[str, object], object]] = {
    "method": _read_text,
    "weights": _read_weights,
    "constant": _read_number,
    "keep": _read_integer,
}
