"""Bodies: how is what a caller sends read, and not a byte more?"""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from matchset.serve.refusals import RequestError
from matchset.serve.settings import Limits

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
