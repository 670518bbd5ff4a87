"""App: how does a request reach its handler?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache, partial
from importlib.resources import files

import msgspec
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from matchset.serve.endpoints import ENDPOINTS
from matchset.serve.handlers import Handlers
from matchset.serve.middleware import OTHER, Middleware
from matchset.serve.openapi import make_document
from matchset.serve.request_errors import not_found, wrong_method
from matchset.serve.responses import JSON, Response
from matchset.serve.sending import Sender
from matchset.serve.worker import Worker

Handler = Callable[[Request], Awaitable[Response]]
_PAGE = str(files("matchset.serve").joinpath("page"))


def make_app(worker: Worker) -> ASGIApp:
    """Return the application of one worker."""
    handlers, sender = Handlers(worker), Sender(worker.limits)
    by_path: dict[str, dict[str, Handler]] = {}
    for endpoint in ENDPOINTS:
        methods = by_path.setdefault(endpoint.path, {})
        methods[endpoint.method] = partial(endpoint.handler, handlers)
    routes: list[Route | Mount] = [
        Route(path.replace("{id}", "{id:any}"), Paths(path, methods, sender))
        for path, methods in by_path.items()
    ]
    page = StaticFiles(directory=_PAGE, html=True)
    # No secret: the same of every server.
    described = Paths("/openapi.json", {"GET": _send_document}, sender)
    routes += [
        Route("/openapi.json", described),
        Route("/docs", _send_docs),
        Mount("/", page),
    ]
    names = [file.name for file in files("matchset.serve").joinpath("page").iterdir()]
    open_paths = {"/", "/docs", "/openapi.json", *(f"/{name}" for name in names)}
    open_paths |= {endpoint.path for endpoint in ENDPOINTS if not endpoint.needs_key}
    if worker.config.open_metrics:
        open_paths.add("/metrics")
    worker.metrics.begin({*by_path, OTHER}, worker.model.names)
    router = Router(routes, redirect_slashes=False, default=_refuse)
    return Middleware(router, worker, sender, frozenset(open_paths))


class Paths:
    """What answers at a path. An ASGI application: for a function, Starlette does more."""

    def __init__(self, label: str, handlers: dict[str, Handler], sender: Sender) -> None:
        self.label = label  # in metrics and logs
        self._handlers, self._sender = handlers, sender

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if self.label != scope["path"] and "{" not in self.label:
            raise not_found()  # a line break at the end, which Starlette overlooks
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        if method not in self._handlers:
            raise wrong_method(sorted(self._handlers))
        response = await self._handlers[method](Request(scope, receive))
        await self._sender.send(response, send)


class _Any(StringConvertor):
    """The rest of a path, with slashes and line breaks: an id."""

    regex = "(?s:.*)"


register_url_convertor("any", _Any())


async def _refuse(*_: object) -> None:
    raise not_found()


@cache
def _write_document() -> bytes:
    return msgspec.json.encode(make_document(ENDPOINTS))


async def _send_document(_: Request) -> Response:
    return Response(_write_document(), headers=(JSON,))


async def _send_docs(_: Request) -> FileResponse:
    return FileResponse(f"{_PAGE}/docs.html")
