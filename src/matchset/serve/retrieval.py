"""Retrieval: how does a request become results?

There is one way: `answer`. What other rooms do around it (experiments, shadows) wraps that
function; see `Answering`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple, TypeAlias

import msgspec

from matchset import _native
from matchset.matchers.fusion import fuse_matches
from matchset.matchers.fusion_rules import FusionRule
from matchset.matchers.match import Match
from matchset.matchers.match_set import MatchSet
from matchset.serve.loaded_model import LoadedModel
from matchset.serve.request_errors import RequestError, too_large
from matchset.serve.requests import ExplainRequest, MatchOptions, MatchRequest
from matchset.serve.responses import write_head, write_result
from matchset.serve.worker import Worker

_MAX_INLINE_BEAM = 64  # a wider one takes a thread
_MAX_INLINE_K = 200
_MAX_SEARCHES = 256  # sets of options of a model
_DEPTH = 100  # products of ours that are fused with the caller's, or k if that is more
CANDIDATES = "candidates"


class Result(NamedTuple):
    """The answer to one query."""

    body: bytes  # a JSON object
    n_products: int
    microseconds: int
    ids: bytes = b""  # a JSON array, if they were wanted


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request, whose body begins with `head`, fields without a closing brace."""

    matcher: str
    head: bytes
    results: list[Result]

    @property
    def n_empty(self) -> int:
        """How many queries have no product."""
        return sum(not result.n_products for result in self.results)

    def to_single(self) -> bytes:
        """Return the body of a response to one query."""
        return self.head + self.results[0].body[1:]

    def to_batch(self, unknown: Sequence[str] = ()) -> bytes:
        """Return the body of a response to many queries; `unknown` are ids of its filter."""
        head = self.head + b'"unknown":%b,' % msgspec.json.encode(unknown) if unknown else self.head
        return b'%b"results":[%b]}' % (head, b",".join(one.body for one in self.results))


# How a request for products is answered. Another room may wrap it, to choose the matcher before
# or to record what was found after.
Answering: TypeAlias = Callable[[LoadedModel, MatchRequest], Awaitable[Answer]]


def answering(worker: Worker) -> Answering:
    """Return what answers requests of a worker: quick ones at once, others in a thread."""

    async def answer_in_time(model: LoadedModel, request: MatchRequest) -> Answer:
        most = worker.limits.response_bytes
        if is_quick(model, request):
            return answer(model, request, inf, most)
        deadline = time.monotonic() + worker.limits.seconds  # waiting for a thread counts too
        return await worker.in_thread(lambda: answer(model, request, deadline, most))

    return answer_in_time


def answer(model: LoadedModel, request: MatchRequest, deadline: float, max_bytes: int) -> Answer:
    """Return the products of each query.

    Raises TimeoutError if the (monotonic) deadline passes between two queries.
    """
    search = find_search(model, request.options)
    results: list[Result] = []
    n_bytes = 0
    for index, query in enumerate(request.queries):
        if time.monotonic() > deadline:  # the caller has stopped waiting
            raise TimeoutError
        candidates = None if request.candidates is None else request.candidates[index]
        result = search.answer(query, candidates, request.rule, wants_ids=request.wants_ids)
        results.append(result)
        n_bytes += len(result.body)
        if n_bytes > max_bytes:
            raise too_large(max_bytes)
    return Answer(search.name, search.head, results)


def is_quick(model: LoadedModel, request: MatchRequest) -> bool:
    """Return whether an answer takes only microseconds, so that it needs no thread."""
    options = request.options
    return (
        len(request.queries) == 1
        and request.candidates is None
        and (options.matcher or model.names[0]) == model.default
        and options.k <= _MAX_INLINE_K
        and (options.beam or 0) <= _MAX_INLINE_BEAM
        and not options.attributes
        and (options.where is None or model.has_filter(options.where))
    )


def find_search(model: LoadedModel, options: MatchOptions) -> Search:
    """Return the search with these options; most callers use the same.

    One with a filter is not kept, because filters have a cache of their own, which is bounded.
    """
    if options.where is not None:
        return Search(model, options)
    search = model.searches.get(options)
    if search is None:
        if len(model.searches) >= _MAX_SEARCHES:
            model.searches.clear()
        search = model.searches[options] = Search(model, options)
    return search


