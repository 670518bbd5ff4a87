"""App: how does a request reach its handler?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache, partial

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from matchset.serve.http.endpoints import ENDPOINTS
from matchset.serve.http.handlers import Handlers
from matchset.serve.http.middleware import HEALTH, OTHER, Middleware
from matchset.serve.http.request_errors import CODES, RequestError
from matchset.serve.http.static_files import StaticFile, read_page
from matchset.serve.openapi.docs import write_docs
from matchset.serve.openapi.document import make_document
from matchset.serve.worker import Worker

Handler = Callable[[Request], Awaitable[Response]]


def make_app(worker: Worker) -> ASGIApp:
    """The application of one worker."""
    handlers = Handlers(worker)
    paths: dict[str, dict[str, Handler]] = {}
    for endpoint in ENDPOINTS:
        paths.setdefault(endpoint.path, {})[endpoint.method] = partial(endpoint.handler, handlers)
    for path in HEALTH:  # load balancers send HEAD
        paths[path]["HEAD"] = handlers.health
    page, docs = read_page(), _make_docs(worker)
    found = {path: partial(page.__getitem__, path) for path in page} | docs
    for path, find in found.items():
        paths[path] = dict.fromkeys(("GET", "HEAD"), _send(find))
    # No Starlette application: its own error handlers would be a second way out for errors.
    # An id may have slashes, and is the end of its path.
    routes = [
        Route(path.replace("{id}", "{id:path}"), _Methods(methods))
        for path, methods in paths.items()
    ]
    router = Router(routes, redirect_slashes=False, default=_not_found)
    open_paths = frozenset(page)
    if worker.config.open_docs:
        open_paths |= frozenset(docs)
    if worker.config.open_metrics:
        open_paths |= {"/metrics"}
    labels = {path: "page" if path in page else path for path in paths}
    counted = {endpoint.path for endpoint in ENDPOINTS} | {OTHER}  # static files are no metric
    worker.metrics.begin(counted, worker.model.names)
    return Middleware(router, worker, labels=labels, open_paths=open_paths)


class _Methods:
    """The handlers of one path, by method."""

    def __init__(self, handlers: dict[str, Handler]) -> None:
        self._handlers = handlers
        self._allowed = ", ".join(sorted(handlers))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler = self._handlers.get(scope["method"])
        if handler is None:
            message = f"the method must be one of {self._allowed}; got {scope['method'][:20]}"
            allow = ((b"allow", self._allowed.encode()),)
            raise RequestError("method_not_allowed", message, headers=allow)
        response = await handler(Request(scope, receive))
        await response(scope, receive, send)


async def _not_found(_: Scope, __: Receive, ___: Send) -> None:
    raise RequestError("not_found", "there is nothing at this path")


def _make_docs(worker: Worker) -> dict[str, Callable[[], StaticFile]]:
    """What finds each description; a new version of a match set may have other parts."""

    @lru_cache(maxsize=1)
    def make(names: tuple[str, ...]) -> tuple[StaticFile, StaticFile]:
        document = make_document(ENDPOINTS, worker.limits, names)
        page = write_docs(document, CODES).encode()
        return StaticFile.of(orjson.dumps(document), ".json"), StaticFile.of(page, ".html")

    make(worker.model.names)  # now, and not while a caller waits
    return {
        "/openapi.json": lambda: make(worker.model.names)[0],
        "/docs": lambda: make(worker.model.names)[1],
    }


def _send(find: Callable[[], StaticFile]) -> Handler:
    async def send(request: Request) -> Response:
        return find().respond(request.headers.get("if-none-match"))

    return send
