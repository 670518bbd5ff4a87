"""Requests: what may a caller ask for?

Each request is a struct: msgspec checks requests against it, and OpenAPI is made from it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from matchset.matchers.base import DEFAULT_K
from matchset.matchers.fusion_rules import FusionRule, Method
from matchset.serve.decoding import decode, parse_query_string, read_parameters, read_text
from matchset.serve.request_errors import RequestError

MAX_QUERY, MAX_QUERIES, MAX_K = 512, 256, 1000
_MAX_NUMBER = 1_000_000  # in a fusion rule, and of a least score
_N_CACHED = 256  # sets of options

Query = Annotated[str, Meta(max_length=MAX_QUERY, description="What the customer typed.")]
ProductId = Annotated[str, Meta(min_length=1, max_length=256, description="Product id.")]
Name = Annotated[str, Meta(min_length=1, max_length=64)]
K = Annotated[int, Meta(ge=1, le=MAX_K, description="Products per query.")]
Beam = Annotated[
    int,
    Meta(
        ge=1,
        le=200,
        description="Nodes kept per level of the tree, by default the model's own number; other "
        "matchers ignore it.",
    ),
]
Share = Annotated[float, Meta(ge=0, le=1)]
NewShare = Annotated[
    Share,
    Meta(
        description="Share of the answers that are new products, to which no past query led, by "
        "default the model's own; more of them cost some recall of known ones. Other matchers than "
        "match sets ignore it.",
        examples=[0.2],
    ),
]
Filter = Annotated[
    str,
    Meta(
        max_length=2000,
        description="Filter on product attributes; an empty filter allows every product. In a body "
        "also the ids of the allowed products.",
        examples=["price < 500 and brand is not null"],
        extra_json_schema={"format": "filter"},  # our own: the language of `matchset.filters`
    ),
]
MinScore = Annotated[
    float,
    Meta(
        ge=-_MAX_NUMBER,
        le=_MAX_NUMBER,
        description="Minimum score of our products. Scores of a match set are probabilities from 0 "
        "to 1 if it has learned from enough queries (see the summary of its training); every other "
        "matcher has its own scale.",
        examples=[0.05],
    ),
]
MinRelative = Annotated[
    Share,
    Meta(
        description="Minimum score of our products, as a share of the query's best score.",
        examples=[0.1],
    ),
]
Matcher = Annotated[
    str,
    Meta(
        description="Name of the matcher, as listed by /v1/model.",
        extra_json_schema={"format": "matcher"},  # our own: names that /v1/model lists
    ),
]
Unit = Annotated[
    str,
    Meta(
        max_length=256,
        description="User or session, in any form that stays the same; if an experiment runs, it "
        "decides which arm answers. Records have a hash of it.",
    ),
]
AttributeNames = Annotated[
    str,
    Meta(
        max_length=2000,
        description="Names of the attributes that products come with, separated by commas.",
        extra_json_schema={"format": "attributes"},  # our own: names that /v1/model lists
    ),
]
Version = Annotated[
    int,
    Meta(
        ge=0,
        le=2**53,
        description="Version of the change: products with this version or a later one stay as they "
        "are.",
    ),
]


class Search(Struct, forbid_unknown_fields=True, kw_only=True):
    """What may be asked of any query."""

    matcher: Matcher | None = None
    k: K = DEFAULT_K
    beam: Beam | None = None
    new_share: NewShare | None = None
    min_score: MinScore | None = None
    min_relative: MinRelative | None = None


class MatchParameters(Search, kw_only=True):
    """`GET /v1/match`, but for `q` and `unit`."""

    where: Filter | None = None
    titles: bool = True
    attributes: AttributeNames = ""


class SingleRequest(MatchParameters, kw_only=True):
    """`GET /v1/match`, for the description alone: options are read apart, as they repeat."""

    q: Query
    unit: Unit | None = None


class Fusion(Struct, forbid_unknown_fields=True, kw_only=True):
    """How candidates of the caller and our products become one ranking."""

    method: Method = "rrf"
    weights: (
        Annotated[
            tuple[Annotated[float, Meta(ge=0, le=_MAX_NUMBER)], ...],
            Meta(
                min_length=2,
                max_length=32,
                description="For rrf and weighted: the weight of your ranking, then ours.",
            ),
        ]
        | None
    ) = None
    constant: Annotated[float, Meta(gt=0, le=_MAX_NUMBER, description="For rrf.")] | None = None


Ranking = Annotated[
    tuple[ProductId, ...], Meta(max_length=1000, description="Product ids, best first.")
]


class BatchRequest(Search, kw_only=True):
    """`POST /v1/match`."""

    queries: Annotated[tuple[Query, ...], Meta(max_length=MAX_QUERIES)]
    where: Filter | tuple[ProductId, ...] | None = None
    titles: bool = True
    attributes: Annotated[
        tuple[Annotated[str, Meta(extra_json_schema={"format": "attribute"})], ...],
        Meta(max_length=64, description="Names of the attributes that products come with."),
    ] = ()
    unit: Unit | None = None
    candidates: (
        Annotated[
            tuple[Ranking, ...],
            Meta(
                max_length=MAX_QUERIES,
                description="Your own ranking for each query, to fuse with ours. `where` filters "
                "it too: an expression keeps every id that the model does not know, a list of ids "
                "keeps only those it contains.",
            ),
        ]
        | None
    ) = None
    fusion: Fusion | None = None


class ExplainRequest(Search, kw_only=True):
    """`POST /v1/explain`; without a matcher, the first that can explain does."""

    query: Query
    product: ProductId
    where: Filter | tuple[ProductId, ...] | None = None


class PurchasesRequest(Struct, forbid_unknown_fields=True):
    """`GET /v1/purchases`."""

    q: Query


class ToldProduct(Struct, forbid_unknown_fields=True):
    """A product to add or change; fields that are left out of a known product keep their values."""

    id: ProductId
    title: (
        Annotated[
            str, Meta(max_length=2000, description="Title; a product that is new must have one.")
        ]
        | None
    ) = None
    attributes: Annotated[dict[str, Any], Meta(description="Values by name.")] | None = None


class ProductsRequest(Struct, forbid_unknown_fields=True):
    """`POST /v1/products`."""

    products: Annotated[tuple[ToldProduct, ...], Meta(max_length=10_000)] = ()
    remove: Annotated[
        tuple[ProductId, ...],
        Meta(max_length=10_000, description="Ids of products to remove."),
    ] = ()
    version: Version | None = None


class RemovalRequest(Struct, forbid_unknown_fields=True):
    """`DELETE /v1/products/{id}`."""

    id: ProductId
    version: Version | None = None


class Event(Struct, forbid_unknown_fields=True):
    """What a customer did with a product, in UBI's words."""

    action_name: Annotated[Name, Meta(description="Such as click, add_to_cart or purchase.")]
    query_id: Annotated[Name, Meta(description="The one of the answer.")]
    object_id: ProductId
    position: (
        Annotated[
            int,
            Meta(ge=1, le=_MAX_NUMBER, description="In the list that the customer saw, from 1."),
        ]
        | None
    ) = None
    revenue: (
        Annotated[
            float,
            Meta(
                ge=-_MAX_NUMBER,
                le=_MAX_NUMBER,
                description="Of a purchase, in the shop's currency.",
            ),
        ]
        | None
    ) = None


