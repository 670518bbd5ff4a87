"""Schema: what do requests and answers look like, in the words of OpenAPI?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from matchset.matchers.fusion_rules import Method
from matchset.serve.http.bodies import MOST, MOST_WEIGHTS
from matchset.serve.http.problems import CODES
from matchset.serve.http.requests import default_beam, default_k
from matchset.serve.options import Limits

Json = dict[str, Any]
VERSION = "3b1f0c9a7d2e"  # of the examples
PRODUCT = {"id": "P00001708", "score": 0.4318, "title": "Emberfield Twin Sofa Bed with Storage"}
TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "number"}
INTEGER: Json = {"type": "integer"}
BOOLEAN: Json = {"type": "boolean"}
KEY = "key"
FILTER = "filter"  # a format of our own: the language of `matchset.filters`


def ref(name: str) -> Json:
    """A schema of `make_components` by name."""
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: Json, **more: Any) -> Json:
    """A schema of many."""
    return {"type": "array", "items": items, **more}


def obj(properties: Mapping[str, Json], *, optional: Sequence[str] = (), **more: Any) -> Json:
    """A schema of an object that has these properties and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
        **more,
    }


def or_null(schema: Json) -> Json:
    """A schema of what may be null."""
    return {"anyOf": [schema, {"type": "null"}]}


def make_components(limits: Limits, matchers: Sequence[str]) -> Json:
    """Every named schema."""
    return {
        "Error": _error(),
        "Status": obj({"status": {"const": "ok"}}),
        "Product": _product(),
        "Match": obj({"model_version": TEXT, "matcher": TEXT, **_result()}),
        "Matches": obj({"model_version": TEXT, "matcher": TEXT, "results": array(obj(_result()))}),
        "Questions": _questions(limits, matchers),
        "Doubt": _doubt(limits, matchers),
        "Reasons": _reasons(),
        "Model": _model(),
        "Bought": obj({"model_version": TEXT, "query": TEXT, "products": array(TEXT)}),
        "Reloaded": obj({"model_version": TEXT, "previous": TEXT, "workers": INTEGER}),
    }


def options(limits: Limits, matchers: Sequence[str]) -> dict[str, Json]:
    """What can be said of any match."""
    return {
        "k": {
            **INTEGER,
            "minimum": 1,
            "maximum": limits.k,
            "default": default_k(limits),
            "description": "Products per query.",
        },
        "beam": {
            **INTEGER,
            "minimum": 1,
            "maximum": limits.beam,
            "default": default_beam(limits),
            "description": "Nodes kept per level of the tree; other matchers have no beam.",
        },
        "where": {
            **TEXT,
            "format": FILTER,
            "maxLength": limits.filter_characters,
            "description": "Filter over the attributes of products; empty allows all.",
            "examples": ["price < 500 and brand is not null"],
        },
        "matcher": {
            **TEXT,
            "enum": list(matchers),
            "default": "xr_linear",
            "description": "Who answers, by a name that /v1/model lists.",
        },
        "titles": {**BOOLEAN, "default": True, "description": "Whether products have titles."},
    }


def query(limits: Limits) -> Json:
    """What a customer typed."""
    return {**TEXT, "maxLength": limits.query_characters, "description": "What a customer typed."}


def _error() -> Json:
    codes = {"type": "string", "enum": sorted(CODES), "description": "Stable; see the list above."}
    return obj(
        {
            "error": obj({"code": codes, "message": {**TEXT, "description": "For people."}}),
            "request_id": {**TEXT, "description": "Stands in the server's log too."},
        }
    )


def _product() -> Json:
    ranks = {
        "type": "object",
        "additionalProperties": {**INTEGER, "minimum": 1},
        "description": "Of a fused answer: who found the product, at which rank.",
    }
    return obj(
        {"id": TEXT, "score": or_null(NUMBER), "title": TEXT, "ranks": ranks},
        optional=("title", "ranks"),
    )


def _result() -> dict[str, Json]:
    spent = {**INTEGER, "minimum": 0, "description": "Time that the matcher took."}
    return {"query": TEXT, "microseconds": spent, "products": array(ref("Product"))}


