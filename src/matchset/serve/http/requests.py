"""Requests: what does a caller ask for, and is it allowed?

Everything is checked here, before any work is done for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias, get_args
from urllib.parse import unquote

import orjson

from matchset.matchers.base import DEFAULT_BEAM, DEFAULT_K
from matchset.matchers.fusion_rules import FusionRule, Method
from matchset.serve.http.fields import Array, Boolean, Integer, Number, Object, Text, Where
from matchset.serve.http.request_errors import RequestError
from matchset.serve.options import Limits

_N_CACHED = 256  # sets of options
_MAX_NUMBER = 1_000_000  # of a fusion rule
_MAX_WEIGHTS = 32
# A filter: an expression, or the ids of the allowed products.
Wanted: TypeAlias = str | tuple[str, ...]


def make_fields(limits: Limits, matchers: Sequence[str]) -> dict[str, Object]:
    """The fields of every request; the first matcher is the default one."""
    query = Text(
        max_length=limits.query_characters,
        code="query_too_long",
        description="What the customer typed.",
    )
    product = Text(max_length=limits.id_characters, description="Product id.")
    where = Where(
        expression=Text(max_length=limits.filter_characters, code="filter_too_long"),
        default=None,
        description="Filter on product attributes; an empty filter allows every product.",
    )
    options = {
        "k": Integer(
            maximum=limits.k,
            default=min(DEFAULT_K, limits.k),
            code="k_out_of_range",
            description="Products per query.",
        ),
        "beam": Integer(
            maximum=limits.beam,
            default=min(DEFAULT_BEAM, limits.beam),
            code="beam_out_of_range",
            description="Nodes kept per level of the tree; other matchers ignore it.",
        ),
        "where": where,
        "matcher": Text(
            choices=matchers,
            default=matchers[0],
            code="unknown_matcher",
            description="Name of the matcher to use, as listed by /v1/model.",
        ),
        "titles": Boolean(default=True, description="Whether products come with their titles."),
    }
    in_body = replace(
        where,
        ids=Array(items=product),
        is_nullable=True,
        description=f"{where.description} Or the ids of the allowed products.",
    )
    batch = {
        "queries": Array(items=query, max_items=limits.queries, code="too_many_queries"),
        **options,
        "where": in_body,
        "candidates": _candidates_field(product, limits),
        "fusion": _fusion_field(),
    }
    explain = {"query": query, "product": product, "k": options["k"], "beam": options["beam"]}
    return {
        "match": Object(fields={"q": query, **options}),
        "batch": Object(fields=batch),
        "explain": Object(fields={**explain, "where": in_body}),
        "purchases": Object(fields={"q": query}),
    }


def _candidates_field(product: Text, limits: Limits) -> Array:
    ranking = Array(
        items=product, max_items=limits.candidates, code="too_many_candidates", is_unique=True
    )
    return Array(
        items=ranking,
        max_items=limits.queries,
        default=None,
        is_nullable=True,
        description="Your own ranking for each query, best first, to fuse with ours. `where` "
        "filters it too: an expression keeps every id that the model does not know, a list of ids "
        "keeps only those it contains.",
    )


def _fusion_field() -> Object:
    number = Number(maximum=_MAX_NUMBER)
    weights = Array(
        items=number,
        min_items=2,
        max_items=_MAX_WEIGHTS,
        default=None,
        description="For rrf and weighted: the weight of your ranking, then of each matcher.",
    )
    fields = {
        "method": Text(choices=get_args(Method), default="rrf"),
        "weights": weights,
        "constant": replace(number, is_positive=True, default=None, description="For rrf."),
        "keep": Integer(
            maximum=_MAX_NUMBER,
            default=None,
            description="For append: how many of your candidates come first.",
        ),
    }
    return Object(
        fields=fields,
        default=None,
        is_nullable=True,
        description="How your candidates and our products become one ranking.",
    )


@dataclass(frozen=True, slots=True)
class MatchOptions:
    """How to match, for any query."""

    matcher: str
    k: int = DEFAULT_K
    beam: int = DEFAULT_BEAM
    where: Wanted | None = None
    titles: bool = True


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """Queries that are matched together."""

    queries: list[str]
    options: MatchOptions
    candidates: list[list[str]] | None = None  # the caller's own ranking for each query
    rule: FusionRule | None = None  # how to fuse the two


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """A query and the product to explain."""

    query: str
    product: str
    k: int
    beam: int
    where: Wanted | None


class RequestReader:
    """Reads and checks every request.

    Callers of `GET /v1/match` vary the query and little else, so the options are cached.
    """

    def __init__(self, limits: Limits, matchers: Sequence[str]) -> None:
        self._limits = limits
        self._fields = make_fields(limits, matchers)
        self._query = self._fields["match"].fields["q"]
        self._read_options = lru_cache(maxsize=_N_CACHED)(self._read_options_uncached)

    def read_match(self, query_string: bytes) -> tuple[str, MatchOptions]:
        """The query of `GET /v1/match` and its options."""
        self._check_length(query_string)
        queries, rest = [], []
        for pair in query_string.split(b"&"):
            if pair[:2] == b"q=":
                queries.append(pair[2:])
            elif pair == b"q":
                queries.append(b"")
            elif pair:
                rest.append(pair)
        options = self._read_options(b"&".join(rest))
        if len(queries) != 1:
            message = f"q must be given once; got {len(queries)}"
            raise RequestError("bad_parameter", message, parameter="q")
        return self._query.read("q", _decode(queries[0])), options

    def _read_options_uncached(self, rest: bytes) -> MatchOptions:
        fields = self._fields["match"]
        given = _parse(rest, fields)
        return MatchOptions(
            **{
                name: field.take(name, given)
                for name, field in fields.fields.items()
                if name != "q"
            }
        )

    def read_purchases(self, query_string: bytes) -> str:
        """The query of `GET /v1/purchases`."""
        self._check_length(query_string)
        fields = self._fields["purchases"]
        query: str = fields.read("", _parse(query_string, fields))["q"]
        return query

    def read_batch(self, body: bytes) -> BatchRequest:
        """What `POST /v1/match` asks for."""
        values = self._fields["batch"].read("", _load(body))
        queries, candidates, fusion = (
            values.pop(name) for name in ("queries", "candidates", "fusion")
        )
        if candidates is not None and len(candidates) != len(queries):
            rule = f"candidates must be one array per query, {len(queries)}"
            message = f"{rule}; got {len(candidates)}"
            raise RequestError("bad_parameter", message, parameter="candidates")
        if fusion is not None and candidates is None:
            message = "fusion needs candidates; got none"
            raise RequestError("bad_parameter", message, parameter="fusion")
        fusion_rule = None if fusion is None else _make_rule(fusion)
        return BatchRequest(queries, MatchOptions(**values), candidates, fusion_rule)

    def read_explain(self, body: bytes) -> ExplainRequest:
        """What `POST /v1/explain` asks for."""
        return ExplainRequest(**self._fields["explain"].read("", _load(body)))

    def _check_length(self, query_string: bytes) -> None:
        most = self._limits.url_bytes
        if len(query_string) > most:
            rule = f"a query string must have at most {most} bytes"
            raise RequestError("url_too_long", f"{rule}; got {len(query_string)}")


def check_weights(rule: FusionRule | None, n_rankings: int) -> None:
    """Check that there is one weight per ranking: the caller's first, then each matcher's."""
    try:
        if rule is not None:
            rule.weigh(n_rankings)
    except ValueError as error:
        raise RequestError("bad_parameter", f"fusion: {error}", parameter="fusion") from None


def _make_rule(values: Mapping[str, Any]) -> FusionRule:
    given = {name: value for name, value in values.items() if value is not None}
    if "weights" in given:
        given["weights"] = tuple(given["weights"])
    try:
        return FusionRule(**given)
    except ValueError as error:
        raise RequestError("bad_parameter", f"fusion: {error}", parameter="fusion") from None


def _parse(query_string: bytes, fields: Object) -> dict[str, object]:
    """The parameters of a query string, each at most once."""
    given: dict[str, object] = {}
    for pair in filter(None, query_string.split(b"&")):
        encoded_name, _, value = pair.partition(b"=")
        name = encoded_name.decode("latin-1")
        field = fields.require(name, "a parameter")
        if name in given:
            message = f"{name} must be given once; got it twice"
            raise RequestError("bad_parameter", message, parameter=name)
        given[name] = field.parse(name, _decode(value))
    return given


def _decode(value: bytes) -> str:
    try:
        text = value.decode("utf-8")
        if "%" in text or "+" in text:
            return unquote(text.replace("+", " "), errors="strict")
    except UnicodeDecodeError:
        raise RequestError("bad_parameter", "a parameter must be UTF-8; got other bytes") from None
    return text


def _load(body: bytes) -> dict[str, object]:
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError("bad_json", f"the body must be JSON; {error}") from None
    if not isinstance(given, dict):
        got = type(given).__name__
        raise RequestError("bad_json", f"the body must be a JSON object; got a {got}")
    return given
