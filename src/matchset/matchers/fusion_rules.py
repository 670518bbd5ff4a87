"""Fusion rules: how do several rankings of the same query become one?

Pure functions over labels; `fuse_matches` gives product ids labels first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from matchset.matrices import Csr, Ids, offsets_of, positions_of

Method: TypeAlias = Literal["rrf", "weighted", "append"]
DEFAULT_CONSTANT = 60.0  # of the paper on reciprocal rank fusion (SIGIR 2009)
# This share of a normalized score comes from the rank: products that tie in a ranking keep their
# order, and the last of a ranking is worth more than a product that is not in it.
_BY_RANK = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionRule:
    """How several rankings are combined into one.

    - "rrf": a product's score is the sum of `weight / (constant + rank)`, with ranks from 1.
    - "weighted": the sum of `weight * score`, where scores are normalized per query and ranking:
      the best is 1 and the last 0.
    - "append": the first ranking keeps its order, and the others take turns to add new products
      after it. A product scores 1 / its place.

    A ranking with weight 0 is ignored.
    """

    method: Method = "rrf"
    weights: tuple[float, ...] | None = None  # of each ranking; None: all 1
    constant: float = DEFAULT_CONSTANT

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise ValueError(f"method must be one of {get_args(Method)}; got {self.method!r}")
        if not (self.constant > 0 and math.isfinite(self.constant)):
            raise ValueError(f"constant must be positive and finite; got {self.constant}")
        if self.weights is None:
            return
        if self.method == "append":
            raise ValueError("weights are for rrf and weighted; got method 'append'")
        if not all(weight >= 0 and math.isfinite(weight) for weight in self.weights):
            raise ValueError(f"weights must be zero or positive, and finite; got {self.weights}")
        if not any(self.weights):
            raise ValueError(f"at least one weight must be positive; got {self.weights}")

    def weigh(self, n_rankings: int) -> tuple[float, ...]:
        """Return the weight of each ranking; a ValueError unless there is one per ranking."""
        if self.weights is None:
            return (1.0,) * n_rankings
        if len(self.weights) != n_rankings:
            raise ValueError(f"weights must be {n_rankings}, one per matcher; got {self.weights}")
        return self.weights


def fuse(rankings: Sequence[Csr], k: int, rule: FusionRule, *, depth: int) -> tuple[Csr, Ids]:
    """Return the k best of each query, and their ranks in each ranking, 0 where it lacks them.

    `rankings` share their labels and have a row per query, with at most `depth` products each, best
    first.
    """
    weights, n_queries = rule.weigh(len(rankings)), len(rankings[0])
    row, label, index = _number(rankings)
    ranks = np.zeros((len(label), len(rankings)), dtype=np.int32)
    total: NDArray[np.float64] = np.zeros(len(label))
    begin = 0
    for column, (ranking, weight) in enumerate(zip(rankings, weights, strict=True)):
        at = index[begin : begin + len(ranking.indices)]
        begin += len(at)
        rank = ranking.position_in_row + 1
        # From the back, as the last assignment counts: a product that is in a ranking twice keeps
        # its first position.
        ranks[at[::-1], column] = rank[::-1]
        if rule.method != "append":
            strength = np.zeros(len(label))
            strength[at[::-1]] = _score(ranking, rank, rule, depth)[::-1]
            total += weight * strength
    if rule.method == "append":
        total = 1.0 / _append(ranks, np.diff(rankings[0].indptr)[row])
    scores = total.astype(np.float32)  # before sorting: equal float32 scores go by label
    kept = np.flatnonzero(scores > 0)  # not what only a ranking of weight 0 has
    order = kept[np.lexsort((-scores[kept], row[kept]))]
    sizes = np.bincount(row[order], minlength=n_queries)
    best = order[positions_of(offsets_of(sizes)) < k]
    offsets = offsets_of(np.minimum(sizes, k))
    return Csr(offsets, label[best], scores[best], rankings[0].n_cols), ranks[best]


def _number(rankings: Sequence[Csr]) -> tuple[NDArray[np.int64], Ids, NDArray[np.int64]]:
    """Return query and label of each distinct product, ascending, and each entry's index there."""
    width = np.int64(max(1, rankings[0].n_cols))
    keys = np.concatenate([each.row_of_entry * width + each.indices for each in rankings])
    distinct, index = np.unique(keys, return_inverse=True)
    row, label = np.divmod(distinct, width)
    return row, label.astype(np.int32), index


def _score(
    ranking: Csr, rank: NDArray[np.int64], rule: FusionRule, depth: int
) -> NDArray[np.float64]:
    """Return what a ranking of weight 1 adds to each of its products."""
    if rule.method == "rrf":
        return np.asarray(1.0 / (rule.constant + rank), np.float64)
    sizes = np.diff(ranking.indptr)
    has_any, scores = sizes > 0, ranking.data.astype(np.float64)
    best = np.repeat(scores[ranking.indptr[:-1][has_any]], sizes[has_any])
    last = np.repeat(scores[ranking.indptr[1:][has_any] - 1], sizes[has_any])
    share = np.ones(len(scores))  # where all scores are equal, all are the best
    np.divide(scores - last, best - last, out=share, where=best > last)
    return (1 - _BY_RANK) * share + _BY_RANK * (1.0 - (rank - 1) / depth)


def _append(ranks: Ids, n_first: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the place of each product: first those of the first ranking, then others in turn."""
    first, others = ranks[:, 0], ranks[:, 1:].astype(np.float64)
    n_others = others.shape[1]
    turns = np.where(others > 0, (others - 1) * n_others + np.arange(1, n_others + 1), np.inf)
    places = n_first + turns.min(axis=1, initial=np.inf)
    return np.asarray(np.where(first > 0, first, places), np.float64)
