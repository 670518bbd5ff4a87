"""Schema: what do responses look like, as JSON Schema?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matchset.serve.http.request_errors import CODES
from matchset.serve.http.validation import Json, make_object

VERSION = "3b1f0c9a7d2e"  # in the examples
PRODUCT = {"id": "P00001708", "score": 0.4318, "title": "Emberfield Twin Sofa Bed with Storage"}
_TEXT: Json = {"type": "string"}
_NUMBER: Json = {"type": "number"}
_INTEGER: Json = {"type": "integer"}
_RANK: Json = {"type": "integer", "minimum": 1}
_LEVEL: Json = {"type": "integer", "minimum": 0}
_BOOLEAN: Json = {"type": "boolean"}


def ref(name: str) -> Json:
    """A reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def make_response_schemas() -> dict[str, Json]:
    """The schema of every response, by name."""
    exposed = {
        "experiment": _with(_TEXT, "The experiment that the unit is in."),
        "arm": _with(_TEXT, "The arm that answered; `interleaved` where both did."),
    }
    query_id = {"query_id": _with(_TEXT, "Names this answer in records, for events about it.")}
    found = {
        "query": _TEXT,
        "microseconds": _with(_LEVEL, "Time the matcher took."),
        "products": _array(ref("Product")),
    }
    return {
        "Error": _error(),
        "Product": _product(),
        "HealthResponse": make_object({"status": {"const": "ok"}}),
        "MatchResponse": _of_model({"matcher": _TEXT, **found}, {**exposed, **query_id}),
        "BatchResponse": _of_model(
            {"matcher": _TEXT, "results": _array(make_object(found, query_id))}, exposed
        ),
        "EventsResponse": _of_model({"recorded": _with(_LEVEL, "How many events.")}),
        "ExplainResponse": _explanation(),
        "ModelResponse": _model(),
        "PurchasesResponse": _of_model({"query": _TEXT, "products": _array(_TEXT)}),
        "WriteResponse": _of_model(
            {
                "generation": _with(_LEVEL, "Of the model's products, with this change."),
                "unknown": _with(_array(_TEXT), "Ids to remove that the model did not have."),
            }
        ),
        "ReloadResponse": _of_model({"previous": _TEXT, "workers": _INTEGER}),
    }


def _array(items: Json) -> Json:
    return {"type": "array", "items": items}


def _of_model(properties: Mapping[str, Json], optional: Mapping[str, Json] | None = None) -> Json:
    return make_object({"model_version": _TEXT, **properties}, optional)


def _or_null(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _with(schema: Json, description: str, **more: Any) -> Json:
    return {**schema, **more, "description": description}


def _error() -> Json:
    error = {
        "code": _with(_TEXT, "Stable; see the list of codes.", enum=sorted(CODES)),
        "message": _with(_TEXT, "For people; it may change."),
    }
    located = {
        "parameter": _with(_TEXT, "The parameter at fault."),
        "rule": _with(_TEXT, "For bad_filter: the rule that the filter breaks."),
        "position": _with(_LEVEL, "For bad_filter: the number of characters before the error."),
    }
    request_id = _with(_TEXT, "The id of the request in the server's log.")
    return make_object({"error": make_object(error, located), "request_id": request_id})


def _product() -> Json:
    ranks = {
        "type": "object",
        "additionalProperties": _RANK,
        "description": "In fused results: the product's rank in each ranking that found it.",
    }
    attributes = {
        "type": "object",
        "description": "The attributes that were asked for, without those that it does not have.",
    }
    origin = {
        "enum": ["a", "b", "both"],
        "description": "In interleaved results: the arm that the product is credited to.",
    }
    more = {"title": _TEXT, "ranks": ranks, "from": origin, "attributes": attributes}
    return make_object({"id": _TEXT, "score": _or_null(_NUMBER)}, more)


def _explanation() -> Json:
    words = _array(make_object({"word": _TEXT, "weight": _NUMBER}))
    part = {
        "name": _with(_TEXT, "A part of the match set, same query, popularity or constant."),
        "share": _with(_NUMBER, "What it adds to the linear score."),
        "note": _with(_TEXT, "At which rank it proposed the product, or why it did not."),
        "is_proposed": _with(_or_null(_BOOLEAN), "Null if it is no candidate source."),
        "rank": _with(_or_null(_RANK), "By its own score, among the products that it read."),
        "words": _with(words, "Of the query, in units of the part's own score."),
    }
    step = {
        "level": _LEVEL,
        "name": _with(_TEXT, "The node's strongest words, or the product's title."),
        "score": _with(_NUMBER, "Of this node alone."),
        "rank": _with(_or_null(_RANK), "Within its level; null if its parent was lost."),
        "is_kept": _with(_BOOLEAN, "Whether it was kept for the next level or the results."),
        "bias": _NUMBER,
        "words": _with(words, "Of the query, the strongest first."),
    }
    return _of_model(
        {
            "query": _TEXT,
            "product": _with(_TEXT, "Its id."),
            "title": _or_null(_TEXT),
            "score": _NUMBER,
            "linear": _with(_or_null(_NUMBER), "Sum of what the parts add; null for a tree."),
            "is_allowed": _with(_BOOLEAN, "Whether the filter allows the product."),
            "is_returned": _BOOLEAN,
            "rank": _or_null(_RANK),
            "verdict": _with(_TEXT, "What became of the product, in words."),
            "parts": _with(_array(make_object(part)), "Of a match set; empty for a tree alone."),
            "steps": _with(_array(make_object(step)), "Of the path through the tree."),
        }
    )


def _freshness() -> Json:
    share = {"type": "number", "minimum": 0, "maximum": 1}
    fields = {
        "generation": _with(_LEVEL, "Steps since the training; a refresh is one."),
        "changed": _with(_or_null(_TEXT), "When the last one was taken."),
        "added": _with(_LEVEL, "Products that were not trained."),
        "updated": _with(_LEVEL, "Trained products with other attributes."),
        "retitled": _with(_LEVEL, "Trained products with another title, learned of no more."),
        "removed": _with(_LEVEL, "Trained products that are gone."),
        "share_added": _with(share, "Of all products."),
        "share_removed": _with(share, "Of the trained products."),
    }
    return _with(make_object(fields), "How far products have moved from those of the training.")


def _model() -> Json:
    matcher = {
        "name": _with(_TEXT, "To be sent as `matcher`."),
        "label": _with(_TEXT, "For people."),
        "part_of": _with(_or_null(_TEXT), "The matcher that it is a part of."),
        "can_explain": _BOOLEAN,
        "has_beam": _BOOLEAN,
    }
    return _of_model(
        {
            "matchers": _array(make_object(matcher)),
            "products": _INTEGER,
            "attributes": _array(make_object({"name": _TEXT, "type": _TEXT})),
            "has_titles": _BOOLEAN,
            "freshness": _freshness(),
            "opened_at": {**_TEXT, "format": "date-time"},
            "limits": {"type": "object", "additionalProperties": _NUMBER},
            "provenance": {"type": "object", "description": "When and on what it was trained."},
            "examples": _with(_array(_TEXT), "Frequent queries of the log."),
            "has_purchases": _with(_BOOLEAN, "Whether /v1/purchases has data."),
            "purchases_are": _with(
                {"enum": ["bought", "relevant", None]},
                "What these products are: relevant where the log has no purchases.",
            ),
        }
    )
