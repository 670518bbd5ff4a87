"""Questions: what does a caller ask for, and may they?

Everything is checked here, before any work is done for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import unquote

import orjson

from matchset.matchers.base import DEFAULT_BEAM, DEFAULT_K
from matchset.matchers.fusion_rules import FusionRule
from matchset.matchers.registry import XR_LINEAR
from matchset.serve.http.bodies import read_candidates, read_fusion
from matchset.serve.http.problems import RequestError, bad
from matchset.serve.options import Limits

_MATCH_FIELDS = frozenset({"q", "k", "beam", "where", "matcher", "titles"})
_BATCH_FIELDS = frozenset(
    {"queries", "k", "beam", "where", "matcher", "titles", "candidates", "fusion"}
)
_EXPLAIN_FIELDS = frozenset({"query", "product", "k", "beam", "where"})
_MOST_DIGITS = 9
_REMEMBERED = 256  # ways to ask
# A filter: an expression, or the ids of the products that may be given.
Wanted: TypeAlias = str | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What a match should be like, whatever the query."""

    k: int = DEFAULT_K
    beam: int = DEFAULT_BEAM
    where: Wanted | None = None
    matcher: str = XR_LINEAR
    has_titles: bool = True


@dataclass(frozen=True, slots=True)
class Batch:
    """Queries that are asked together."""

    queries: list[str]
    question: Question
    candidates: list[list[str]] | None = None  # the caller's own ranking of each query
    rule: FusionRule | None = None  # how both become one


@dataclass(frozen=True, slots=True)
class Doubt:
    """A query and a product, to be explained."""

    query: str
    product: str
    question: Question


