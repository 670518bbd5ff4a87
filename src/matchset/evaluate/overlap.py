"""Overlap: what does a matcher find that another does not?

The paper's point is not to replace lexical search but to add to its match set. So two matchers get
the same queries, and what each of them finds alone is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchset.data.events import EventWeights
from matchset.data.log import Log
from matchset.data.positives import Positives
from matchset.data.split import DEFAULT_SAMPLE
from matchset.evaluate.judgments import BATCH, MISSING, Judgments, Results, find_pairs, match_qrels
from matchset.evaluate.qrels import Qrels, make_qrels
from matchset.evaluate.significance import RESAMPLES, Values, bootstrap, mean
from matchset.matchers.base import Retriever, check_k
from matchset.matchers.display import Grid, Headed, printable, with_margin
from matchset.matchers.recorded_run import Engine, as_retriever
from matchset.matrices import offsets_of, positions_of


class Share(NamedTuple):
    """A mean over queries with its 95 % confidence interval, each from 0 to 1."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, repr=False)
class IncrementalRecall(Headed):
    """What two matchers find, together and each alone, as means over queries."""

    names: tuple[str, str]
    k: int
    queries: int
    overlap: Share  # products that both return, among those that either returns
    recall_first: Share  # relevant products that the first returns, among all relevant
    recall_second: Share
    both: Share  # relevant products that both return, among all relevant
    only_first: Share
    only_second: Share
    interleaved: Share  # recall of k products, taken alternately from both
    union: Share  # recall of all that either returns: up to 2k products

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one dict per share, with keys what, value, low, high."""
        return [{"what": what, **share._asdict()} for what, share in self._shares()]

    def _shares(self) -> list[tuple[str, Share]]:
        first, second = map(printable, self.names)
        k = self.k
        return [
            (f"Recall@{k} of {first}", self.recall_first),
            (f"Recall@{k} of {second}", self.recall_second),
            ("found by both", self.both),
            (f"found by {first} alone", self.only_first),
            (f"found by {second} alone", self.only_second),
            (f"Recall@{k} of both interleaved", self.interleaved),
            (f"Recall@{2 * k} of the union", self.union),
            ("overlap of the match sets", self.overlap),
        ]

    def _grid(self) -> Grid:
        rows = [[what, with_margin(*share)] for what, share in self._shares()]
        title = f"IncrementalRecall({self.queries:,} queries; in %, with 95 % margin)"
        return Grid(title, ["", f"k = {self.k}"], rows, len(rows))


def incremental_recall(
    first: Retriever | Engine,
    second: Retriever | Engine,
    test: Log | Positives | Qrels,
    *,
    k: int = 100,
    names: tuple[str, str] = ("first", "second"),
    events: EventWeights | None = None,
    min_count: float = 1.0,
    sample: int | None = DEFAULT_SAMPLE,
    seed: int = 0,
    resamples: int = RESAMPLES,
    batch: int = BATCH,
) -> IncrementalRecall:
    """Compare the match sets of two matchers at k products; options as in `evaluate`."""
    qrels = make_qrels(test, events=events, min_count=min_count, sample=sample, seed=seed)
    depth = check_k(k)
    ranks = np.full((3, qrels.n_pairs), MISSING)  # of each pair in first, second, interleaved
    overlap = np.full(len(qrels), np.nan)
    matchers = as_retriever(first), as_retriever(second)
    runs = [match_qrels(matcher, qrels, depth, batch=batch) for matcher in matchers]
    for one, other in zip(*runs, strict=True):
        interleaved, shared = interleave(one, other, len(qrels))
        for rank, results in zip(ranks, (one, other, interleaved), strict=True):
            pairs, found = find_pairs(qrels, results)
            np.minimum.at(rank, pairs, results.rank[found])
        overlap[~np.isnan(shared)] = shared[~np.isnan(shared)]
    table = np.column_stack([overlap, *_share_relevant(qrels, ranks, depth)])
    return IncrementalRecall(
        names, depth, len(qrels), *_means(table, resamples=resamples, seed=seed)
    )


def _share_relevant(qrels: Qrels, ranks: NDArray[np.int64], k: int) -> list[Values]:
    """Return shares of each query's relevant products, as in `IncrementalRecall`, (n_queries,)."""
    first, second, mixed = ranks < k
    judgments = Judgments.of(qrels, ranks[0])
    total = judgments.count()
    kinds = (first, second, first & second, first & ~second, second & ~first, mixed, first | second)
    return [judgments.count(pairs) / total for pairs in kinds]


def interleave(first: Results, second: Results, n_queries: int) -> tuple[Results, Values]:
    """Interleave both rankings without duplicates; also return the share of products in both.

    At each rank the first ranking's product comes before the second's. The share is per query,
    NaN if neither ranking has products for it, (n_queries,).
    """
    label, n_labels = _join_labels(first, second)
    row = np.concatenate([first.row, second.row])
    turn = np.concatenate([2 * first.rank, 2 * second.rank + 1])
    order = np.lexsort([turn, label, row])
    same = np.zeros(len(order), dtype=np.bool_)  # as the entry before it
    key = (row * n_labels + label)[order]
    same[1:] = key[1:] == key[:-1]
    n_both = np.bincount(row[order[same]], minlength=n_queries)
    kept = order[~same]
    kept = kept[np.lexsort([turn[kept], row[kept]])]
    n_either = np.bincount(row[kept], minlength=n_queries)
    results = Results(
        row=row[kept],
        rank=positions_of(offsets_of(n_either)),
        label=label[kept].astype(np.int32),
        product=np.concatenate([first.product, second.product])[kept],
        score=np.concatenate([first.score, second.score])[kept],
        products=first.products,
    )
    share = np.full(n_queries, np.nan)
    np.divide(n_both, n_either, out=share, where=n_either > 0)
    return results, share


def _join_labels(first: Results, second: Results) -> tuple[NDArray[np.int64], int]:
    """Return labels of both, equal for equal products, and an upper bound of their number."""
    n_first, n_second = len(first.products), len(second.products)
    label = np.arange(n_second)
    if first.products is not second.products:
        label = first.products.ids.index_of(second.products.ids)
        label = np.where(label < 0, n_first + np.arange(n_second), label)
    return np.concatenate([first.label.astype(np.int64), label[second.label]]), n_first + n_second


def _means(table: Values, *, resamples: int, seed: int) -> list[Share]:
    """Return the mean and interval of each column, over the queries that have a value."""
    values = table[:, :, None]  # each column is its own group
    weights = np.ones((1, len(table)))
    low, high = bootstrap(values, weights, resamples=resamples, seed=seed)
    numbers = np.stack([mean(values, weights), low, high])[:, 0, :, 0]
    return [Share(*column) for column in numbers.T.tolist()]
