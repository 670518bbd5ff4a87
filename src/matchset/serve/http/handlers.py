"""Asking: how does a question become an answer?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from matchset.filters.filter import Filter
from matchset.matchers.fused_match import FusedMatch, fuse_matches
from matchset.matchers.match import Match
from matchset.matchers.registry import XR_LINEAR
from matchset.serve.http.answers import write_fused, write_result
from matchset.serve.http.bodies import check_weights
from matchset.serve.http.problems import RequestError
from matchset.serve.http.requests import Batch, Doubt, Question
from matchset.serve.loaded_model import Named, Served

_INLINE_BEAM = 64  # a wider one takes a thread
_DEPTH = 100  # products of each matcher that are fused, or k where that is more
CANDIDATES = "candidates"


def answer_quickly(served: Served, query: str, question: Question) -> tuple[bytes, int] | None:
    """What `answer_one` gives, where that takes microseconds, so that no thread is worth it."""
    if question.matcher != XR_LINEAR or question.beam > _INLINE_BEAM:
        return None
    where = None
    if question.where is not None:
        where = served.filters.find(served.tree, question.where)
        if where is None:
            return None
    started = time.perf_counter_ns()
    found = served.tree_matcher.match(query, question.k, beam=question.beam, where=where)
    spent = (time.perf_counter_ns() - started) // 1000
    written = write_result(found, spent, has_titles=question.has_titles)
    return b"".join((served.start_of_tree, *written, b"}")), len(found)


def answer_one(served: Served, query: str, question: Question) -> tuple[bytes, int]:
    """The body of an answer, and how many products are in it."""
    result, n_products = _Asker(served, question).ask(query)
    start = b'{"model_version":"%b","matcher":"%b",%b}'
    return start % (served.version.encode(), question.matcher.encode(), result), n_products


def answer_batch(served: Served, batch: Batch, deadline: float) -> tuple[bytes, int]:
    """The body of an answer to many queries, and how many of them got no product.

    A TimeoutError ends it when the (monotonic) deadline passes between two queries.
    """
    asker = _Asker(served, batch.question)
    check_weights(batch.rule, 1 + len(served.parts(batch.question.matcher)))
    results: list[bytes] = []
    n_empty = 0
    for place, query in enumerate(batch.queries):
        if time.monotonic() > deadline:  # nobody waits for the rest
            raise TimeoutError
        theirs = None if batch.candidates is None else batch.candidates[place]
        result, n_products = asker.ask(query, theirs, batch)
        results.append(b"{%b}" % result)
        n_empty += not n_products
    body = b'{"model_version":"%b","matcher":"%b","results":[%b]}'
    named = served.version.encode(), batch.question.matcher.encode()
    return body % (*named, b",".join(results)), n_empty


class _Asker:
    """One question, to be asked of many queries."""

    def __init__(self, served: Served, question: Question) -> None:
        self._served, self._question = served, question
        self._parts = served.parts(question.matcher)
        self._filters = [_filter(served, named, question) for named in self._parts]

    def ask(
        self, query: str, theirs: Sequence[str] | None = None, batch: Batch | None = None
    ) -> tuple[bytes, int]:
        """A result as JSON, and how many products are in it."""
        question = self._question
        started = time.perf_counter_ns()
        if theirs is None and len(self._parts) == 1:
            found = self._find(0, query, question.k)
            spent = (time.perf_counter_ns() - started) // 1000
            if isinstance(found, FusedMatch):  # of a fusion that was saved
                return write_fused(found, spent, has_titles=question.has_titles), len(found)
            written = write_result(found, spent, has_titles=question.has_titles)
            return b"".join(written), len(found)
        rankings = {} if theirs is None else {CANDIDATES: self._make_match(query, theirs)}
        for place, named in enumerate(self._parts):
            rankings[named.name] = self._find(place, query, max(question.k, _DEPTH))
        fused = fuse_matches(rankings, question.k, None if batch is None else batch.rule)
        spent = (time.perf_counter_ns() - started) // 1000
        return write_fused(fused, spent, has_titles=question.has_titles), len(fused)

    def _find(self, place: int, query: str, k: int) -> Match:
        return self._parts[place].match(
            query, k, beam=self._question.beam, where=self._filters[place]
        )

    def _make_match(self, query: str, theirs: Sequence[str]) -> Match:
        """A caller's own ranking, filtered: scores fall with the rank, titles are those we know."""
        if self._question.where is not None:
            theirs = self._served.find_allowed(theirs, self._question.where)
        scores = [1.0 / rank for rank in range(1, len(theirs) + 1)]
        return Match.of(query, theirs, scores, self._served.titles_of(theirs))


def explain(served: Served, doubt: Doubt) -> dict[str, Any]:
    """Why a query gets a product, or where in the tree it was lost."""
    tree, matcher = served.tree, served.tree_matcher
    question = doubt.question
    where = _filter(served, tree, question)
    label = int(matcher.products.index_of([doubt.product])[0])
    if label < 0:
        rule = "product must be one of the model's"
        raise RequestError("unknown_product", f"{rule}; got {doubt.product!r}")
    reasons = matcher.explain(doubt.query, doubt.product, k=question.k, beam=question.beam)
    found = matcher.match(doubt.query, question.k, beam=question.beam, where=where)
    rank = found.ids.index(doubt.product) + 1 if doubt.product in found.ids else None
    lost = reasons.lost_at
    return {
        "model_version": served.version,
        "query": doubt.query,
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
                "for": _weights(step.spoke_for),
                "against": _weights(step.spoke_against),
            }
            for step in reasons.steps
        ],
    }


def _filter(served: Served, named: Named, question: Question) -> Filter | None:
    return None if question.where is None else served.filters.make(named, question.where)


def _weights(spoke: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    return [{"ngram": ngram, "weight": weight} for ngram, weight in spoke]
