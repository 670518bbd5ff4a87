"""Middleware: which requests come in, what is logged, and what leaves with every response?

One layer around everything, so that a request costs little: host, key and load are checked before
anything else looks at it, and every error leaves here, as JSON.
"""

from __future__ import annotations

import logging
import re
import secrets
from itertools import count
from time import perf_counter
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from matchset.serve.access_log import format_exception
from matchset.serve.auth import check_repeated, make_hosts
from matchset.serve.request_errors import CLOSE, RETRY, RequestError, to_request_error
from matchset.serve.responses import error_response
from matchset.serve.sending import Sender
from matchset.serve.worker import Worker

logger = logging.getLogger(__name__)

OTHER = "other"  # the label of paths that are not there
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
HEADER_BYTES = 65_536  # of the request line and headers together
_METHOD = 20  # characters of a method that are logged; a caller may send any
_POLICY = (
    b"default-src 'self'; object-src 'none'; form-action 'self'; "
    b"frame-ancestors 'none'; base-uri 'none'"
)
_SECURITY = [
    (b"content-security-policy", _POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"server", b"matchset"),  # or granian would tell its own name
]
_PRIVATE = [*_SECURITY, (b"cache-control", b"no-store")]  # a shared cache must not keep it
_PUBLIC = [*_SECURITY, (b"cache-control", b"no-cache")]


class Middleware:
    """ASGI around the router; `open_paths` need no key."""

    def __init__(
        self, app: ASGIApp, worker: Worker, sender: Sender, open_paths: frozenset[str]
    ) -> None:
        self._app, self._worker, self._sender = app, worker, sender
        self._hosts = make_hosts(worker.config.host, worker.config.allow_host)
        self._open = open_paths
        self._ids = (secrets.token_hex(4), count(1))
        self._n_in_flight = 0

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
        started, status = perf_counter(), 0
        headers = dict(scope["headers"])
        request_id = self._make_id(headers.get(b"x-request-id"))
        always = _PRIVATE if scope["path"].startswith("/v1/") else _PUBLIC
        always = [*always, (b"x-request-id", request_id.encode())]

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *always]
            await send(message)

        self._n_in_flight += 1
        self._worker.metrics.count_in_flight(1)
        try:
            self._check(scope, headers)
            await self._app(scope, receive, send_with_headers)
        except Exception as error:
            known = to_request_error(error)
            if known.code == "internal":
                self._log_failure(error, request_id)
            _forget_frames(error)
            if status == 0:  # else its response has begun, and the connection is closed
                await self._sender.send(error_response(known, request_id), send_with_headers)
            status = known.status
        finally:
            self._n_in_flight -= 1
            try:
                self._log(scope, request_id, status, perf_counter() - started)
            finally:  # last: what is not in flight is counted
                self._worker.metrics.count_in_flight(-1)

    def _make_id(self, given: bytes | None) -> str:
        """Return the caller's id of a request, or a new one."""
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given.decode()
        start, numbers = self._ids
        return f"{start}-{next(numbers):x}"

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Raise an error about a request that is not let in."""
        check_size(scope)
        if len(headers) < len(scope["headers"]):
            check_repeated(scope["headers"])
        worker = self._worker
        self._hosts.check(headers.get(b"host"))
        if scope["path"] in self._open:
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

    def _log(self, scope: Scope, request_id: str, status: int, seconds: float) -> None:
        default = "page" if scope["path"] in self._open else OTHER
        route = getattr(scope.get("endpoint"), "label", default)
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


def check_size(scope: Scope) -> None:
    """Refuse large headers; granian's own limit is that of its buffer, which may be twice that."""
    n_bytes = len(scope["query_string"])
    for name, value in scope["headers"]:
        n_bytes += len(name) + len(value)
    if n_bytes > HEADER_BYTES:
        rule = f"the request line and headers must have at most {HEADER_BYTES} bytes"
        raise RequestError("headers_too_large", f"{rule}; got more", headers=CLOSE)


def _forget_frames(error: BaseException | None) -> None:
    """Let go of what a failed request held, which may be megabytes.

    Frames and futures hold the error whose traceback holds them, and collections are rare.
    """
    while error is not None:
        error.__traceback__, error = None, error.__context__
