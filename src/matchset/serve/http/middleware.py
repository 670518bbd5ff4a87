"""Middleware: which requests come in, what is logged, and what leaves with every response?

One layer around everything, so that a request costs little: host, key and load are checked before
anything else looks at it, and every error leaves here, as JSON.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from time import perf_counter
from typing import Any

from starlette.types import Receive, Scope, Send

from matchset.serve.http.access_log import format_exception
from matchset.serve.http.auth import check_repeated, make_hosts
from matchset.serve.http.request_errors import RETRY, RequestError, to_request_error, too_large
from matchset.serve.http.responses import Headers, Response, error_response
from matchset.serve.worker import Worker

logger = logging.getLogger(__name__)

HEALTH = frozenset({"/healthz", "/readyz"})
OTHER = "other"  # the label of paths that are not there
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_CHUNK = 65_536  # bytes of a larger response that are sent at once
_CLOSE = ((b"connection", b"close"),)
_METHOD = 20  # characters of a method that are logged; a caller may send any
_POLICY = (
    b"default-src 'self'; object-src 'none'; form-action 'self'; "
    b"frame-ancestors 'none'; base-uri 'none'"
)
_SECURITY = (
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"server", b"matchset"),  # or granian would tell its own name
)
_PRIVATE = (*_SECURITY, (b"cache-control", b"no-store"))  # a shared cache must not keep it


class Middleware:
    """ASGI around what responds to each path.

    `labels` are the names of paths in metrics and logs; `open_paths` need no key.
    """

    def __init__(
        self,
        app: Callable[[Scope, Receive], Awaitable[Response]],
        worker: Worker,
        *,
        labels: Mapping[str, str],
        open_paths: frozenset[str],
    ) -> None:
        self._app = app
        self._worker = worker
        self._hosts = make_hosts(worker.config.host, worker.config.allow_host)
        self._labels = labels
        self._prefixes = {path.partition("{")[0]: path for path in labels if "{" in path}
        self._open = open_paths | HEALTH
        self._ids = (secrets.token_hex(4), count(1))
        self._n_in_flight = 0
        self._n_unsent = 0  # bytes of large responses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or start and stop with the process."""
        if scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "http":
            await self._handle(scope, receive, send)

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self._worker.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._worker.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = perf_counter()
        path, headers = scope["path"], dict(scope["headers"])
        request_id = self._make_id(headers.get(b"x-request-id"))
        own = _PRIVATE if path.startswith("/v1/") else _SECURITY
        own = (*own, (b"x-request-id", request_id.encode()))
        status = 0
        self._n_in_flight += 1
        self._worker.metrics.count_in_flight(1)
        try:
            self._check_headers(scope)
            if len(headers) < len(scope["headers"]):
                check_repeated(scope["headers"])
            self._check(path, headers)
            response = await self._app(scope, receive)
            self._check_size(len(response.body))
            status = response.status
            await self._send(response, own, send)
        except Exception as error:
            known = to_request_error(error)
            if known.code == "internal":
                self._log_failure(error, request_id)
            _forget_frames(error)
            is_begun, status = status != 0, known.status
            if not is_begun:  # else nobody reads the status; the connection is closed
                await self._send(error_response(known, request_id), own, send)
        finally:
            self._n_in_flight -= 1
            try:
                self._log(scope, request_id, status, perf_counter() - started)
            finally:  # last: what is not in flight is counted
                self._worker.metrics.count_in_flight(-1)

    def _check_headers(self, scope: Scope) -> None:
        """Granian's own limit is that of its buffer, which may be twice as large."""
        most = self._worker.limits.header_bytes
        n_bytes = len(scope["query_string"])
        for name, value in scope["headers"]:
            n_bytes += len(name) + len(value)
        if n_bytes > most:
            rule = f"the request line and headers must have at most {most} bytes"
            raise RequestError("headers_too_large", f"{rule}; got more", headers=_CLOSE)

    def _check_size(self, n_bytes: int) -> None:
        """Refuse to send what is too large, alone or together with what is not sent yet."""
        limits = self._worker.limits
        if n_bytes > limits.response_bytes:
            raise too_large(limits.response_bytes)
        if n_bytes > _CHUNK and self._n_unsent + n_bytes > limits.unsent_bytes:
            rule = f"a worker keeps at most {limits.unsent_bytes} bytes that callers have not read"
            raise RequestError("overloaded", f"{rule}; got more", headers=RETRY)

    async def _send(self, response: Response, own: Headers, send: Send) -> None:
        body, status = response.body, response.status
        headers = [*response.headers, *own]
        if status != 304:  # its content-length would be that of the full response (RFC 9110)
            headers.append((b"content-length", b"%d" % len(body)))
        if self._worker.should_close():
            headers += _CLOSE
        await send({"type": "http.response.start", "status": status, "headers": headers})
        if len(body) <= _CHUNK:
            await send({"type": "http.response.body", "body": body})
        else:
            await self._send_chunks(body, send)

    async def _send_chunks(self, body: bytes, send: Send) -> None:
        """Send a body as fast as it is read: granian waits where a chunk waits.

        An exception here ends the connection, as the response is not complete.
        """
        seconds = self._worker.limits.unread_seconds
        self._n_unsent += len(body)
        try:
            for begin in range(0, len(body), _CHUNK):
                end = begin + _CHUNK
                chunk = {"type": "http.response.body", "body": body[begin:end]}
                async with asyncio.timeout(seconds):
                    await send({**chunk, "more_body": end < len(body)})
        except TimeoutError:
            rule = f"a caller must read {_CHUNK} bytes of a response within {seconds:g} s"
            raise RequestError("timeout", f"{rule}; got less") from None
        finally:
            self._n_unsent -= len(body)

    def _make_id(self, given: bytes | None) -> str:
        """The caller's id of a request, or a new one."""
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given.decode()
        start, numbers = self._ids
        return f"{start}-{next(numbers):x}"

    def _check(self, path: str, headers: dict[bytes, bytes]) -> None:
        worker = self._worker
        self._hosts.check(headers.get(b"host"))
        if path in self._open:
            return
        keys = worker.model.keys
        if keys is not None and not keys.allow(headers.get(b"authorization")):
            rule = "a request must have the header `Authorization: Bearer KEY` with a valid key"
            scheme = ((b"www-authenticate", b"Bearer"),)
            raise RequestError("unauthorized", f"{rule}; got none or another", headers=scheme)
        if self._n_in_flight > worker.limits.concurrency:
            rule = f"a worker handles at most {worker.limits.concurrency} requests at once"
            raise RequestError("overloaded", f"{rule}; got more", headers=RETRY)

    def _log_failure(self, error: Exception, request_id: str) -> None:
        text = format_exception(error, has_messages=self._worker.config.log_queries)
        logger.error("request failed", extra={"fields": {"request_id": request_id, "error": text}})

    def _name_route(self, path: str) -> str:
        """The label of a path that ends with a parameter, such as an id."""
        for prefix, known in self._prefixes.items():
            if path.startswith(prefix) and path != prefix:
                return self._labels[known]
        return OTHER

    def _log(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        route = self._labels.get(scope["path"]) or self._name_route(scope["path"])
        self._worker.metrics.count_request(route, status, seconds)
        if self._worker.config.access_log:
            fields: dict[str, Any] = {
                "request_id": request_id,
                "method": scope["method"][:_METHOD],
                "route": route,
                "status": status,
                "ms": round(1000 * seconds, 3),
            }
            if "queries" in scope:  # only set if they may be logged
                fields["queries"] = scope["queries"]
            self._worker.access_log.add(fields)


def _forget_frames(error: BaseException | None) -> None:
    """Let go of what a failed request held, which may be megabytes.

    Frames and futures hold the error whose traceback holds them, and collections are rare.
    """
    while error is not None:
        error.__traceback__, error = None, error.__context__
