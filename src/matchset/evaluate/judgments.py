"""Judgments: at which ranks does a matcher return the relevant products?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from matchset.evaluate.qrels import Qrels
from matchset.evaluate.significance import Values
from matchset.matchers.base import Retriever
from matchset.matchers.match import Matches
from matchset.matrices import Floats
from matchset.model.products import Products
from matchset.strings import Strings

BATCH = 4096  # queries per call of `match`
MISSING = np.iinfo(np.int64).max  # the rank of a relevant product that was not returned


@dataclass(frozen=True, slots=True, eq=False)
class Judgments:
    """The relevant products of each query, and the rank of each in the query's results."""

    row: NDArray[np.int64]  # query of each relevant pair, ascending, (n_pairs,)
    gain: Values  # how relevant each pair is, positive, (n_pairs,)
    rank: NDArray[np.int64]  # from 0, MISSING if the product was not returned, (n_pairs,)
    n_queries: int

    @classmethod
    def of(cls, qrels: Qrels, rank: NDArray[np.int64]) -> Judgments:
        """Return the qrels with the rank of each relevant pair."""
        return cls(qrels.row, qrels.gain, rank, len(qrels))

    def select(self, kept: NDArray[np.bool_]) -> Judgments:
        """Return judgments as if only some pairs were relevant; queries keep their indices."""
        return replace(self, row=self.row[kept], gain=self.gain[kept], rank=self.rank[kept])

    def count(self, pairs: NDArray[np.bool_] | None = None) -> Values:
        """Return the number of pairs of each query, or of those marked in `pairs`, (n_queries,)."""
        rows = self.row if pairs is None else self.row[pairs]
        return np.bincount(rows, minlength=self.n_queries).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What the metrics need of a matcher's results for all test queries."""

    judgments: Judgments
    sizes: NDArray[np.int64]  # products returned for each query, (n_queries,)
    products: Products | None  # of the matcher; None if each result brings its own
    n_returned: dict[int, int]  # results in total, by k
    n_distinct: dict[int, int]  # products returned at least once, by k
    n_tail: dict[int, int]  # results from the long tail, by k


@dataclass(frozen=True, slots=True, eq=False)
class Results:
    """The results of a batch of queries as flat arrays, one entry per returned product."""

    row: NDArray[np.int64]  # index of the query in the qrels, (n_entries,)
    rank: NDArray[np.int64]  # from 0, (n_entries,)
    label: NDArray[np.int32]  # (n_entries,)
    product: NDArray[np.int64]  # index in the relevant products, -1 if not there, (n_entries,)
    score: Floats  # (n_entries,)
    products: Products


def match_qrels(
    matcher: Retriever, qrels: Qrels, k: int, *, batch: int = BATCH
) -> Iterator[Results]:
    """Yield the results of all test queries, one batch at a time."""
    if batch < 1:
        raise ValueError(f"batch must be positive; got {batch}")
    products: Products | None = None
    index = np.empty(0, dtype=np.int64)  # of each label in the relevant products
    for begin in range(0, len(qrels), batch):
        matches = matcher.match(qrels.queries[begin : begin + batch], k)
        if products is not matches.products:
            products = matches.products
            index = qrels.products.index_of(products.ids)
        yield _flatten(matches, begin, index)


def find_pairs(qrels: Qrels, results: Results) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the relevant pairs among results: the index of each in the qrels, and its entry."""
    known = np.flatnonzero(results.product >= 0)
    wanted = results.row[known] * len(qrels.products) + results.product[known]
    # Search only the keys of this batch's queries: they fit in the cache.
    low, high = (int(results.row[known[i]]) if len(known) else 0 for i in (0, -1))
    begin, end = np.searchsorted(qrels.row, [low, high + 1])
    keys = qrels.row[begin:end] * len(qrels.products) + qrels.product[begin:end]
    at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    is_relevant = keys[at] == wanted if len(keys) else np.zeros(0, dtype=np.bool_)
    return begin + at[is_relevant], known[is_relevant]


def run_qrels(
    matcher: Retriever,
    qrels: Qrels,
    ks: Sequence[int],
    *,
    head: Strings | None = None,
    batch: int = BATCH,
) -> Run:
    """Match all test queries at the largest k; `head` are the products not in the long tail."""
    rank = np.full(qrels.n_pairs, MISSING)
    sizes = np.zeros(len(qrels), dtype=np.int64)
    n_returned, n_tail = dict.fromkeys(ks, 0), dict.fromkeys(ks, 0)
    is_returned = {k: np.zeros(0, dtype=np.bool_) for k in ks}
    is_tail = np.zeros(0, dtype=np.bool_)
    products: Products | None = None
    n_catalogs = 0
    for results in match_qrels(matcher, qrels, max(ks), batch=batch):
        if products is not results.products:
            products = results.products
            n_catalogs += 1
            is_returned = {k: np.zeros(len(products), dtype=np.bool_) for k in ks}
            if head is not None:
                is_tail = head.index_of(products.ids) < 0
        pairs, entries = find_pairs(qrels, results)
        # A product that is returned twice counts where it is first.
        np.minimum.at(rank, pairs, results.rank[entries])
        sizes += np.bincount(results.row, minlength=len(qrels))
        for k in ks:
            labels = results.label[results.rank < k]
            is_returned[k][labels] = True
            n_returned[k] += len(labels)
            if head is not None:
                n_tail[k] += int(np.count_nonzero(is_tail[labels]))
    n_distinct = {k: int(np.count_nonzero(is_returned[k])) for k in ks}
    # A server's results bring their own products, which are not a catalog even in a single batch.
    is_catalog = n_catalogs == 1 and products is matcher.match([], 1).products
    catalog = products if is_catalog else None
    return Run(Judgments.of(qrels, rank), sizes, catalog, n_returned, n_distinct, n_tail)


def _flatten(matches: Matches, begin: int, index: NDArray[np.int64]) -> Results:
    found = matches.found
    return Results(
        row=begin + found.row_of_entry.astype(np.int64),
        rank=found.position_in_row,
        label=found.indices,
        product=index[found.indices],
        score=found.data,
        products=matches.products,
    )
