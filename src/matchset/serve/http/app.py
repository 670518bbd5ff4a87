"""App: how does a request reach its handler?"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from urllib.parse import unquote_to_bytes

import orjson
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope

from matchset.serve.http.endpoints import ENDPOINTS
from matchset.serve.http.handlers import Handlers
from matchset.serve.http.middleware import HEALTH, OTHER, Middleware
from matchset.serve.http.request_errors import CODES, RequestError
from matchset.serve.http.responses import Response
from matchset.serve.http.static_files import StaticFile, read_page
from matchset.serve.openapi.docs import write_docs
from matchset.serve.openapi.document import make_document
from matchset.serve.worker import Worker

Handler = Callable[[Request], Awaitable[Response]]
_ID = "{id}"
_WRONG_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


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
    open_paths = frozenset(page)
    if worker.config.open_docs:
        open_paths |= frozenset(docs)
    if worker.config.open_metrics:
        open_paths |= {"/metrics"}
    labels = {path: "page" if path in page else path for path in paths}
    counted = {endpoint.path for endpoint in ENDPOINTS} | {OTHER}  # static files are no metric
    worker.metrics.begin(counted, worker.model.names)
    return Middleware(_Router(paths), worker, labels=labels, open_paths=open_paths)


class _Router:
    """The handlers of each path, by method.

    No router of Starlette: it compares a path with one route after another, for every request.
    """

    def __init__(self, paths: dict[str, dict[str, Handler]]) -> None:
        self._paths = {path: paths[path] for path in paths if not path.endswith(_ID)}
        # An id may have slashes, and is the end of its path.
        self._prefixes = {
            path.removesuffix(_ID): paths[path] for path in paths if path.endswith(_ID)
        }

    def __call__(self, scope: Scope, receive: Receive) -> Awaitable[Response]:
        handlers = self._paths.get(scope["path"]) or self._find(scope)
        handler = handlers.get(scope["method"])
        if handler is None:
            allowed = ", ".join(sorted(handlers))
            message = f"the method must be one of {allowed}; got {scope['method'][:20]}"
            allow = ((b"allow", allowed.encode()),)
            raise RequestError("method_not_allowed", message, headers=allow)
        return handler(Request(scope, receive))

    def _find(self, scope: Scope) -> dict[str, Handler]:
        for prefix, handlers in self._prefixes.items():
            if scope["path"].startswith(prefix):
                _check_escapes(scope["raw_path"])
                scope["path_params"] = {"id": scope["path"].removeprefix(prefix)}
                return handlers
        raise RequestError("not_found", "there is nothing at this path")


def _check_escapes(raw_path: bytes) -> None:
    """Refuse a path that a server before us could read in another way."""
    try:
        unquote_to_bytes(raw_path).decode()
        is_right = not _WRONG_ESCAPE.search(raw_path)
    except UnicodeDecodeError:
        is_right = False
    if not is_right:
        rule = "a path must be UTF-8, with escapes such as %C3%BC; got others"
        raise RequestError("bad_parameter", rule)


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
