"""App: which paths are there, and who answers them?"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from matchset.serve.http.answers import Answer, error_answer, json_answer, model_headers
from matchset.serve.http.bodies import read_body
from matchset.serve.http.handlers import answer_batch, answer_one, answer_quickly, explain
from matchset.serve.http.middleware import HEALTH, Gate
from matchset.serve.http.problems import CODES, RequestError
from matchset.serve.http.prometheus import CONTENT_TYPE
from matchset.serve.http.requests import MatchReader, read_batch, read_bought, read_doubt
from matchset.serve.openapi import operations
from matchset.serve.openapi.docs import PageFile, make_file, read_page, write_docs
from matchset.serve.worker import Worker

_OK = b'{"status":"ok"}'


def make_app(worker: Worker) -> ASGIApp:
    """The application of one worker."""
    app = FastAPI(
        title="matchset", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False
    )
    app.router.route_class = PlainRoute
    _add_routes(app, worker)
    page, docs = read_page(), _read_docs(app, worker)
    for path, file in {**page, **docs}.items():
        app.add_api_route(path, _send(file), methods=["GET", "HEAD"], include_in_schema=False)
    app.add_exception_handler(RequestError, _refuse)
    app.add_exception_handler(HTTPException, _refuse_path(app))
    app.add_exception_handler(Exception, _fail)
    open_routes = frozenset(page)
    if worker.config.open_docs:
        open_routes |= frozenset(docs)
    if worker.config.open_metrics:
        open_routes |= {"/metrics"}
    routes = frozenset(str(getattr(route, "path", "")) for route in app.routes)
    return Gate(app, worker, routes=routes, open_routes=open_routes)


class PlainRoute(APIRoute):
    """A path whose function takes the request itself.

    Parameters are read and checked by `questions`: ten times faster than by a model of each.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Give the function as it is."""
        return self.endpoint


class Routes:
    """What each path does."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._reader = MatchReader(worker.limits)

    async def health(self, _: Request) -> Response:
        """The process answers."""
        return Answer(_OK)

    async def match(self, request: Request) -> Response:
        """The best products for one query."""
        worker, served = self._worker, self._worker.served
        query, question = self._reader.read(request.scope["query_string"])
        if worker.config.log_queries:
            request.scope["queries"] = [query]
        answered = answer_quickly(served, query, question)
        if answered is None:
            answered = await worker.in_thread(lambda: answer_one(served, query, question))
        body, n_products = answered
        worker.metrics.count_queries(question.matcher, 1, int(not n_products))
        return Answer(body, headers=served.headers)

    async def match_many(self, request: Request) -> Response:
        """The best products for each of many queries."""
        worker, served = self._worker, self._worker.served
        batch = read_batch(await read_body(request, worker.limits), worker.limits)
        if worker.config.log_queries:
            request.scope["queries"] = batch.queries
        deadline = time.monotonic() + worker.limits.seconds  # waiting for a thread counts too
        body, n_empty = await worker.in_thread(lambda: answer_batch(served, batch, deadline))
        worker.metrics.count_queries(batch.question.matcher, len(batch.queries), n_empty)
        return Answer(body, headers=served.headers)

    async def explain(self, request: Request) -> Response:
        """Why a query gets a product, or where in the tree it was lost."""
        worker, served = self._worker, self._worker.served
        doubt = read_doubt(await read_body(request, worker.limits), worker.limits)
        content = await worker.in_thread(lambda: explain(served, doubt))
        return json_answer(content, headers=served.headers[1:])

    async def model(self, _: Request) -> Response:
        """What is served, and how much may be asked for."""
        served, bought = self._worker.served, self._worker.bought
        content: dict[str, Any] = {
            "model_version": served.version,
            **served.describe(),
            "limits": asdict(self._worker.limits),
            "examples": [] if bought is None else list(bought.examples),
            "has_bought": bought is not None,
        }
        return json_answer(content, headers=served.headers[1:])

    async def bought(self, request: Request) -> Response:
        """What customers bought for a query, in the log that the server was started with."""
        served, bought = self._worker.served, self._worker.bought
        query = read_bought(request.scope["query_string"], self._worker.limits)
        if bought is None:
            raise RequestError("no_log", "a server must be started with --log; got none")
        content = {
            "model_version": served.version,
            "query": query,
            "products": list(bought.find(query)),
        }
        return json_answer(content, headers=served.headers[1:])

    async def reload(self, _: Request) -> Response:
        """Serve what lies in the model's folder now; answers when every worker does."""
        worker = self._worker
        if worker.served.keys is None:
            raise RequestError("reload_forbidden", "a server must have --api-key-file; got none")
        done = await worker.reload_in_thread()
        content = {
            "model_version": done.version,
            "previous": done.previous,
            "workers": done.workers,
        }
        return json_answer(content, headers=model_headers(done.version)[1:])

    async def metrics(self, _: Request) -> Response:
        """Numbers over all workers, for Prometheus."""
        body = await self._worker.write_metrics()
        return Answer(body, headers=((b"content-type", CONTENT_TYPE),))


