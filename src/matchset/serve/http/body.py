"""Body: how is the body of a request received, and not a byte more?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request

from matchset import _native
from matchset.serve.http.request_errors import RequestError
from matchset.serve.options import Limits
from matchset.serve.worker import Worker

T = TypeVar("T")
_INLINE_BYTES = 65_536  # of a body that is read at once; any takes less than a millisecond
_MAX_KEYS = 1000  # no request but that of products has more than some dozens
_MAX_DEPTH = 16
_ESCAPED = 12  # bytes of a character at most: two times \\uXXXX
_PARTS = ("values", "keys", "levels", "bytes in a string")
# The rest of a rejected body may still be on its way, and nobody will read it.
_MAX_DIGITS = 20  # of a content-length; some 10^19 bytes
_CLOSE = ((b"connection", b"close"),)


async def read_json(
    request: Request, worker: Worker, read: Callable[[bytes], T], *, most_keys: int = _MAX_KEYS
) -> T:
    """What `read` makes of the body of a request.

    A large body is read in a thread, after a look at how much is in it: a parser keeps every other
    request waiting until it is done.
    """
    limits = worker.limits
    body = await read_body(request, limits)
    if len(body) <= _INLINE_BYTES:
        return read(body)

    def check_and_read() -> T:
        _check_size(body, limits, most_keys)
        return read(body)

    return await worker.in_thread(check_and_read)


def _check_size(body: bytes, limits: Limits, most_keys: int) -> None:
    most = max(limits.filter_characters, limits.query_characters, limits.id_characters)
    allowed = (limits.body_values, most_keys, _MAX_DEPTH, _ESCAPED * most)
    for found, at_most, what in zip(_native.scan_json(body), allowed, _PARTS, strict=True):
        if found > at_most:
            rule = f"a body must have at most {at_most} {what}"
            raise RequestError("body_too_complex", f"{rule}; got {found}")


async def read_body(request: Request, limits: Limits) -> bytes:
    """The JSON body of a request; stops reading as soon as it is too large or too slow."""
    headers = request.headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        rule = "content-type must be application/json"
        raise RequestError("not_json", f"{rule}; got {kind[:100] or 'none'}", headers=_CLOSE)
    declared = headers.get("content-length", "")
    if declared.isascii() and declared.isdigit():
        if len(declared) > _MAX_DIGITS:  # Python refuses to convert thousands of digits
            rule = f"content-length must have at most {_MAX_DIGITS} digits"
            raise RequestError("bad_json", f"{rule}; got {len(declared)}", headers=_CLOSE)
        if int(declared) > limits.body_bytes:
            raise _too_large(limits, declared)
    try:
        async with asyncio.timeout(limits.body_seconds):
            return await _receive(request, limits)
    except TimeoutError:
        rule = f"a body must arrive within {limits.body_seconds:g} s"
        raise RequestError(
            "body_too_slow", f"{rule}; got only a part of it", headers=_CLOSE
        ) from None


async def _receive(request: Request, limits: Limits) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise RequestError("bad_json", "a body must be complete; got only a part of it")
        part = message.get("body", b"")
        size += len(part)
        if size > limits.body_bytes:
            raise _too_large(limits, "more")
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _too_large(limits: Limits, got: str) -> RequestError:
    rule = f"a body must have at most {limits.body_bytes} bytes"
    return RequestError("body_too_large", f"{rule}; got {got}", headers=_CLOSE)
