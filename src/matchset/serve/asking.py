"""Asking: how does a question become an answer?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from matchset.matchers.match import Match
from matchset.matchers.tree_matcher import TreeMatcher
from matchset.model.filters import Filter
from matchset.serve.answers import write_result
from matchset.serve.matchers import Named
from matchset.serve.questions import Batch, Doubt, Question
from matchset.serve.refusals import RequestError
from matchset.serve.served import Served

_INLINE_WORK = 64  # a wider beam takes a thread


def is_quick(served: Served, question: Question) -> bool:
    """Whether an answer takes microseconds, so that no thread is worth it."""
    if question.beam > _INLINE_WORK:
        return False
    named = served.find(question.matcher)
    if not isinstance(named.matcher, TreeMatcher):
        return False
    return question.where is None or served.filters.find(named, question.where) is not None


def answer_one(served: Served, query: str, question: Question) -> tuple[bytes, int]:
    """The body of an answer, and how many products are in it."""
    named = served.find(question.matcher)
    result, n_products = _ask(named, query, question, _filter(served, named, question))
    version, name = served.version.encode(), named.name.encode()
    return b'{"model_version":"%b","matcher":"%b",%b}' % (version, name, result), n_products


def answer_batch(served: Served, batch: Batch, seconds: float) -> tuple[bytes, int]:
    """The body of an answer to many queries, and how many of them got no product."""
    deadline = time.monotonic() + seconds
    question = batch.question
    named = served.find(question.matcher)
    where = _filter(served, named, question)
    results: list[bytes] = []
    n_empty = 0
    for query in batch.queries:
        if time.monotonic() > deadline:  # nobody waits for the rest
            raise RequestError("timeout", f"a request must take at most {seconds:g} s; got more")
        result, n_products = _ask(named, query, question, where)
        results.append(b"{%b}" % result)
        n_empty += not n_products
    version, name = served.version.encode(), named.name.encode()
    body = b'{"model_version":"%b","matcher":"%b","results":[%b]}'
    return body % (version, name, b",".join(results)), n_empty


def explain(served: Served, doubt: Doubt) -> dict[str, Any]:
    """Why a query gets a product, or where in the tree it was lost."""
    tree = served.tree
    matcher = tree.matcher
    assert isinstance(matcher, TreeMatcher)  # noqa: S101  # what `open_matchers` puts there
    question = doubt.question
    where = _filter(served, tree, question)
    try:
        reasons = matcher.explain(doubt.query, doubt.product, k=question.k, beam=question.beam)
    except ValueError:
        rule = "product must be one of the model's"
        raise RequestError("unknown_product", f"{rule}; got {doubt.product!r}") from None
    found = matcher.match(doubt.query, question.k, beam=question.beam, where=where)
    rank = found.ids.index(doubt.product) + 1 if doubt.product in found.ids else None
    lost = reasons.lost_at
    label = int(matcher.products.labels([doubt.product])[0])
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


def _ask(named: Named, query: str, question: Question, where: Filter | None) -> tuple[bytes, int]:
    matcher = named.matcher
    started = time.perf_counter_ns()
    found: Match
    if isinstance(matcher, TreeMatcher):
        found = matcher.match(query, question.k, beam=question.beam, where=where)
    else:
        found = matcher.match(query, question.k, where=where)
    spent = (time.perf_counter_ns() - started) // 1000
    return write_result(found, spent, has_titles=question.has_titles), len(found)


def _filter(served: Served, named: Named, question: Question) -> Filter | None:
    return None if question.where is None else served.filters.make(named, question.where)


def _weights(spoke: Sequence[tuple[str, float]]) -> list[dict[str, Any]]:
    return [{"ngram": ngram, "weight": weight} for ngram, weight in spoke]