class Search:
    """A matcher with the options of a request, ready for any number of queries."""

    def __init__(self, model: LoadedModel, options: MatchOptions) -> None:
        self.name = options.matcher or model.names[0]
        self.head = write_head(model.version, self.name)
        self._model, self._options = model, options
        self._matcher = model.find(self.name)
        self._chosen = model.choose(self.name, options.beam, options.new_share)
        self._where = model.filter_for(self.name, options.where)
        model.require_attributes(options.attributes)
        self._native = self._prepare()

    def _prepare(self) -> Callable[[bytes, str, bool], tuple[bytes, int, int, bytes]] | None:
        """Return what answers usual requests in one native call, if these options allow it."""
        options = self._options
        is_cut = options.min_score is not None or options.min_relative is not None
        if is_cut or self._where is not None or options.attributes:
            return None
        if not isinstance(self._matcher, MatchSet):
            return None
        return self._matcher.prepare_answer(options.k, **self._chosen, titles=options.titles)

    def answer(
        self,
        query: str,
        candidates: Sequence[str] | None = None,
        rule: FusionRule | None = None,
        *,
        wants_ids: bool = False,
    ) -> Result:
        """Return the products of one query; candidates of the caller are fused with them."""
        if self._native is not None and candidates is None:
            return Result(*self._native(b"{", query, wants_ids))
        started = time.perf_counter_ns()
        match = self.find(query, candidates, rule)
        microseconds = (time.perf_counter_ns() - started) // 1000
        return self.write(match, microseconds, wants_ids=wants_ids)

    def write(
        self,
        match: Match,
        microseconds: int,
        *,
        origins: Sequence[str] | None = None,
        wants_ids: bool = False,
    ) -> Result:
        """Return a match as a result; `origins` say who each product is credited to."""
        names, values = self._options.attributes, None
        if names:
            values = self._model.attributes_of(match.ids, names)
        body = write_result(
            match, microseconds, titles=self._options.titles, attributes=values, origins=origins
        )
        ids = _native.write_ids(match.products.texts, match.labels) if wants_ids else b""
        return Result(body, len(match), microseconds, ids)

    def find(
        self,
        query: str,
        candidates: Sequence[str] | None = None,
        rule: FusionRule | None = None,
    ) -> Match:
        """Return the products alone."""
        k = self._options.k
        if candidates is None:
            return self.find_ours(query, k)
        return self.fuse(query, candidates, self.find_ours(query, max(k, _DEPTH)), rule)

    def find_ours(self, query: str, k: int) -> Match:
        """Return our products; the least scores are theirs alone, also where they are fused."""
        options = self._options
        found: Match = self._matcher.match(
            query,
            k,
            where=self._where,
            **self._chosen,
            min_score=options.min_score,
            min_relative=options.min_relative,
        )
        return found

    def fuse(
        self, query: str, candidates: Sequence[str], ours: Match, rule: FusionRule | None
    ) -> Match:
        """Fuse a caller's own ranking, which the filter cuts too, with ours."""
        allowed = self._model.find_allowed(candidates, self._options.where)
        scores = [1.0 / rank for rank in range(1, len(allowed) + 1)]
        theirs = Match.of(query, allowed, scores, self._model.titles_of(allowed))
        return fuse_matches({CANDIDATES: theirs, self.name: ours}, self._options.k, rule)


def explain(model: LoadedModel, request: ExplainRequest) -> dict[str, Any]:
    """Explain why a query finds a product, or why not."""
    name = model.find_explainer(request.matcher)
    matcher = model.find(name)
    is_known = matcher.products.index_of([request.product])[0] >= 0
    if not is_known or request.product in model.removed:
        rule = "product must be one of the model's"
        raise RequestError(
            "unknown_product", f"{rule}; got {request.product!r}", parameter="product"
        )
    options: dict[str, Any] = {
        "k": request.k,
        **model.choose(name, request.beam, request.new_share),
        "where": model.filter_for(name, request.where),
    }
    reasons = matcher.explain(request.query, request.product, **options)
    cut: dict[str, Any] = {
        "min_score": request.min_score,
        "min_relative": request.min_relative,
    }
    if reasons.is_returned and any(each is not None for each in cut.values()):
        kept = matcher.match(request.query, **options, **cut).ids
        if request.product not in kept:
            verdict = f"rank {reasons.rank:,}, but its score is too low"
            reasons = replace(reasons, is_returned=False, verdict=verdict)
    return reasons.to_dict()
