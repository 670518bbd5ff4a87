"""Request schemas: what may a request hold?

This table describes every request once: it checks them, and OpenAPI and /docs are made from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from matchset.matchers.base import DEFAULT_K
from matchset.matchers.fusion_rules import Method
from matchset.serve.http.validation import Json, make_object
from matchset.serve.options import Limits

_MAX_NUMBER = 1_000_000  # in a fusion rule, and of a least score
_MAX_WEIGHTS = 32
_MAX_ATTRIBUTES = 64
_MAX_NAME = 64  # characters of an action or a query id
_SHARE: Json = {"type": "number", "minimum": 0, "maximum": 1}


def make_request_schemas(limits: Limits, matchers: Sequence[str]) -> dict[str, Json]:
    """The JSON Schema of every request; the first matcher is the default one."""
    query = _text("What the customer typed.", limits.query_characters, "query_too_long")
    product = _text("Product id.", limits.id_characters)
    options = _options(limits, matchers)
    batch = _batch_options(options, product, limits)
    queries = _array("Queries to match.", query, limits.queries, "too_many_queries")
    explain = {name: batch[name] for name in ("k", "beam", "new_share", "where", *_cuts())}
    explain["matcher"] = {
        **_schema("string", "Name of the matcher, by default the first that can explain.", ()),
        "enum": list(matchers),
        "x-errors": ["unknown_matcher"],
    }
    return {
        "match": make_object({"q": query}, options),
        "batch": make_object({"queries": queries}, batch),
        "explain": make_object({"query": query, "product": product}, explain),
        "purchases": make_object({"q": query}),
        "products": make_object({}, _writes(product, limits)),
        "removal": make_object({"id": product}, {"version": _version()}),
        "events": make_object({"events": _events(product, limits)}),
    }


def _options(limits: Limits, matchers: Sequence[str]) -> dict[str, Json]:
    """What may be asked of one query."""
    return {
        "k": _integer("Products per query.", limits.k, DEFAULT_K, "k_out_of_range"),
        "beam": _integer(
            "Nodes kept per level of the tree, by default the model's own number; other matchers "
            "ignore it.",
            limits.beam,
            None,
            "beam_out_of_range",
        ),
        "new_share": {
            **_SHARE,
            "description": "Share of the answers that are new products, to which no past query "
            "led, by default the model's own; more of them cost some recall of known ones. Other "
            "matchers than match sets ignore it.",
            "examples": [0.2],
        },
        "where": _where(limits),
        **_cuts(),
        "matcher": {
            **_choice("Name of the matcher, as listed by /v1/model.", matchers),
            "x-errors": ["unknown_matcher"],
        },
        "titles": {
            "type": "boolean",
            "default": True,
            "description": "Whether products come with their titles.",
        },
        "unit": _text(
            "User or session, in any form that stays the same; if an experiment runs, it decides "
            "which arm answers. Records have a hash of it.",
            limits.id_characters,
        ),
        "attributes": {
            **_text(
                "Names of the attributes that products come with, separated by commas.",
                limits.filter_characters,
            ),
            "format": "attributes",  # our own: names that /v1/model lists
        },
    }


def _batch_options(options: dict[str, Json], product: Json, limits: Limits) -> dict[str, Json]:
    """What may be asked of many queries: a body can hold lists."""
    where = options["where"]
    return {
        **options,
        "where": {
            **where,
            "type": ["string", "array", "null"],
            "items": product,
            "description": f"{where['description']} Or the ids of the allowed products.",
        },
        "attributes": _array(
            "Names of the attributes that products come with.",
            {"type": "string", "maxLength": limits.filter_characters, "format": "attribute"},
            _MAX_ATTRIBUTES,
        ),
        "candidates": _candidates(product, limits),
        "fusion": _fusion(),
    }


def _where(limits: Limits) -> Json:
    return {
        **_text(
            "Filter on product attributes; an empty filter allows every product.",
            limits.filter_characters,
            "filter_too_long",
            "bad_filter",
        ),
        "format": "filter",  # our own: the language of `matchset.filters`
        "examples": ["price < 500 and brand is not null"],
    }


def _writes(product: Json, limits: Limits) -> dict[str, Json]:
    title = _text("Title; a product that is new must have one.", limits.filter_characters)
    told = {"title": title, "attributes": {**_schema("object", "Values by name.", ())}}
    ids = _array("Ids of products to remove.", product, limits.products, "too_many_products")
    upserts = _array(
        "Products to add or change; fields you leave out of a known product keep their values.",
        make_object({"id": product}, told),
        limits.products,
        "too_many_products",
    )
    return {
        "products": {**upserts, "default": []},
        "remove": {**ids, "default": []},
        "version": _version(),
    }


def _version() -> Json:
    rule = "Version of the change: products with this version or a later one stay as they are."
    return _schema("integer", rule, (), minimum=0, maximum=2**53)


def _cuts() -> dict[str, Json]:
    """The minimum scores; candidates of the caller are not cut."""
    number = {"type": "number", "minimum": -_MAX_NUMBER, "maximum": _MAX_NUMBER}
    return {
        "min_score": {
            **number,
            "description": "Minimum score of our products. Scores of a match set are probabilities "
            "from 0 to 1 if it has learned from enough queries (see the summary of its training); "
            "every other matcher has its own scale.",
            "examples": [0.05],
        },
        "min_relative": {
            **_SHARE,
            "description": "Minimum score of our products, as a share of the query's best score.",
            "examples": [0.1],
        },
    }


def _candidates(product: Json, limits: Limits) -> Json:
    ranking = _array("Product ids, best first.", product, limits.candidates, "too_many_candidates")
    description = (
        "Your own ranking for each query, to fuse with ours. `where` filters it too: an expression "
        "keeps every id that the model does not know, a list of ids keeps only those it contains."
    )
    lists = _array(description, {**ranking, "uniqueItems": True}, limits.queries)
    return {**lists, "type": ["array", "null"]}


def _events(product: Json, limits: Limits) -> Json:
    name = {**_text("Such as click, add_to_cart or purchase.", _MAX_NAME), "minLength": 1}
    required = {
        "action_name": name,
        "query_id": {**_text("The one of the answer.", _MAX_NAME), "minLength": 1},
        "object_id": product,
    }
    revenue = {"type": "number", "minimum": -_MAX_NUMBER, "maximum": _MAX_NUMBER}
    optional = {
        "position": _integer("In the list that the customer saw, from 1.", _MAX_NUMBER),
        "revenue": {**revenue, "description": "Of a purchase, in the shop's currency."},
    }
    return _array("Events in UBI format.", make_object(required, optional), limits.queries)


def _fusion() -> Json:
    number = {"type": "number", "minimum": 0, "maximum": _MAX_NUMBER}
    weights = "For rrf and weighted: the weight of your ranking, then each matcher's."
    constant = {"type": "number", "exclusiveMinimum": 0, "maximum": _MAX_NUMBER}
    fields = {
        "method": _choice("How to fuse.", get_args(Method)),
        "weights": {**_array(weights, number, _MAX_WEIGHTS), "minItems": 2},
        "constant": {**constant, "description": "For rrf."},
    }
    description = "How your candidates and our products become one ranking."
    return {**make_object({}, fields), "type": ["object", "null"], "description": description}


def _schema(kind: str, description: str, errors: Sequence[str], **more: Any) -> Json:
    limited = {"x-errors": list(errors)} if errors else {}
    return {"type": kind, "description": description, **more, **limited}


def _text(description: str, most: int, *errors: str) -> Json:
    return _schema("string", description, errors, maxLength=most)


def _choice(description: str, choices: Sequence[str]) -> Json:
    return _schema("string", description, (), enum=list(choices), default=choices[0])


def _integer(description: str, most: int, default: int | None = None, *errors: str) -> Json:
    more = {} if default is None else {"default": min(default, most)}
    return _schema("integer", description, errors, minimum=1, maximum=most, **more)


def _array(description: str, items: Json, most: int, *errors: str) -> Json:
    return _schema("array", description, errors, items=items, maxItems=most)
