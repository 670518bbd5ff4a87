"""Retrieval: how does a request become results?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from matchset.matchers.fused_match import fuse_matches
from matchset.matchers.match import Match
from matchset.serve.http.request_errors import RequestError, too_large
from matchset.serve.http.requests import BatchRequest, ExplainRequest, MatchOptions, check_weights
from matchset.serve.http.responses import write_batch, write_match, write_result
from matchset.serve.loaded_model import FUSED, LoadedModel

_MAX_INLINE_BEAM = 64  # a wider one takes a thread
_DEPTH = 100  # products of each matcher that are fused, or k if that is more
CANDIDATES = "candidates"


def match_inline(model: LoadedModel, query: str, options: MatchOptions) -> tuple[bytes, int] | None:
    """What `match_one` returns, if it takes only microseconds; None if it deserves a thread."""
    if options.matcher != model.default or (options.beam or 0) > _MAX_INLINE_BEAM:
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
    check_weights(request.rule, 1 + len(search.names))
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
        self.names = tuple(model.matchers) if options.matcher == FUSED else (options.matcher,)
        where = options.where
        self._filters = {
            name: None if where is None else model.filter(name, where) for name in self.names
        }

    def run(
        self,
        query: str,
        candidates: Sequence[str] | None = None,
        request: BatchRequest | None = None,
    ) -> tuple[bytes, int]:
        """A result as JSON fields, and how many products it has."""
        options = self._options
        started = time.perf_counter_ns()
        if candidates is None and len(self.names) == 1:
            found = self._match(self.names[0], query, options.k)
        else:
            rankings = {}
            if candidates is not None:
                rankings[CANDIDATES] = self._to_match(query, candidates)
            for name in self.names:
                rankings[name] = self._match(name, query, max(options.k, _DEPTH))
            found = fuse_matches(rankings, options.k, None if request is None else request.rule)
        microseconds = (time.perf_counter_ns() - started) // 1000
        return write_result(found, microseconds, titles=options.titles), len(found)

    def _match(self, name: str, query: str, k: int) -> Match:
        return self._model.match(name, query, k, beam=self._options.beam, where=self._filters[name])

    def _to_match(self, query: str, candidates: Sequence[str]) -> Match:
        """A caller's own ranking, filtered: scores fall with the rank, titles are the model's."""
        if self._options.where is not None:
            candidates = self._model.find_allowed(candidates, self._options.where)
        scores = [1.0 / rank for rank in range(1, len(candidates) + 1)]
        return Match.of(query, candidates, scores, self._model.titles_of(candidates))


def explain(model: LoadedModel, request: ExplainRequest) -> dict[str, Any]:
    """Why a query finds a product, or where in the tree the product was lost."""
    name, matcher = model.find_explainer()
    where = None if request.where is None else model.filter(name, request.where)
    label = int(matcher.products.index_of([request.product])[0])
    if label < 0:
        rule = "product must be one of the model's"
        raise RequestError(
            "unknown_product", f"{rule}; got {request.product!r}", parameter="product"
        )
    reasons = matcher.explain(request.query, request.product, k=request.k, beam=request.beam)
    found = matcher.match(request.query, request.k, beam=request.beam, where=where)
    rank = found.ids.index(request.product) + 1 if request.product in found.ids else None
    lost = reasons.lost_at
    return {
        "query": request.query,
        "product": {"id": reasons.product, "title": reasons.title},
        "score": reasons.score,
        "is_allowed": where is None or bool(where.allowed[label]),
        "is_returned": rank is not None,
        "rank": rank,
        "lost_at": None if lost is None else lost.level,
        "steps": [
            {
                "level": step.level,
                "name": step.name,
                "score": step.score,
                "rank": step.rank,
                "in_beam": step.is_kept,
                "bias": step.bias,
                "for": _list_weights(step.counted_for),
                "against": _list_weights(step.counted_against),
            }
            for step in reasons.steps
        ],
    }


def _list_weights(weights: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    return [{"ngram": ngram, "weight": weight} for ngram, weight in weights]
