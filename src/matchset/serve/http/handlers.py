"""Handlers: what does the server do for each path?"""

from __future__ import annotations

from dataclasses import asdict

from starlette.requests import Request

from matchset.online.record_files import EVENTS
from matchset.online.records import write_record
from matchset.serve.http.body import read_json
from matchset.serve.http.exposed import exposing
from matchset.serve.http.prometheus import CONTENT_TYPE
from matchset.serve.http.request_errors import RETRY, RequestError
from matchset.serve.http.requests import MatchRequest, RequestReader, WriteRequest
from matchset.serve.http.responses import Response, json_response, model_response
from matchset.serve.http.retrieval import Answer, answering, explain
from matchset.serve.turns import while_connected
from matchset.serve.worker import Worker


class Handlers:
    """The handlers of one worker; /docs shows their docstrings."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._names = worker.model.names
        self._latest_reader = RequestReader(worker.limits, self._names)
        self._answer = exposing(worker, answering(worker))

    @property
    def _reader(self) -> RequestReader:
        """What checks requests: a new version of a match set may have other parts."""
        if (names := self._worker.model.names) != self._names:
            self._names, self._latest_reader = names, RequestReader(self._worker.limits, names)
        return self._latest_reader

    async def health(self, _: Request) -> Response:
        """Whether the process answers."""
        return json_response({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Whether the process takes requests."""
        return await self.health(request)

    async def match(self, request: Request) -> Response:
        """The best products for one query."""
        asked = self._reader.read_match(request.scope["query_string"])
        version, answer = await self._match(request, asked)
        return model_response(version, answer.to_single())

    async def match_batch(self, request: Request) -> Response:
        """The best products for each of many queries."""
        asked = await read_json(request, self._worker, self._reader.read_batch)
        version, answer = await self._match(request, asked)
        return model_response(version, answer.to_batch())

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
        events = await read_json(request, worker, self._reader.read_events)
        lines = b"".join(map(write_record, events))
        if lines and not worker.record(EVENTS, lines, len(events)):
            rule = "the disk must take records; got a full or a slow one"
            raise RequestError("not_recorded", rule, headers=RETRY)
        return model_response(model.version, {"recorded": len(events)})

    async def explain(self, request: Request) -> Response:
        """Why a query finds a product, or where in the tree the product was lost."""
        worker, model = self._worker, self._worker.model
        wanted = await read_json(request, worker, self._reader.read_explain)
        explaining = worker.explain_in_turn(lambda: explain(model, wanted))
        content = await while_connected(request.receive, explaining)
        return model_response(model.version, content)

    async def model(self, _: Request) -> Response:
        """The served model and the limits of requests."""
        model, purchases = self._worker.model, self._worker.purchases
        described = {
            **model.describe(),
            "limits": asdict(self._worker.limits),
            "examples": [] if purchases is None else list(purchases.examples),
            "has_purchases": purchases is not None,
            "purchases_are": None if purchases is None else purchases.word,
        }
        return model_response(model.version, described)

    async def purchases(self, request: Request) -> Response:
        """What customers bought after a query, in the log that the server was started with."""
        model, purchases = self._worker.model, self._worker.purchases
        query = self._reader.read_purchases(request.scope["query_string"])
        if purchases is None:
            raise RequestError("no_log", "purchases need a server started with --log; got none")
        products = model.find_allowed(purchases.find(query), None)
        return model_response(model.version, {"query": query, "products": products})

    async def write(self, request: Request) -> Response:
        """Add, change and remove products; responds when every worker serves what is on disk."""
        worker, read = self._worker, self._reader.read_products
        wanted = await read_json(request, worker, read, most_keys=worker.limits.body_values)
        return await self._write(wanted)

    async def remove(self, request: Request) -> Response:
        """Remove a product; an unknown id is ignored, and named in the response."""
        product, query_string = request.path_params["id"], request.scope["query_string"]
        return await self._write(self._reader.read_removal(product, query_string))

    async def _write(self, wanted: WriteRequest) -> Response:
        model = self._worker.model  # it serves every product of an earlier response
        found = model.matchers[model.default].products.index_of(wanted.remove)
        unknown = [one for one, label in zip(wanted.remove, found, strict=True) if label < 0]
        written = await self._worker.write_in_thread(wanted)
        content = {"generation": written.generation, "unknown": unknown}
        return model_response(written.version, content)

    async def reload(self, _: Request) -> Response:
        """Load the model's folder again; responds when every worker has switched."""
        worker = self._worker
        if worker.model.keys is None:
            raise RequestError(
                "reload_forbidden", "reload needs a server started with --api-key-file; got none"
            )
        done = await worker.reload_in_thread()
        return model_response(done.version, {"previous": done.previous, "workers": done.workers})

    async def metrics(self, _: Request) -> Response:
        """Metrics of all workers, for Prometheus."""
        body = await self._worker.write_metrics()
        return Response(body, headers=((b"content-type", CONTENT_TYPE),))
