"""Endpoints: which paths are there, and what does each take and return?

A new endpoint is an entry here and a method of `Handlers`; new fields go into `requests`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from matchset.serve.http.fields import Json
from matchset.serve.http.handlers import Handlers
from matchset.serve.openapi.schema import PRODUCT, VERSION

_RESULT = {"query": "sofa", "microseconds": 43, "products": [PRODUCT]}
_STEP = {
    "level": 0,
    "name": "sofa, couch",
    "score": 0.99,
    "rank": 1,
    "in_beam": True,
    "bias": -0.94,
    "for": [{"ngram": "sofa", "weight": 0.57}],
    "against": [],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A path and a method; `name` is the operation in the OpenAPI document."""

    name: str
    path: str
    handler: Callable[[Handlers, Request], Awaitable[Response]]
    summary: str
    response: str | None  # name of a schema; None: plain text
    example: Any = None
    request: str | None = None  # name in `make_fields`: a GET has parameters, a POST a body
    body: Json | None = None  # example of a body
    method: str = "GET"
    codes: tuple[str, ...] = ()  # errors beside those of its fields
    needs_key: bool = True


ENDPOINTS = (
    # Paths are tried in this order: the busiest comes first.
    Endpoint(
        name="match",
        path="/v1/match",
        handler=Handlers.match,
        summary="The best products for one query",
        request="match",
        response="MatchResponse",
        example={"model_version": VERSION, "matcher": "xr_linear", **_RESULT},
        codes=("timeout",),
    ),
    Endpoint(
        name="health",
        path="/healthz",
        handler=Handlers.health,
        summary="Whether the process answers",
        response="HealthResponse",
        example={"status": "ok"},
        needs_key=False,
    ),
    Endpoint(
        name="ready",
        path="/readyz",
        handler=Handlers.health,
        summary="Whether the process takes requests",
        response="HealthResponse",
        example={"status": "ok"},
        needs_key=False,
    ),
    Endpoint(
        name="match_batch",
        method="POST",
        path="/v1/match",
        handler=Handlers.match_batch,
        summary="The best products for each of many queries",
        request="batch",
        body={"queries": ["sofa"], "k": 10},
        response="BatchResponse",
        example={"model_version": VERSION, "matcher": "xr_linear", "results": [_RESULT]},
        codes=("timeout",),
    ),
    Endpoint(
        name="explain",
        method="POST",
        path="/v1/explain",
        handler=Handlers.explain,
        summary="Why a query finds a product, or where in the tree the product was lost",
        request="explain",
        body={"query": "sofa", "product": PRODUCT["id"]},
        response="ExplainResponse",
        example={
            "model_version": VERSION,
            "query": "sofa",
            "product": {"id": PRODUCT["id"], "title": PRODUCT["title"]},
            "score": PRODUCT["score"],
            "is_allowed": True,
            "is_returned": True,
            "rank": 1,
            "lost_at": None,
            "steps": [_STEP],
        },
        codes=("timeout", "unknown_product", "cannot_explain"),
    ),
    Endpoint(
        name="model",
        path="/v1/model",
        handler=Handlers.model,
        summary="The served model and the limits of requests",
        response="ModelResponse",
        example={
            "model_version": VERSION,
            "matchers": [
                {"name": "xr_linear", "label": "XR-Linear", "can_explain": True, "has_beam": True}
            ],
            "products": 200_000,
            "attributes": [{"name": "price", "type": "number"}],
            "has_titles": True,
            "opened_at": "2026-11-15T10:48:09.936+00:00",
            "provenance": {"trained": "2026-11-14T02:00:00+00:00"},
            "limits": {"k": 1000, "queries": 256},
            "examples": ["sofa"],
            "has_purchases": True,
        },
    ),
    Endpoint(
        name="purchases",
        path="/v1/purchases",
        handler=Handlers.purchases,
        summary="What customers bought after a query, in the log that the server was started with",
        request="purchases",
        response="PurchasesResponse",
        example={"model_version": VERSION, "query": "sofa", "products": [PRODUCT["id"]]},
        codes=("no_log",),
    ),
    Endpoint(
        name="reload",
        method="POST",
        path="/v1/reload",
        handler=Handlers.reload,
        summary="Load the model's folder again; responds when every worker has switched",
        response="ReloadResponse",
        example={"model_version": VERSION, "previous": "0a1b2c3d4e5f", "workers": 2},
        codes=("reload_forbidden", "reload_running", "model_refused", "reload_timeout"),
    ),
    Endpoint(
        name="metrics",
        path="/metrics",
        handler=Handlers.metrics,
        summary="Metrics of all workers, for Prometheus",
        response=None,
        codes=("timeout",),
    ),
)
