"""Retrieval: how does a request become results?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from matchset.matchers.fused_match import fuse_matches
from matchset.matchers.match import Match
from matchset.serve.http.request_errors import RequestError, too_large
from matchset.serve.http.requests import BatchRequest, ExplainRequest, MatchOptions, check_weights
from matchset.serve.http.responses import write_batch, write_match, write_result
from matchset.serve.loaded_model import LoadedModel

_MAX_INLINE_BEAM = 64  # a wider one takes a thread
_MAX_INLINE_K = 200
_DEPTH = 100  # products of ours that are fused with the caller's, or k if that is more
CANDIDATES = "candidates"


def match_inline(model: LoadedModel, query: str, options: MatchOptions) -> tuple[bytes, int] | None:
    """What `match_one` returns, if it takes only microseconds; None if it deserves a thread."""
    if options.matcher != model.default or (options.beam or 0) > _MAX_INLINE_BEAM:
        return None
    if options.k > _MAX_INLINE_K or options.attributes:
        return None
    if options.where is not None and not model.has_filter(options.where):
        return None
    return match_one(model, query, options)


def match_one(model: LoadedModel, query: str, options: MatchOptions) -> tuple[bytes, int]:
    """The body of a response, and how many products it has."""
    result, n_products = _Search(model, options).run(query)
    return write_match(model.version, options.matcher, result), n_products


def match_batch(
    model: LoadedModel, request: BatchRequest, deadline: float, max_bytes: int
) -> tuple[bytes, int]:
    """The body of a response to many queries, and how many of them got no product.

    Raises TimeoutError if the (monotonic) deadline passes between two queries.
    """
    search = _Search(model, request.options)
    check_weights(request.rule, 2)
    results: list[bytes] = []
    n_empty = n_bytes = 0
    for index, query in enumerate(request.queries):
        if time.monotonic() > deadline:  # the caller has stopped waiting
            raise TimeoutError
        candidates = None if request.candidates is None else request.candidates[index]
        result, n_products = search.run(query, candidates, request)
        results.append(result)
        n_empty += not n_products
        n_bytes += len(result)
        if n_bytes > max_bytes:
            raise too_large(max_bytes)
    return write_batch(model.version, request.options.matcher, results), n_empty


class _Search:
    """The options of a request, ready for any number of queries."""

    def __init__(self, model: LoadedModel, options: MatchOptions) -> None:
        self._model, self._options = model, options
        self._matcher = model.find(options.matcher)
        self._where = None if options.where is None else self._matcher.filter(options.where)
        model.require_attributes(options.attributes)

    def run(
        self,
        query: str,
        candidates: Sequence[str] | None = None,
        request: BatchRequest | None = None,
    ) -> tuple[bytes, int]:
        """A result as JSON fields, and how many products it has."""
        options = self._options
        started = time.perf_counter_ns()
        if candidates is None:
            found = self._match(query, options.k)
        else:
            rankings = {
                CANDIDATES: self._to_match(query, candidates),
                options.matcher: self._match(query, max(options.k, _DEPTH)),
            }
            found = fuse_matches(rankings, options.k, None if request is None else request.rule)
        microseconds = (time.perf_counter_ns() - started) // 1000
        values = None
        if options.attributes:
            values = self._model.attributes_of(found.ids, options.attributes)
        result = write_result(found, microseconds, titles=options.titles, attributes=values)
        return result, len(found)

    def _match(self, query: str, k: int) -> Match:
        """Our products; the least scores are theirs alone, also where they are fused."""
        options = self._options
        return self._matcher.match(
            query,
            k,
            where=self._where,
            beam=options.beam if options.matcher in self._model.with_beam else None,
            min_score=options.min_score,
            min_relative=options.min_relative,
        )

    def _to_match(self, query: str, candidates: Sequence[str]) -> Match:
        """A caller's own ranking, filtered: scores fall with the rank, titles are the model's."""
        if self._options.where is not None:
            candidates = self._model.find_allowed(candidates, self._options.where)
        scores = [1.0 / rank for rank in range(1, len(candidates) + 1)]
        return Match.of(query, candidates, scores, self._model.titles_of(candidates))


def explain(model: LoadedModel, request: ExplainRequest) -> dict[str, Any]:
    """Why a query finds a product, or why not."""
    name = model.find_explainer(request.matcher)
    matcher = model.find(name)
    if matcher.products.index_of([request.product])[0] < 0:
        rule = "product must be one of the model's"
        raise RequestError(
            "unknown_product", f"{rule}; got {request.product!r}", parameter="product"
        )
    options: dict[str, Any] = {
        "k": request.k,
        "beam": request.beam if name in model.with_beam else None,
        "where": None if request.where is None else matcher.filter(request.where),
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
