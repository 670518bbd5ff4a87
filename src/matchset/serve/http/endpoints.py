"""Endpoints: which paths are there, and what does each take and return?

A new endpoint is an entry here, a method of `Handlers` and a schema of its response; fields that it
takes go into `request_schemas` and are read in `requests`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request

from matchset.serve.http.handlers import Handlers
from matchset.serve.http.responses import Response
from matchset.serve.http.validation import Json
from matchset.serve.openapi.schema import PRODUCT, VERSION

_OK: Json = {"status": "ok"}
_RESULT: Json = {"query": "sofa", "microseconds": 43, "products": [PRODUCT]}
_EXPLANATION: Json = {
    "model_version": VERSION,
    "query": "sofa",
    "product": PRODUCT["id"],
    "title": PRODUCT["title"],
    "score": PRODUCT["score"],
    "linear": 4.21,
    "is_allowed": True,
    "is_returned": True,
    "rank": 1,
    "verdict": "found at rank 1",
    "parts": [
        {
            "name": "lexical",
            "share": 1.75,
            "note": "rank 1",
            "is_proposed": True,
            "rank": 1,
            "words": [{"word": "sofa", "weight": 5.2}],
        }
    ],
    "steps": [
        {
            "level": 0,
            "name": "sofa, couch",
            "score": 0.99,
            "rank": 1,
            "is_kept": True,
            "bias": -0.94,
            "words": [{"word": "sofa", "weight": 0.57}],
        }
    ],
}
_MATCH_SET = {
    "name": "match_set",
    "label": "Match set",
    "part_of": None,
    "can_explain": True,
    "has_beam": True,
}
_TREE = {**_MATCH_SET, "name": "tree", "label": "Tree", "part_of": "match_set"}
_WRITING = ("read_only", "not_written", "maybe_written", "reload_timeout", "model_rejected")
_MODEL: Json = {
    "model_version": VERSION,
    "matchers": [_MATCH_SET, _TREE],
    "products": 200_000,
    "attributes": [{"name": "price", "type": "number"}],
    "has_titles": True,
    "freshness": {
        "generation": 17,
        "changed": "2026-11-15T10:48:08+00:00",
        "added": 310,
        "updated": 4100,
        "retitled": 12,
        "removed": 25,
        "share_added": 0.00155,
        "share_removed": 0.000125,
    },
    "opened_at": "2026-11-15T10:48:09.936+00:00",
    "provenance": {"trained": "2026-11-14T02:00:00+00:00"},
    "limits": {"k": 1000, "queries": 256},
    "examples": ["sofa"],
    "has_purchases": True,
    "purchases_are": "bought",
}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path and a method. The name and docstring of the handler are those of the operation."""

    method: str
    path: str
    handler: Callable[[Handlers, Request], Awaitable[Response]]
    response: str | None  # name of a schema; None: plain text
    example: Json | None = None  # of a response
    request: str | None = None  # name of a schema: a GET has parameters, a POST a body
    body: Json | None = None  # example of a body, or of parameters
    codes: tuple[str, ...] = ()  # errors in addition to those of the request's fields
    needs_key: bool = True


# Paths are tried in this order: the busiest comes first.
ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/match",
        Handlers.match,
        "MatchResponse",
        {"model_version": VERSION, "matcher": "match_set", **_RESULT},
        request="match",
        body={"q": "sofa", "k": 10, "min_relative": 0.1},
        codes=("timeout",),
    ),
    Endpoint("GET", "/healthz", Handlers.health, "HealthResponse", _OK, needs_key=False),
    Endpoint("GET", "/readyz", Handlers.ready, "HealthResponse", _OK, needs_key=False),
    Endpoint(
        "POST",
        "/v1/match",
        Handlers.match_batch,
        "BatchResponse",
        {"model_version": VERSION, "matcher": "match_set", "results": [_RESULT]},
        request="batch",
        body={"queries": ["sofa"], "k": 10},
        codes=("timeout", "response_too_large"),
    ),
    Endpoint(
        "POST",
        "/v1/explain",
        Handlers.explain,
        "ExplainResponse",
        _EXPLANATION,
        request="explain",
        body={"query": "sofa", "product": PRODUCT["id"]},
        codes=("timeout", "unknown_product", "cannot_explain"),
    ),
    Endpoint(
        "POST",
        "/v1/events",
        Handlers.events,
        "EventsResponse",
        {"model_version": VERSION, "recorded": 1},
        request="events",
        body={
            "events": [
                {
                    "action_name": "click",
                    "query_id": "5f2b8c0de41a47f09c3d6e7a8b901234",
                    "object_id": PRODUCT["id"],
                    "position": 1,
                }
            ]
        },
        codes=("timeout", "no_experiment", "not_recorded"),
    ),
    Endpoint("GET", "/v1/model", Handlers.model, "ModelResponse", _MODEL),
    Endpoint(
        "GET",
        "/v1/purchases",
        Handlers.purchases,
        "PurchasesResponse",
        {"model_version": VERSION, "query": "sofa", "products": [PRODUCT["id"]]},
        request="purchases",
        body={"q": "sofa"},
        codes=("no_log",),
    ),
    Endpoint(
        "POST",
        "/v1/products",
        Handlers.write,
        "WriteResponse",
        {"model_version": VERSION, "generation": 17, "unknown": []},
        request="products",
        body={"products": [{"id": "P1", "title": "Twin Sofa", "attributes": {"price": 499}}]},
        codes=_WRITING,
    ),
    Endpoint(
        "DELETE",
        "/v1/products/{id}",
        Handlers.remove,
        "WriteResponse",
        {"model_version": VERSION, "generation": 18, "unknown": []},
        request="removal",
        body={"id": "P1", "version": 3},
        codes=_WRITING,
    ),
    Endpoint(
        "POST",
        "/v1/reload",
        Handlers.reload,
        "ReloadResponse",
        {"model_version": VERSION, "previous": "0a1b2c3d4e5f", "workers": 2},
        codes=("reload_forbidden", "reload_running", "model_rejected", "reload_timeout"),
    ),
    Endpoint("GET", "/metrics", Handlers.metrics, None, codes=("timeout",)),
)
