"""Endpoints: which paths are there, and what does each take and return?

A new endpoint is an entry here and a method of `Handlers`; what it takes is a struct in `requests`,
what it returns one in `response_schemas`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from matchset.serve import requests as asked
from matchset.serve import response_schemas as answered
from matchset.serve.handlers import Handlers
from matchset.serve.responses import Response


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A path and a method. The name and docstring of the handler are those of the operation."""

    method: str
    path: str
    handler: Callable[[Handlers, Request], Awaitable[Response]]
    response: type | None  # None: plain text
    request: type | None = None  # of a GET or a DELETE its parameters, of a POST its body
    example: dict[str, Any] | None = None  # of a request
    needs_key: bool = True


_EVENT = {"action_name": "click", "query_id": "5f2b8c0de41a47f0", "object_id": "P1", "position": 1}
_PRODUCT = {"id": "P1", "title": "Twin Sofa", "attributes": {"price": 499}}
ENDPOINTS = (  # the busiest first: a router tries one after the other
    Endpoint(
        "GET",
        "/v1/match",
        Handlers.match,
        answered.MatchResponse,
        asked.SingleRequest,
        {"q": "sofa", "k": 10, "min_relative": 0.1},
    ),
    Endpoint(
        "POST",
        "/v1/match",
        Handlers.match_batch,
        answered.BatchResponse,
        asked.BatchRequest,
        {"queries": ["sofa"], "k": 10},
    ),
    Endpoint(
        "POST",
        "/v1/explain",
        Handlers.explain,
        answered.ExplainResponse,
        asked.ExplainRequest,
        {"query": "sofa", "product": "P1"},
    ),
    Endpoint(
        "POST",
        "/v1/events",
        Handlers.events,
        answered.EventsResponse,
        asked.EventsRequest,
        {"events": [_EVENT]},
    ),
    Endpoint("GET", "/v1/model", Handlers.model, answered.ModelResponse),
    Endpoint(
        "GET",
        "/v1/purchases",
        Handlers.purchases,
        answered.PurchasesResponse,
        asked.PurchasesRequest,
        {"q": "sofa"},
    ),
    Endpoint(
        "POST",
        "/v1/products",
        Handlers.write,
        answered.WriteResponse,
        asked.ProductsRequest,
        {"products": [_PRODUCT]},
    ),
    Endpoint(
        "DELETE",
        "/v1/products/{id}",
        Handlers.remove,
        answered.WriteResponse,
        asked.RemovalRequest,
        {"id": "P1", "version": 3},
    ),
    Endpoint("POST", "/v1/reload", Handlers.reload, answered.ReloadResponse),
    Endpoint("GET", "/metrics", Handlers.metrics, None),
    Endpoint("GET", "/healthz", Handlers.health, answered.Health, needs_key=False),
    Endpoint("GET", "/readyz", Handlers.ready, answered.Health, needs_key=False),
)
