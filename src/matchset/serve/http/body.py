"""Body: how is the body of a request received, and not a byte more?"""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from matchset.serve.http.request_errors import RequestError
from matchset.serve.options import Limits

# The rest of a rejected body may still be on its way, and nobody will read it.
_MAX_DIGITS = 20  # of a content-length; some 10^19 bytes
_CLOSE = ((b"connection", b"close"),)


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