class EventsRequest(Struct, forbid_unknown_fields=True):
    """`POST /v1/events`."""

    events: Annotated[tuple[Event, ...], Meta(max_length=MAX_QUERIES)]


class MatchOptions(NamedTuple):
    """How to match, for any query; compared by value, as searches with them are kept."""

    matcher: str | None = None  # None: the server's choice
    k: int = DEFAULT_K
    beam: int | None = None  # None: the model's own
    new_share: float | None = None
    where: str | tuple[str, ...] | None = None  # an expression, or the ids of allowed products
    min_score: float | None = None
    min_relative: float | None = None
    titles: bool = True
    attributes: tuple[str, ...] = ()  # that products come with


class MatchRequest(NamedTuple):
    """Queries that are matched with the same options."""

    queries: tuple[str, ...]
    options: MatchOptions
    unit: str | None = None  # whose arm answers, if an experiment runs
    candidates: tuple[tuple[str, ...], ...] | None = None  # the caller's own ranking of each query
    rule: FusionRule | None = None  # how to fuse the two
    wants_ids: bool = False  # for a record of the answer


def read_match(query_string: bytes) -> MatchRequest:
    """Read `GET /v1/match`. Callers vary the query and little else, so options are cached."""
    queries, units, rest = [], [], []
    for pair in query_string.split(b"&"):
        if pair[:2] == b"q=":
            queries.append(pair[2:])
        elif pair[:5] == b"unit=":
            units.append(pair[5:])
        elif pair:
            rest.append(pair)
    options = _read_options(b"&".join(rest))
    query = read_text("q", queries, MAX_QUERY)
    return MatchRequest((query,), options, read_text("unit", units, 256) if units else None)


@lru_cache(maxsize=_N_CACHED)
def _read_options(query_string: bytes) -> MatchOptions:
    parameters = read_parameters(parse_query_string(query_string), MatchParameters)
    names = filter(None, parameters.attributes.split(","))
    return _make_options(parameters, tuple(dict.fromkeys(names)))


def _make_options(
    given: MatchParameters | BatchRequest, attributes: tuple[str, ...]
) -> MatchOptions:
    return MatchOptions(
        given.matcher,
        given.k,
        given.beam,
        given.new_share,
        None if given.where == "" else given.where,
        given.min_score,
        given.min_relative,
        given.titles,
        attributes,
    )


def read_batch(body: bytes) -> MatchRequest:
    """Read `POST /v1/match`."""
    batch = decode(body, BatchRequest)
    n_queries, candidates = len(batch.queries), batch.candidates
    if candidates is not None and len(candidates) != n_queries:
        raise _refuse(
            "candidates",
            f"candidates must be one array per query, {n_queries}; got {len(candidates)}",
        )
    for index, ranking in enumerate(candidates or ()):
        if len(set(ranking)) < len(ranking):
            name = f"candidates[{index}]"
            raise _refuse(name, f"{name} must have no duplicates; got some")
    if batch.fusion is not None and candidates is None:
        raise _refuse("fusion", "fusion needs candidates; got none")
    rule = None if batch.fusion is None else _make_rule(batch.fusion)
    options = _make_options(batch, tuple(dict.fromkeys(batch.attributes)))
    return MatchRequest(batch.queries, options, batch.unit, candidates, rule)


def _make_rule(fusion: Fusion) -> FusionRule:
    given = {name: getattr(fusion, name) for name in fusion.__struct_fields__}
    try:
        rule = FusionRule(**{name: value for name, value in given.items() if value is not None})
        rule.weigh(2)  # the caller's ranking and ours
    except ValueError as error:
        raise _refuse("fusion", f"fusion: {error}") from None
    return rule


def _refuse(name: str, message: str) -> RequestError:
    return RequestError("bad_parameter", message, parameter=name)
