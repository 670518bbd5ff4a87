"""Handlers: what does the server do for each path?"""

from __future__ import annotations

import re
from dataclasses import asdict
from functools import partial
from urllib.parse import unquote_to_bytes

from starlette.requests import Request

from matchset.online.record_files import EVENTS
from matchset.online.records import EventRecord, timestamp_now, write_record
from matchset.serve.body import read_json
from matchset.serve.decoding import decode, parse_query_string, read_parameters
from matchset.serve.exposed import exposing
from matchset.serve.prometheus import CONTENT_TYPE
from matchset.serve.request_errors import RETRY, RequestError
from matchset.serve.requests import (
    MAX_K,
    MAX_QUERIES,
    EventsRequest,
    ExplainRequest,
    MatchRequest,
    ProductsRequest,
    PurchasesRequest,
    RemovalRequest,
    read_batch,
    read_match,
)
from matchset.serve.responses import Response, json_response, model_response
from matchset.serve.retrieval import Answer, answering, explain
from matchset.serve.worker import Worker

_WRONG_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class Handlers:
    """The handlers of one worker; /docs shows their docstrings."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._answer = exposing(worker, answering(worker))

    async def health(self, _: Request) -> Response:
        """Say that the process answers."""
        return json_response({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Say that the process takes requests."""
        return await self.health(request)

    async def match(self, request: Request) -> Response:
        """Return the best products for one query."""
        asked = read_match(request.scope["query_string"])
        version, answer = await self._match(request, asked)
        return model_response(version, answer.to_single())

    async def match_batch(self, request: Request) -> Response:
        """Return the best products for each of many queries."""
        asked = await read_json(request, self._worker, read_batch)
        version, answer = await self._match(request, asked)
        return model_response(version, answer.to_batch(self._find_unknown(asked.options.where)))

    def _find_unknown(self, where: str | tuple[str, ...] | None) -> list[str]:
        """Return the ids of a filter that the model does not know."""
        if not isinstance(where, tuple):
            return []
        labels = self._worker.model.find_labels(where)
        return [product for product, label in zip(where, labels, strict=True) if label < 0]

    async def _match(self, request: Request, asked: MatchRequest) -> tuple[str, Answer]:
        worker, model = self._worker, self._worker.model
        if worker.config.log_queries:
            request.scope["queries"] = asked.queries
        answer = await self._answer(model, asked)
        worker.metrics.count_queries(answer.matcher, len(answer.results), answer.n_empty)
        return model.version, answer

    async def events(self, request: Request) -> Response:
        """Record clicks and purchases of answers that were recorded, for an experiment."""
        worker, model = self._worker, self._worker.model
        if model.experiment is None:
            raise RequestError(
                "no_experiment", "events need a server started with --experiment; got none"
            )
        events = await read_json(request, worker, read_events)
        lines = b"".join(map(write_record, events))
        if lines and not worker.record(EVENTS, lines, len(events)):
            rule = "the disk must take records; got a full or a slow one"
            raise RequestError("not_recorded", rule, headers=RETRY)
        return model_response(model.version, {"recorded": len(events)})

    async def explain(self, request: Request) -> Response:
        """Explain why a query finds a product, or where in the tree the product was lost."""
        worker, model = self._worker, self._worker.model
        wanted = await read_json(request, worker, partial(decode, kind=ExplainRequest))
        content = await worker.explain_in_turn(lambda: explain(model, wanted))
        return model_response(model.version, content)

    async def model(self, _: Request) -> Response:
        """Describe the served model and the limits of requests."""
        model, purchases = self._worker.model, self._worker.purchases
        described = {
            **model.describe(),
            "limits": {**asdict(self._worker.limits), "k": MAX_K, "queries": MAX_QUERIES},
            "examples": [] if purchases is None else list(purchases.examples),
            "has_purchases": purchases is not None,
            "purchases_are": None if purchases is None else purchases.word,
        }
        return model_response(model.version, described)

    async def purchases(self, request: Request) -> Response:
        """Return what customers bought after a query, in the log of the server."""
        model, purchases = self._worker.model, self._worker.purchases
        query = read_parameters(
            parse_query_string(request.scope["query_string"]), PurchasesRequest
        ).q
        if purchases is None:
            raise RequestError("no_log", "purchases need a server started with --log; got none")
        products = model.find_allowed(purchases.find(query), None)
        return model_response(model.version, {"query": query, "products": products})

    async def write(self, request: Request) -> Response:
        """Add, change and remove products; the other workers follow within a second."""
        read = partial(decode, kind=ProductsRequest)
        return await self._write(await read_json(request, self._worker, read))

    async def remove(self, request: Request) -> Response:
        """Remove a product; an unknown id is ignored, and named in the response."""
        check_path(request.scope["raw_path"])
        parameters = parse_query_string(request.scope["query_string"])
        removal = read_parameters({**parameters, "id": request.path_params["id"]}, RemovalRequest)
        return await self._write(ProductsRequest(remove=(removal.id,), version=removal.version))

    async def _write(self, wanted: ProductsRequest) -> Response:
        unknown = self._find_unknown(wanted.remove)
        written = await self._worker.write_in_thread(wanted)
        content = {"generation": written.generation, "unknown": unknown}
        return model_response(written.version, content)

    async def reload(self, _: Request) -> Response:
        """Load the model again; the other workers follow within a second."""
        worker = self._worker
        if worker.model.keys is None:
            raise RequestError(
                "reload_forbidden", "reload needs a server started with --api-key-file; got none"
            )
        previous = worker.model.version
        model = await worker.reload_in_thread()
        return model_response(model.version, {"previous": previous})

    async def metrics(self, _: Request) -> Response:
        """Return metrics of all workers, for Prometheus."""
        body = await self._worker.write_metrics()
        return Response(body, headers=((b"content-type", CONTENT_TYPE),))


def read_events(body: bytes) -> list[EventRecord]:
    """Read `POST /v1/events`."""
    now = timestamp_now()
    return [
        EventRecord(
            action=event.action_name,
            query_id=event.query_id,
            product=event.object_id,
            timestamp=now,
            position=event.position,
            revenue=event.revenue,
        )
        for event in decode(body, EventsRequest).events
    ]


def check_path(raw_path: bytes) -> None:
    """Refuse a path that a server before us could read in another way."""
    try:
        unquote_to_bytes(raw_path).decode()
        is_right = not _WRONG_ESCAPE.search(raw_path)
    except UnicodeDecodeError:
        is_right = False
    if not is_right:
        rule = "a path must be UTF-8, with escapes such as %C3%BC; got others"
        raise RequestError("bad_parameter", rule)
