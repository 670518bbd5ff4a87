"""Requests: what does a caller ask for, and is it allowed?

Everything is checked here, before any work is done for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import orjson

from matchset import _native
from matchset.matchers.base import DEFAULT_K
from matchset.matchers.fusion_rules import FusionRule
from matchset.model.upserts import Upsert
from matchset.online.records import EventRecord, timestamp_now
from matchset.serve.http.request_errors import RequestError
from matchset.serve.http.request_schemas import make_request_schemas
from matchset.serve.http.validation import Json, check, make_object, parse, require_known
from matchset.serve.options import Limits

_N_CACHED = 256  # sets of options
# A filter: an expression, or the ids of the allowed products.
Wanted: TypeAlias = str | tuple[str, ...]


class MatchOptions(NamedTuple):
    """How to match, for any query; a tuple, as it is looked up for every request."""

    matcher: str
    k: int = DEFAULT_K
    beam: int | None = None  # None: the model's own
    new_share: float | None = None
    where: Wanted | None = None
    min_score: float | None = None
    min_relative: float | None = None
    titles: bool = True
    attributes: tuple[str, ...] = ()  # that products come with
    is_chosen: bool = False  # the caller named the matcher


class MatchRequest(NamedTuple):
    """Queries that are matched with the same options."""

    queries: Sequence[str]
    options: MatchOptions
    unit: str | None = None  # whose arm answers, if an experiment runs
    candidates: Sequence[Sequence[str]] | None = None  # the caller's own ranking for each query
    rule: FusionRule | None = None  # how to fuse the two
    wants_ids: bool = False  # for a record of the answer


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """A query and the product to explain."""

    query: str
    product: str
    matcher: str | None  # None: the first that can explain
    k: int
    beam: int | None  # None: the model's own
    new_share: float | None
    where: Wanted | None
    min_score: float | None
    min_relative: float | None


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """Products that come, change or go."""

    products: list[Upsert]
    remove: list[str]  # ids
    version: int | None


class RequestReader:
    """Reads and checks every request.

    Callers of `GET /v1/match` vary the query and little else, so the options are cached.
    """

    def __init__(self, limits: Limits, matchers: Sequence[str]) -> None:
        self._limits = limits
        self._schemas = make_request_schemas(limits, matchers)
        match = self._schemas["match"]["properties"]
        self._query, self._unit = match["q"], match["unit"]
        self._options = make_object(
            {}, {name: match[name] for name in match if name not in ("q", "unit")}
        )
        self._read_options = lru_cache(maxsize=_N_CACHED)(self._read_options_uncached)

    def read_match(self, query_string: bytes) -> MatchRequest:
        """The query of `GET /v1/match`, its options and its unit."""
        self._check_length(query_string)
        queries, units, rest = [], [], []
        for pair in query_string.split(b"&"):
            if pair[:2] == b"q=":
                queries.append(pair[2:])
            elif pair == b"q":
                queries.append(b"")
            elif pair[:5] == b"unit=":
                units.append(pair[5:])
            elif pair:
                rest.append(pair)
        options = self._read_options(b"&".join(rest))
        if len(queries) != 1:
            message = f"q must be given once; got {len(queries)}"
            raise RequestError("bad_parameter", message, parameter="q")
        query = _decode(queries[0])
        if len(query) > self._query["maxLength"]:  # `check` alone would do, but takes longer
            check("q", query, self._query)
        return MatchRequest([query], options, self._read_unit(units))

    def _read_unit(self, units: Sequence[bytes]) -> str | None:
        if len(units) > 1:
            message = f"unit must be given once; got {len(units)}"
            raise RequestError("bad_parameter", message, parameter="unit")
        return check("unit", _decode(units[0]), self._unit) if units else None

    def _read_options_uncached(self, rest: bytes) -> MatchOptions:
        given = _parse(rest, self._schemas["match"])
        return _to_options(check("", given, self._options), is_chosen="matcher" in given)

    def read_purchases(self, query_string: bytes) -> str:
        """The query of `GET /v1/purchases`."""
        self._check_length(query_string)
        schema = self._schemas["purchases"]
        query: str = check("", _parse(query_string, schema), schema)["q"]
        return query

    def read_batch(self, body: bytes) -> MatchRequest:
        """What `POST /v1/match` asks for."""
        given = _load(body)
        values = check("", given, self._schemas["batch"])
        queries, candidates, fusion, unit = (
            values.pop(name) for name in ("queries", "candidates", "fusion", "unit")
        )
        if candidates is not None and len(candidates) != len(queries):
            rule = f"candidates must be one array per query, {len(queries)}"
            message = f"{rule}; got {len(candidates)}"
            raise RequestError("bad_parameter", message, parameter="candidates")
        if fusion is not None and candidates is None:
            message = "fusion needs candidates; got none"
            raise RequestError("bad_parameter", message, parameter="fusion")
        fusion_rule = None if fusion is None else _make_rule(fusion)
        options = _to_options(values, is_chosen="matcher" in given)
        return MatchRequest(queries, options, unit, candidates, fusion_rule)

    def read_events(self, body: bytes) -> list[EventRecord]:
        """What `POST /v1/events` reports."""
        values = check("", _load(body), self._schemas["events"])
        now = timestamp_now()
        return [
            EventRecord(
                action=event["action_name"],
                query_id=event["query_id"],
                product=event["object_id"],
                timestamp=now,
                position=event["position"],
                revenue=event["revenue"],
            )
            for event in values["events"]
        ]

    def read_explain(self, body: bytes) -> ExplainRequest:
        """What `POST /v1/explain` asks for."""
        values = check("", _load(body), self._schemas["explain"])
        query, product = values.pop("query"), values.pop("product")
        return ExplainRequest(query, product, **_to_search(values))

    def read_products(self, body: bytes) -> WriteRequest:
        """What `POST /v1/products` writes."""
        values = check("", _load(body), self._schemas["products"])
        told = [
            Upsert(one["id"], one["title"], one["attributes"] or {}) for one in values["products"]
        ]
        return WriteRequest(told, values["remove"], values["version"])

    def read_removal(self, product: str, query_string: bytes) -> WriteRequest:
        """What `DELETE /v1/products/{id}` removes."""
        self._check_length(query_string)
        if not product:
            raise RequestError("not_found", "there is nothing at this path")
        schema = self._schemas["removal"]
        values = check("", {**_parse(query_string, schema), "id": product}, schema)
        return WriteRequest([], [values["id"]], values["version"])

    def _check_length(self, query_string: bytes) -> None:
        most = self._limits.url_bytes
        if len(query_string) > most:
            rule = f"a query string must have at most {most} bytes"
            raise RequestError("url_too_long", f"{rule}; got {len(query_string)}")


def _to_options(values: Json, *, is_chosen: bool) -> MatchOptions:
    given = values["attributes"] or ()
    names = given.split(",") if isinstance(given, str) else given
    attributes = tuple(dict.fromkeys(filter(None, names)))
    search = {**_to_search(values), "attributes": attributes}
    return MatchOptions(**search, is_chosen=is_chosen)


def _to_search(values: Json) -> Json:
    """Values as a search takes them."""
    return {**values, "where": _to_wanted(values["where"])}


def _to_wanted(where: str | list[str] | None) -> Wanted | None:
    return tuple(where) if isinstance(where, list) else where or None


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


def _parse(query_string: bytes, schema: Json) -> Json:
    """The parameters of a query string, each at most once."""
    given: Json = {}
    for pair in filter(None, query_string.split(b"&")):
        encoded_name, _, value = pair.partition(b"=")
        name = encoded_name.decode("latin-1")
        require_known([name], schema, "a parameter")
        if name in given:
            message = f"{name} must be given once; got it twice"
            raise RequestError("bad_parameter", message, parameter=name)
        given[name] = parse(name, _decode(value), schema["properties"][name])
    return given


def _decode(value: bytes) -> str:
    try:
        return _native.decode_parameter(value)
    except UnicodeDecodeError:
        raise RequestError("bad_parameter", "a parameter must be UTF-8; got other bytes") from None


def _load(body: bytes) -> Json:
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError("bad_json", f"the body must be JSON; {error}") from None
    if not isinstance(given, dict):
        got = type(given).__name__
        raise RequestError("bad_json", f"the body must be a JSON object; got a {got}")
    n_keys = _native.scan_json(body)[1]
    if not _has_keys(given, n_keys):  # a proxy in front may have checked another of them
        raise RequestError("bad_json", "an object must have each key once; got one twice")
    return given


def _has_keys(given: Json, n_keys: int) -> bool:
    """Whether objects have that many keys in all; looks no further than needed."""
    left: list[Any] = [given]
    while left and n_keys > 0:
        one = left.pop()
        if isinstance(one, dict):
            n_keys -= len(one)
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)
    return n_keys <= 0
