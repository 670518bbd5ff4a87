"""Body: how is the body of a request received, and not a byte more?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request

from matchset import _native
from matchset.serve.options import Limits
from matchset.serve.request_errors import CLOSE, RequestError
from matchset.serve.worker import Worker

T = TypeVar("T")
_INLINE_BYTES = 65_536  # of a body that is read at once; any takes less than a millisecond
_MAX_VALUES = 100_000  # ids, queries, numbers: a parser keeps every other request waiting
_MAX_DIGITS = 20  # of a content-length; Python refuses to convert thousands of digits


async def read_json(request: Request, worker: Worker, read: Callable[[bytes], T]) -> T:
    """Return what `read` makes of the body of a request; of a large one in a thread."""
    body = await read_body(request, worker.limits)
    if len(body) <= _INLINE_BYTES:
        return read(body)

    def check_and_read() -> T:
        n_values = _native.scan_json(body)[0]
        if n_values > _MAX_VALUES:
            rule = f"a body must have at most {_MAX_VALUES} values"
            raise RequestError("body_too_complex", f"{rule}; got {n_values}")
        return read(body)

    return await worker.in_thread(check_and_read)


async def read_body(request: Request, limits: Limits) -> bytes:
    """Return the JSON body of a request; stop as soon as it is too large or too slow."""
    headers, most, seconds = request.headers, limits.body_bytes, limits.slow_seconds
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        rule = "content-type must be application/json"
        raise RequestError("not_json", f"{rule}; got {kind[:100] or 'none'}", headers=CLOSE)
    declared = headers.get("content-length", "")
    if len(declared) > _MAX_DIGITS:
        rule = f"content-length must have at most {_MAX_DIGITS} digits"
        raise RequestError("bad_json", f"{rule}; got {len(declared)}", headers=CLOSE)
    if declared.isascii() and declared.isdigit() and int(declared) > most:
        raise _too_large(most, declared)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise _too_large(most, "more")
                parts.append(part)
    except TimeoutError:
        rule = f"a body must arrive within {seconds:g} s"
        raise RequestError(
            "body_too_slow", f"{rule}; got only a part of it", headers=CLOSE
        ) from None
    return b"".join(parts)


def _too_large(most: int, got: str) -> RequestError:
    rule = f"a body must have at most {most} bytes"
    return RequestError("body_too_large", f"{rule}; got {got}", headers=CLOSE)