def _questions(limits: Limits, matchers: Sequence[str]) -> Json:
    asked = {"queries": array(query(limits), maxItems=limits.queries)}
    chosen = {**_in_body(options(limits, matchers), limits), **_candidates(limits)}
    return obj({**asked, **chosen}, optional=tuple(chosen))


def _doubt(limits: Limits, matchers: Sequence[str]) -> Json:
    known = _in_body(options(limits, matchers), limits)
    chosen = {name: known[name] for name in ("k", "beam", "where")}
    product = {**TEXT, "maxLength": limits.id_characters, "description": "Product id."}
    return obj({"query": query(limits), "product": product, **chosen}, optional=tuple(chosen))


def _candidates(limits: Limits) -> dict[str, Json]:
    product = {**TEXT, "maxLength": limits.id_characters}
    ranking = array(product, maxItems=limits.candidates, uniqueItems=True)
    lists = array(ranking, maxItems=limits.queries)
    lists["description"] = (
        "The caller's own ranking of each query, best first, to fuse with ours. `where` filters it "
        "too; of ids that the model does not know an expression keeps all, a list those it names."
    )
    number = {**NUMBER, "minimum": 0, "maximum": MOST}
    fusion = {
        "method": {**TEXT, "enum": list(get_args(Method)), "default": "rrf"},
        "weights": {
            **array(number, minItems=2, maxItems=MOST_WEIGHTS),
            "description": "Of rrf and weighted: the caller's ranking's, then each matcher's.",
        },
        "constant": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": MOST,
            "description": "Of rrf.",
        },
        "keep": {
            **INTEGER,
            "minimum": 1,
            "maximum": MOST,
            "description": "Of append: so many of the caller's come first, then what is new.",
        },
    }
    told = {"description": "How candidates and products become one ranking."}
    return {"candidates": lists, "fusion": obj(fusion, optional=tuple(fusion), **told)}


def _in_body(chosen: dict[str, Json], limits: Limits) -> dict[str, Json]:
    """Options as JSON has them: no filter is null, and a body has room for product ids."""
    filters = chosen["where"]
    wanted = {
        **filters,
        "type": ["string", "array", "null"],
        "items": {**TEXT, "maxLength": limits.id_characters},
        "description": f"{filters['description']} Or the ids of the products that may be given.",
    }
    return {**chosen, "where": wanted}


def _reasons() -> Json:
    ngrams = array(obj({"ngram": TEXT, "weight": NUMBER}))
    rank = or_null({**INTEGER, "minimum": 1})
    step = {
        "level": {**INTEGER, "minimum": 0},
        "name": {**TEXT, "description": "The strongest n-grams of a node, or the title."},
        "score": {**NUMBER, "description": "Of this node alone."},
        "rank": {**rank, "description": "Among its level; null: its parent was lost."},
        "in_beam": {**BOOLEAN, "description": "Went on to the next level, or into the answer."},
        "bias": NUMBER,
        "for": ngrams,
        "against": ngrams,
    }
    lost = {"description": "Level at which the product fell out; null if it did not."}
    return obj(
        {
            "model_version": TEXT,
            "query": TEXT,
            "product": obj({"id": TEXT, "title": or_null(TEXT)}),
            "score": NUMBER,
            "is_allowed": {**BOOLEAN, "description": "Whether the filter lets it through."},
            "is_returned": BOOLEAN,
            "rank": rank,
            "lost_at": {**or_null({**INTEGER, "minimum": 0}), **lost},
            "steps": array(obj(step)),
        }
    )


def _model() -> Json:
    matcher = {
        "name": TEXT,
        "label": {**TEXT, "description": "For people."},
        "kind": TEXT,
        "can_explain": BOOLEAN,
        "has_beam": BOOLEAN,
    }
    return obj(
        {
            "model_version": TEXT,
            "matchers": array(obj(matcher)),
            "products": INTEGER,
            "attributes": array(obj({"name": TEXT, "type": TEXT})),
            "has_titles": BOOLEAN,
            "opened_at": {**TEXT, "format": "date-time"},
            "limits": {"type": "object", "additionalProperties": NUMBER},
            "provenance": {"type": "object", "description": "When and from what it was trained."},
            "examples": array(TEXT, description="Frequent queries of the log."),
            "has_bought": {**BOOLEAN, "description": "Whether /v1/bought answers."},
        }
    )
