"""Operations: what does the documentation say of each path?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from matchset.serve.http.problems import CODES
from matchset.serve.openapi.schema import (
    KEY,
    PRODUCT,
    VERSION,
    Json,
    make_components,
    options,
    query,
    ref,
)
from matchset.serve.options import Limits

_RESULT = {"query": "sofa", "microseconds": 43, "products": [PRODUCT]}
_ANY = ("bad_host", "internal", "overloaded")
_KEYED = (*_ANY, "unauthorized")
_OPTIONS = ("bad_parameter", "bad_filter", "filter_too_long", "k_out_of_range")
_MATCH = (*_OPTIONS, "beam_out_of_range", "query_too_long", "unknown_matcher", "timeout")
_BODY = ("bad_json", "body_too_large", "body_too_slow", "not_json")


def health() -> Json:
    """Of `GET /healthz` and `/readyz`."""
    return _operation("Whether the process answers", ref("Status"), {"status": "ok"}, codes=_ANY)


def match(limits: Limits, matchers: Sequence[str]) -> Json:
    """Of `GET /v1/match`."""
    found = {"model_version": VERSION, "matcher": "xr_linear", **_RESULT}
    operation = _operation(
        "The best products for one query",
        ref("Match"),
        found,
        codes=(*_KEYED, *_MATCH, "url_too_long"),
        is_keyed=True,
    )
    asked = [("q", query(limits), True)]
    asked += [(name, schema, False) for name, schema in options(limits, matchers).items()]
    operation["openapi_extra"]["parameters"] = [
        _parameter(name, schema, is_required=is_required) for name, schema, is_required in asked
    ]
    return operation


def match_many() -> Json:
    """Of `POST /v1/match`."""
    found = {"model_version": VERSION, "matcher": "xr_linear", "results": [_RESULT]}
    codes = (*_KEYED, *_MATCH, *_BODY, "too_many_queries", "too_many_candidates")
    operation = _operation(
        "The best products for each of many queries",
        ref("Matches"),
        found,
        codes=codes,
        is_keyed=True,
    )
    return _with_body(operation, ref("Questions"), {"queries": ["sofa"], "k": 10})


def explain() -> Json:
    """Of `POST /v1/explain`."""
    step = {
        "level": 0,
        "name": "sofa, couch",
        "score": 0.99,
        "rank": 1,
        "in_beam": True,
        "bias": -0.94,
        "for": [{"ngram": "sofa", "weight": 0.57}],
        "against": [],
    }
    reasons = {
        "model_version": VERSION,
        "query": "sofa",
        "product": {"id": PRODUCT["id"], "title": PRODUCT["title"]},
        "score": PRODUCT["score"],
        "is_allowed": True,
        "is_returned": True,
        "rank": 1,
        "lost_at": None,
        "steps": [step],
    }
    operation = _operation(
        "Why a query gets a product, or where in the tree it was lost",
        ref("Reasons"),
        reasons,
        codes=(*_KEYED, *_MATCH, *_BODY, "unknown_product"),
        is_keyed=True,
    )
    return _with_body(operation, ref("Doubt"), {"query": "sofa", "product": PRODUCT["id"]})


def model() -> Json:
    """Of `GET /v1/model`."""
    described = {
        "model_version": VERSION,
        "matchers": [
            {
                "name": "xr_linear",
                "label": "XR-Linear",
                "kind": "xr_linear",
                "can_explain": True,
                "has_beam": True,
            }
        ],
        "products": 200_000,
        "attributes": [{"name": "price", "type": "number"}],
        "has_titles": True,
        "opened_at": "2026-11-15T10:48:09.936+00:00",
        "limits": {"k": 1000, "queries": 256},
        "provenance": {"trained": "2026-11-14T02:00:00+00:00"},
        "examples": ["sofa"],
        "has_bought": True,
    }
    says = "What is served, and how much may be asked for"
    return _operation(says, ref("Model"), described, codes=_KEYED, is_keyed=True)


def bought(limits: Limits) -> Json:
    """Of `GET /v1/bought`."""
    operation = _operation(
        "What customers bought for a query, in the log that the server was started with",
        ref("Bought"),
        {"model_version": VERSION, "query": "sofa", "products": [PRODUCT["id"]]},
        codes=(*_KEYED, "bad_parameter", "query_too_long", "url_too_long", "no_log"),
        is_keyed=True,
    )
    operation["openapi_extra"]["parameters"] = [_parameter("q", query(limits), is_required=True)]
    return operation


def reload() -> Json:
    """Of `POST /v1/reload`."""
    codes = ("reload_forbidden", "reload_running", "model_refused", "reload_timeout")
    return _operation(
        "Serve what lies in the model's folder now; answers when every worker does",
        ref("Reloaded"),
        {"model_version": VERSION, "previous": "0a1b2c3d4e5f", "workers": 2},
        codes=(*_KEYED, *codes),
        is_keyed=True,
    )


def metrics() -> Json:
    """Of `GET /metrics`."""
    operation = _operation("Numbers over all workers", {}, None, codes=_KEYED, is_keyed=True)
    operation["responses"][200]["content"] = {"text/plain": {"schema": {"type": "string"}}}
    return operation


def make_openapi(app: FastAPI, limits: Limits, matchers: Sequence[str]) -> Json:
    """The whole document."""
    codes = "\n".join(f"- `{code}` ({status}): {told}" for code, (status, told) in CODES.items())
    document = get_openapi(
        title=app.title,
        version="1",
        summary="Which products answer a query?",
        description=f"Every error has one of these codes:\n\n{codes}",
        routes=app.routes,
    )
    document["components"] = {
        "schemas": make_components(limits, matchers),
        "securitySchemes": {KEY: {"type": "http", "scheme": "bearer"}},
    }
    return document


def _operation(
    summary: str, schema: Json, example: Any, *, codes: Sequence[str], is_keyed: bool = False
) -> Json:
    found = {"application/json": {"schema": schema, "example": example}}
    responses: dict[int, Json] = {200: {"description": "Answered.", "content": found}}
    for status in sorted({CODES[code][0] for code in codes}):
        refused = {code: CODES[code][1] for code in codes if CODES[code][0] == status}
        examples = {
            code: {"value": {"error": {"code": code, "message": told}, "request_id": "6e377ab8-1"}}
            for code, told in refused.items()
        }
        content = {"application/json": {"schema": ref("Error"), "examples": examples}}
        responses[status] = {"description": ", ".join(refused), "content": content}
    extra: Json = {"security": [{KEY: []}, {}]} if is_keyed else {}
    return {"summary": summary, "responses": responses, "openapi_extra": extra}


def _with_body(operation: Json, schema: Json, example: Json) -> Json:
    operation["openapi_extra"]["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": schema, "example": example}},
    }
    return operation


def _parameter(name: str, schema: Json, *, is_required: bool) -> Json:
    shown = {key: value for key, value in schema.items() if key != "description"}
    return {
        "name": name,
        "in": "query",
        "required": is_required,
        "description": schema.get("description", ""),
        "schema": shown,
    }
