"""Response schemas: what do responses look like?

Products are written natively (see `responses`); these structs describe them, and the tests read
every response with them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

Rank = Annotated[int, Meta(ge=1)]
Level = Annotated[int, Meta(ge=0)]


class Strict(Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A response, or a part of one."""


class OfModel(Strict):
    """A response of a model."""

    model_version: Annotated[str, Meta(description="The same files have the same version.")]


class Fault(Strict):
    """What is wrong."""

    code: Annotated[str, Meta(description="Stable; see the list of codes.")]
    message: Annotated[str, Meta(description="For people; it may change.")]
    parameter: Annotated[str, Meta(description="The parameter at fault.")] | UnsetType = UNSET
    rule: Annotated[str, Meta(description="For bad_filter: the broken rule.")] | UnsetType = UNSET
    position: Annotated[int, Meta(description="For bad_filter: characters before the error.")] | (
        UnsetType
    ) = UNSET


class Error(Strict):
    """The response to a request that failed."""

    error: Fault
    request_id: Annotated[str, Meta(description="The id of the request in the server's log.")]


class Health(Strict):
    """The response of a worker that answers."""

    status: Literal["ok"]


class Product(Strict):
    """A product of an answer."""

    id: str
    score: float | None
    title: str | UnsetType = UNSET
    ranks: (
        Annotated[
            dict[str, Rank],
            Meta(description="In fused results: its rank in each ranking that found it."),
        ]
        | UnsetType
    ) = UNSET
    origin: (
        Annotated[
            Literal["a", "b", "both"],
            Meta(description="In interleaved results: the arm that the product is credited to."),
        ]
        | UnsetType
    ) = field(name="from", default=UNSET)
    attributes: (
        Annotated[
            dict[str, Any], Meta(description="Those that were asked for and that the product has.")
        ]
        | UnsetType
    ) = UNSET


class Result(Strict):
    """The answer to one query."""

    query: str
    microseconds: Annotated[int, Meta(ge=0, description="Time the matcher took.")]
    products: tuple[Product, ...]
    query_id: Annotated[str, Meta(description="Names this answer in records.")] | UnsetType = UNSET


class BatchResponse(OfModel):
    """The answers to many queries."""

    matcher: str
    results: tuple[Result, ...]
    unknown: (
        Annotated[tuple[str, ...], Meta(description="Ids of `where` that the model does not know.")]
        | UnsetType
    ) = UNSET
    experiment: Annotated[str, Meta(description="That the unit is in.")] | UnsetType = UNSET
    arm: Annotated[str, Meta(description="The arm that answered, or `interleaved`.")] | (
        UnsetType
    ) = UNSET


class MatchResponse(OfModel):
    """The answer to one query."""

    matcher: str
    query: str
    microseconds: Annotated[int, Meta(ge=0, description="Time the matcher took.")]
    products: tuple[Product, ...]
    query_id: Annotated[str, Meta(description="Names this answer in records.")] | UnsetType = UNSET
    experiment: Annotated[str, Meta(description="That the unit is in.")] | UnsetType = UNSET
    arm: Annotated[str, Meta(description="The arm that answered, or `interleaved`.")] | (
        UnsetType
    ) = UNSET


class Word(Strict):
    """What a word adds."""

    word: str
    weight: float


class Part(Strict):
    """What a part of a match set adds."""

    name: Annotated[str, Meta(description="A part, same query, popularity or constant.")]
    share: Annotated[float, Meta(description="What it adds to the linear score.")]
    note: Annotated[str, Meta(description="At which rank it proposed the product, or why not.")]
    is_proposed: bool | None
    rank: Rank | None
    words: tuple[Word, ...]


class PathStep(Strict):
    """A node on the path through the tree."""

    level: Level
    name: Annotated[str, Meta(description="Its strongest words, or the product's title.")]
    score: Annotated[float, Meta(description="Of this node alone.")]
    rank: Annotated[Rank | None, Meta(description="In its level; null if its parent was lost.")]
    is_kept: Annotated[bool, Meta(description="For the next level, or for the results.")]
    bias: float
    words: tuple[Word, ...]


class ExplainResponse(OfModel):
    """Why a query finds a product, or why not."""

    query: str
    product: str
    title: str | None
    score: float
    linear: Annotated[float | None, Meta(description="Sum of the parts; null for a tree.")]
    is_allowed: Annotated[bool, Meta(description="Whether the filter allows the product.")]
    is_returned: bool
    rank: Rank | None
    verdict: Annotated[str, Meta(description="What became of the product, in words.")]
    parts: tuple[Part, ...]
    steps: tuple[PathStep, ...]


class MatcherInfo(Strict):
    """A matcher that may be asked for."""

    name: Annotated[str, Meta(description="To be sent as `matcher`.")]
    label: Annotated[str, Meta(description="For people.")]
    part_of: Annotated[str | None, Meta(description="The matcher that it is a part of.")]
    can_explain: bool
    has_beam: bool


class AttributeInfo(Strict):
    """An attribute of the products."""

    name: str
    type: str


class ModelResponse(OfModel):
    """What is served."""

    matchers: tuple[MatcherInfo, ...]
    products: int
    attributes: tuple[AttributeInfo, ...]
    has_titles: bool
    freshness: Annotated[dict[str, Any], Meta(description="How far products have moved.")]
    opened_at: str
    provenance: Annotated[dict[str, Any], Meta(description="When and on what it was trained.")]
    limits: dict[str, float]
    examples: Annotated[tuple[str, ...], Meta(description="Frequent queries of the log.")]
    has_purchases: bool
    purchases_are: Literal["bought", "relevant"] | None


class PurchasesResponse(OfModel):
    """What customers bought after a query."""

    query: str
    products: tuple[str, ...]


class EventsResponse(OfModel):
    """Events that are recorded."""

    recorded: Annotated[int, Meta(ge=0, description="How many events.")]


class WriteResponse(OfModel):
    """A change of products that is on disk."""

    generation: Annotated[int, Meta(description="Of the products, with this change.")]
    unknown: Annotated[tuple[str, ...], Meta(description="Ids that the model did not have.")]


class ReloadResponse(OfModel):
    """A model that is served now."""

    previous: str
