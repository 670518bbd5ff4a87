"""What it adds: what does a matcher find that another does not?

The paper's point is not to replace lexical search but to add to its match set. So two matchers are
asked the same, and what each finds alone is counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchset.data.events import EventWeights
from matchset.data.log import Log
from matchset.data.positives import Positives
from matchset.evaluate.evaluation import SAMPLE
from matchset.evaluate.judgments import BATCH, Results, ask, find_pairs
from matchset.evaluate.metrics import Values
from matchset.evaluate.qrels import Questions, make_questions
from matchset.evaluate.significance import RESAMPLES, bootstrap, mean
from matchset.matchers.base import Retriever, check_k
from matchset.matchers.display import Grid, Headed, printable, with_margin


class Share(NamedTuple):
    """A mean over queries with its 95 % confidence interval, all from 0 to 1."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, repr=False)
class IncrementalRecall(Headed):
    """What two matchers find, together and alone, as means over queries."""

    names: tuple[str, str]
    k: int
    queries: int
    overlap: Share  # products that both give, among those that either gives
    recall_first: Share  # relevant products that the first gives, among all relevant
    recall_second: Share
    both: Share  # relevant products that both give, among all relevant
    only_first: Share
    only_second: Share
    union: Share  # recall of k products, taken from both in turn
    joined: Share  # recall of all that either gives: up to 2k products

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict per share: what, value, low, high."""
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
            (f"Recall@{k} of both in turn", self.union),
            (f"Recall@{2 * k} of both joined", self.joined),
            ("overlap of the match sets", self.overlap),
        ]

    def _grid(self) -> Grid:
        rows = [[what, with_margin(*share)] for what, share in self._shares()]
        title = f"IncrementalRecall({self.queries:,} queries; in %, with 95 % margin)"
        return Grid(title, ["", f"k = {self.k}"], rows, len(rows))


def incremental_recall(
    first: Retriever,
    second: Retriever,
    test: Log | Positives,
    *,
    k: int = 100,
    names: tuple[str, str] = ("first", "second"),
    events: EventWeights | None = None,
    min_count: float = 1.0,
    sample: int | None = SAMPLE,
    seed: int = 0,
    resamples: int = RESAMPLES,
    batch: int = BATCH,
) -> IncrementalRecall:
    """Ask both matchers for k products, and compare their match sets; options as of `evaluate`."""
    questions = make_questions(test, events=events, min_count=min_count, sample=sample, seed=seed)
    options = {"resamples": resamples, "seed": seed, "batch": batch}
    return add_up(first, second, questions, k=k, names=names, **options)


def add_up(
    first: Retriever,
    second: Retriever,
    questions: Questions,
    *,
    k: int = 100,
    names: tuple[str, str] = ("first", "second"),
    resamples: int = RESAMPLES,
    seed: int = 0,
    batch: int = BATCH,
) -> IncrementalRecall:
    """`incremental_recall`, of questions that were made before."""
    depth = check_k(k)
    ranks = np.stack([questions.unanswered()] * 3)  # of each pair with first, second, both in turn
    overlap = np.full(len(questions), np.nan)
    asked = [ask(matcher, questions, depth, batch=batch) for matcher in (first, second)]
    for one, other in zip(*asked, strict=True):
        turns, shared = take_turns(one, other, len(questions))
        for rank, results in zip(ranks, (one, other, turns), strict=True):
            places, found = find_pairs(questions, results)
            rank[places] = found
        overlap[~np.isnan(shared)] = shared[~np.isnan(shared)]
    values = _share_relevant(questions, ranks, depth)
    table = np.column_stack([overlap, *values])
    return IncrementalRecall(
        names, depth, len(questions), *_means(table, resamples=resamples, seed=seed)
    )


def _share_relevant(questions: Questions, ranks: NDArray[np.int64], k: int) -> list[Values]:
    """Shares of each query's relevant products, in the order of `IncrementalRecall`, (n_queries,)."""
    first, second, turns = ranks < k
    counted = questions.judge(ranks[0])
    total = counted.count()
    kinds = (first, second, first & second, first & ~second, second & ~first, turns, first | second)
    return [counted.count(pairs) / total for pairs in kinds]


def take_turns(first: Results, second: Results, n_queries: int) -> tuple[Results, Values]:
    """Walk down both lists in step, and give what is new; with the share that both have.

    At each rank the first list's product comes before the second's. The share is of each query,
    NaN where neither has a product for it, (n_queries,).
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
    begin = np.cumsum(n_either) - n_either
    results = Results(
        row=row[kept],
        rank=np.arange(len(kept)) - begin[row[kept]],
        label=label[kept].astype(np.int32),
        product=np.concatenate([first.product, second.product])[kept],
        products=first.products,
    )
    share = np.full(n_queries, np.nan)
    np.divide(n_both, n_either, out=share, where=n_either > 0)
    return results, share


def _join_labels(first: Results, second: Results) -> tuple[NDArray[np.int64], int]:
    """Labels that are the same for the same product, whosever it is; and how many there may be."""
    n_first, n_second = len(first.products), len(second.products)
    place = np.arange(n_second)
    if first.products is not second.products:
        place = first.products.ids.index_of(second.products.ids)
        place = np.where(place < 0, n_first + np.arange(n_second), place)
    return np.concatenate([first.label.astype(np.int64), place[second.label]]), n_first + n_second


def _means(table: Values, *, resamples: int, seed: int) -> list[Share]:
    """Mean and interval of each column, over the queries where it is known."""
    values = table[:, :, None]  # every column is a group of its own
    weights = np.ones((1, len(table)))
    low, high = bootstrap(values, weights, resamples=resamples, seed=seed)
    numbers = np.stack([mean(values, weights), low, high])[:, 0, :, 0]
    return [Share(*column) for column in numbers.T.tolist()]