def _add_routes(app: FastAPI, worker: Worker) -> None:
    routes, limits = Routes(worker), worker.limits
    # First what is asked most: paths are tried in this order.
    app.add_api_route("/v1/match", routes.match, **operations.match(limits, worker.served.names))
    app.add_api_route("/healthz", routes.health, **operations.health())
    app.add_api_route("/readyz", routes.health, **operations.health())
    app.add_api_route("/v1/match", routes.match_many, methods=["POST"], **operations.match_many())
    app.add_api_route("/v1/explain", routes.explain, methods=["POST"], **operations.explain())
    app.add_api_route("/v1/model", routes.model, **operations.model())
    app.add_api_route("/v1/bought", routes.bought, **operations.bought(limits))
    app.add_api_route("/v1/reload", routes.reload, methods=["POST"], **operations.reload())
    app.add_api_route("/metrics", routes.metrics, **operations.metrics())
    for path in HEALTH:  # load balancers ask so
        app.add_api_route(path, routes.health, methods=["HEAD"], include_in_schema=False)


def _read_docs(app: FastAPI, worker: Worker) -> dict[str, PageFile]:
    # Which matchers there are is settled when the server starts; a reload brings newer ones.
    names = worker.served.names
    document = operations.make_openapi(app, worker.limits, names)
    page = write_docs(document, CODES).encode()
    return {
        "/openapi.json": make_file(orjson.dumps(document), b"application/json"),
        "/docs": make_file(page, b"text/html; charset=utf-8"),
    }


def _send(file: PageFile) -> Any:
    async def send(request: Request) -> Response:
        known = request.headers.get("if-none-match")
        return file.answer(None if known is None else known.encode("latin-1"))

    return send


async def _refuse(request: Request, error: Exception) -> Response:
    if not isinstance(error, RequestError):
        raise error
    return error_answer(error, request.scope["request_id"])


def _refuse_path(app: FastAPI) -> Callable[[Request, Exception], Coroutine[Any, Any, Response]]:
    """What FastAPI itself refuses: paths and methods."""
    allowed: dict[str, set[str]] = {}
    for route in app.routes:
        if isinstance(route, APIRoute):
            allowed.setdefault(route.path, set()).update(route.methods or ())

    async def refuse(request: Request, error: Exception) -> Response:
        methods = ", ".join(sorted(allowed.get(request.scope["path"], ())))
        if isinstance(error, HTTPException) and error.status_code == 405:
            rule = f"the method must be one of {methods}; got {request.method[:20]}"
            refused = RequestError("method_not_allowed", rule, ((b"allow", methods.encode()),))
        else:
            refused = RequestError("not_found", "there is nothing at this path")
        return error_answer(refused, request.scope["request_id"])

    return refuse


async def _fail(request: Request, _: Exception) -> Response:
    """The gate hears of the exception too, and logs it."""
    fault = RequestError("internal", "the server failed; its log says why")
    return error_answer(fault, request.scope["request_id"])
