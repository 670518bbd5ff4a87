"""Sending: how does a response leave, if its caller reads slowly or not at all?"""

from __future__ import annotations

import asyncio

from starlette.types import Send

from matchset.serve.options import Limits
from matchset.serve.request_errors import RETRY, RequestError, too_large
from matchset.serve.responses import Response

_CHUNK = 65_536  # bytes of a larger response that are sent at once
_UNSENT_BYTES = 256_000_000  # of responses that callers have not read yet


class Sender:
    """Sends the responses of one worker; large ones as fast as they are read."""

    def __init__(self, limits: Limits) -> None:
        self._most, self._seconds = limits.response_bytes, limits.slow_seconds
        self._n_unsent = 0  # bytes of large responses

    async def send(self, response: Response, send: Send) -> None:
        """Send a response. An exception after its head ends the connection."""
        body, n_bytes = response.body, len(response.body)
        self._check(n_bytes)
        headers = [*response.headers, (b"content-length", b"%d" % n_bytes)]
        start = {"type": "http.response.start", "status": response.status, "headers": headers}
        await send(start)
        if n_bytes <= _CHUNK:
            await send({"type": "http.response.body", "body": body})
            return
        self._n_unsent += n_bytes
        try:
            for begin in range(0, n_bytes, _CHUNK):
                end = begin + _CHUNK
                chunk = {"type": "http.response.body", "body": body[begin:end]}
                async with asyncio.timeout(self._seconds):  # granian waits where a chunk waits
                    await send({**chunk, "more_body": end < n_bytes})
        except TimeoutError:
            rule = f"a caller must read {_CHUNK} bytes of a response within {self._seconds:g} s"
            raise RequestError("timeout", f"{rule}; got less") from None
        finally:
            self._n_unsent -= n_bytes

    def _check(self, n_bytes: int) -> None:
        """Refuse to send what is too large, alone or together with what is not read yet."""
        if n_bytes > self._most:
            raise too_large(self._most)
        if n_bytes > _CHUNK and self._n_unsent + n_bytes > _UNSENT_BYTES:
            rule = f"a worker keeps at most {_UNSENT_BYTES} bytes that callers have not read"
            raise RequestError("overloaded", f"{rule}; got more", headers=RETRY)