class MatchReader:
    """Reads what `GET /v1/match` asks.

    Callers change the query and little else, so that the rest is read once and remembered.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._read_rest = lru_cache(maxsize=_REMEMBERED)(self._read_rest_anew)

    def read(self, query_string: bytes) -> tuple[str, Question]:
        """The query, and how it is asked."""
        check_length(query_string, self._limits)
        queries, rest = [], []
        for pair in query_string.split(b"&"):
            if pair[:2] == b"q=":
                queries.append(pair[2:])
            elif pair == b"q":
                queries.append(b"")
            elif pair:
                rest.append(pair)
        question = self._read_rest(b"&".join(rest))
        if len(queries) != 1:
            raise RequestError("bad_parameter", f"q must be given once; got {len(queries)}")
        query = decode_value(queries[0])
        check_query("q", query, self._limits)
        return query, question

    def _read_rest_anew(self, rest: bytes) -> Question:
        given = read_fields(rest, _MATCH_FIELDS, self._limits)
        values: dict[str, Any] = dict(given)
        for name in ("k", "beam"):
            if name in values:
                values[name] = _read_integer(name, given[name])
        if "titles" in values:
            if given["titles"] not in ("true", "false"):
                raise bad("titles must be true or false", given["titles"])
            values["titles"] = given["titles"] == "true"
        return _make_question(values, self._limits)


def read_bought(query_string: bytes, limits: Limits) -> str:
    """The query of `GET /v1/bought`."""
    query = _require(read_fields(query_string, frozenset({"q"}), limits), "q")
    check_query("q", query, limits)
    return query


def read_batch(body: bytes, limits: Limits) -> Batch:
    """What `POST /v1/match` asks."""
    given = read_object(body, _BATCH_FIELDS)
    queries = given.get("queries")
    if not isinstance(queries, list):
        raise bad("queries must be an array of strings", queries)
    if len(queries) > limits.queries:
        rule = f"queries must be at most {limits.queries}; got {len(queries)}"
        raise RequestError("too_many_queries", rule)
    for place, query in enumerate(queries):
        check_query(f"queries[{place}]", query, limits)
    candidates = read_candidates(given.get("candidates"), len(queries), limits)
    fusion = read_fusion(given.get("fusion"))
    if fusion is not None and candidates is None:
        raise RequestError("bad_parameter", "fusion is for candidates; got none of those")
    return Batch(queries, _make_question(given, limits), candidates, fusion)


def read_doubt(body: bytes, limits: Limits) -> Doubt:
    """What `POST /v1/explain` asks."""
    given = read_object(body, _EXPLAIN_FIELDS)
    query, product = given.get("query"), given.get("product")
    check_query("query", query, limits)
    if not isinstance(product, str) or len(product) > limits.id_characters:
        rule = f"product must be a string of at most {limits.id_characters} characters"
        raise bad(rule, product)
    return Doubt(str(query), product, _make_question(given, limits))


def read_fields(query_string: bytes, known: frozenset[str], limits: Limits) -> dict[str, str]:
    """The parameters of a query string, each at most once."""
    check_length(query_string, limits)
    given: dict[str, str] = {}
    for pair in query_string.split(b"&"):
        name, _, value = pair.partition(b"=")
        known_name = name.decode("latin-1")
        if known_name in given:
            raise RequestError("bad_parameter", f"{known_name} must be given once; got it twice")
        if known_name in known:
            given[known_name] = decode_value(value)
        elif pair:
            raise bad(f"a parameter must be one of {', '.join(sorted(known))}", known_name)
    return given


def check_length(query_string: bytes, limits: Limits) -> None:
    """Refuse a query string that is too long."""
    if len(query_string) > limits.url_bytes:
        rule = f"a query string must have at most {limits.url_bytes} bytes"
        raise RequestError("url_too_long", f"{rule}; got {len(query_string)}")


def decode_value(value: bytes) -> str:
    """A value of a query string."""
    try:
        text = value.decode("utf-8")
        if "%" in text or "+" in text:
            return unquote(text.replace("+", " "), errors="strict")
    except UnicodeDecodeError:
        raise RequestError("bad_parameter", "a parameter must be UTF-8; got other bytes") from None
    return text


def read_object(body: bytes, known: frozenset[str]) -> dict[str, Any]:
    """The fields of a JSON object."""
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError("bad_json", f"the body must be JSON; {error}") from None
    if not isinstance(given, dict):
        got = type(given).__name__
        raise RequestError("bad_json", f"the body must be a JSON object; got a {got}")
    for name in given:
        if name not in known:
            raise bad(f"a field must be one of {', '.join(sorted(known))}", name)
    return given


def check_query(name: str, query: object, limits: Limits) -> None:
    """Refuse what is no query, or too long a one."""
    if not isinstance(query, str):
        raise bad(f"{name} must be a string", query)
    if len(query) > limits.query_characters:
        rule = f"{name} must have at most {limits.query_characters} characters"
        raise RequestError("query_too_long", f"{rule}; got {len(query)}")


def _make_question(given: Mapping[str, Any], limits: Limits) -> Question:
    matcher = given.get("matcher", XR_LINEAR)
    if not isinstance(matcher, str):
        raise bad("matcher must be a string", matcher)
    has_titles = given.get("titles", True)
    if not isinstance(has_titles, bool):
        raise bad("titles must be true or false", has_titles)
    return Question(
        k=_within("k", given.get("k", default_k(limits)), limits.k),
        beam=_within("beam", given.get("beam", default_beam(limits)), limits.beam),
        where=_check_filter(given.get("where"), limits),
        matcher=matcher,
        has_titles=has_titles,
    )


def default_k(limits: Limits) -> int:
    """Products of a caller who does not say how many."""
    return min(DEFAULT_K, limits.k)


def default_beam(limits: Limits) -> int:
    """The beam of a caller who does not say how wide."""
    return min(DEFAULT_BEAM, limits.beam)


def _within(name: str, value: object, most: int) -> int:
    if isinstance(value, float) and value.is_integer():  # 10.0 is an integer of JSON
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise bad(f"{name} must be an integer", value)
    if not 1 <= value <= most:
        raise RequestError(f"{name}_out_of_range", f"{name} must be from 1 to {most}; got {value}")
    return value


def _check_filter(where: object, limits: Limits) -> Wanted | None:
    if where is None or where == "":
        return None
    if isinstance(where, list):
        return _check_ids(where, limits)
    if not isinstance(where, str):
        raise bad("where must be a string or an array of product ids", where)
    if len(where) > limits.filter_characters:
        rule = f"where must have at most {limits.filter_characters} characters"
        raise RequestError("filter_too_long", f"{rule}; got {len(where)}")
    return where


def _check_ids(ids: list[Any], limits: Limits) -> tuple[str, ...]:
    """Product ids; the size of a body bounds their number."""
    for place, product in enumerate(ids):
        if not isinstance(product, str) or len(product) > limits.id_characters:
            rule = f"where[{place}] must be a string of at most {limits.id_characters} characters"
            raise bad(rule, product)
    return tuple(ids)


def _read_integer(name: str, text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS):
        raise bad(f"{name} must be an integer", text)
    return int(text)


def _require(given: Mapping[str, str], name: str) -> str:
    if name not in given:
        raise RequestError("bad_parameter", f"{name} must be given; got none")
    return given[name]
