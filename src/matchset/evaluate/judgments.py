"""Judging: where do the relevant products stand in a matcher's answers?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.evaluate.metrics import Judged
from matchset.evaluate.qrels import Questions
from matchset.matchers.base import Retriever
from matchset.matchers.match import Matches
from matchset.model.products import Products
from matchset.strings import Strings

BATCH = 4096  # queries that are asked at once


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What is kept of a matcher's answers: ranks of the relevant, and which products were given."""

    judged: Judged
    products: Products | None  # of the matcher; None where every answer brings its own
    n_given: dict[int, int]  # results in all, by k
    n_distinct: dict[int, int]  # products that were given at least once, by k
    n_tail: dict[int, int]  # results that are in the long tail, by k


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """The answers to a batch of queries as flat arrays, one entry per given product."""

    row: NDArray[np.int64]  # place of the query among all questions, (n_entries,)
    rank: NDArray[np.int64]  # from 0, (n_entries,)
    label: NDArray[np.int32]  # (n_entries,)
    product: NDArray[np.int64]  # place among the relevant products, -1 if nowhere, (n_entries,)
    products: Products


def ask(
    matcher: Retriever, questions: Questions, k: int, *, batch: int = BATCH
) -> Iterator[Results]:
    """Put all questions to a matcher, a batch at a time."""
    if batch < 1:
        raise ValueError(f"batch must be positive; got {batch}")
    products: Products | None = None
    place = np.empty(0, dtype=np.int64)  # of each label among the relevant products
    for begin in range(0, len(questions), batch):
        matches = matcher.match(questions.queries[begin : begin + batch], k)
        if products is not matches.products:
            products = matches.products
            place = questions.products.index_of(products.ids)
        yield _flatten(matches, begin, place)


def find_pairs(questions: Questions, results: Results) -> tuple[NDArray[np.int64], ...]:
    """The relevant pairs among results: place of each pair, and its rank."""
    known = np.flatnonzero(results.product >= 0)
    wanted = results.row[known] * len(questions.products) + results.product[known]
    # Only the keys of this batch's queries: a short search, in the cache.
    low, high = (int(results.row[known[i]]) if len(known) else 0 for i in (0, -1))
    begin, end = np.searchsorted(questions.row, [low, high + 1])
    keys = questions.row[begin:end] * len(questions.products) + questions.product[begin:end]
    at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    is_relevant = keys[at] == wanted if len(keys) else np.zeros(0, dtype=np.bool_)
    return begin + at[is_relevant], results.rank[known[is_relevant]]


def judge(
    matcher: Retriever,
    questions: Questions,
    ks: Sequence[int],
    *,
    head: Strings | None = None,
    batch: int = BATCH,
) -> Answers:
    """Ask for the largest k and keep what the metrics need; `head` are products of no long tail."""
    rank = questions.unanswered()
    given, tail = dict.fromkeys(ks, 0), dict.fromkeys(ks, 0)
    shown = {k: np.zeros(0, dtype=np.bool_) for k in ks}
    is_tail = np.zeros(0, dtype=np.bool_)
    products: Products | None = None
    n_catalogs = 0
    for results in ask(matcher, questions, max(ks), batch=batch):
        if products is not results.products:
            products = results.products
            n_catalogs += 1
            shown = {k: np.zeros(len(products), dtype=np.bool_) for k in ks}
            if head is not None:
                is_tail = head.index_of(products.ids) < 0
        places, ranks = find_pairs(questions, results)
        rank[places] = ranks
        for k in ks:
            labels = results.label[results.rank < k]
            shown[k][labels] = True
            given[k] += len(labels)
            if head is not None:
                tail[k] += int(np.count_nonzero(is_tail[labels]))
    distinct = {k: int(np.count_nonzero(shown[k])) for k in ks}
    # A server's answers bring their own products, which are no catalogue even if they came at once.
    is_catalog = n_catalogs == 1 and products is matcher.match([], 1).products
    catalog = products if is_catalog else None
    return Answers(questions.judge(rank), catalog, given, distinct, tail)


def _flatten(matches: Matches, begin: int, place: NDArray[np.int64]) -> Results:
    found = matches.found
    sizes = np.diff(found.indptr)
    return Results(
        row=begin + np.repeat(np.arange(len(found)), sizes),
        rank=np.arange(len(found.indices)) - np.repeat(found.indptr[:-1], sizes),
        label=found.indices,
        product=place[found.indices],
        products=matches.products,
    )
