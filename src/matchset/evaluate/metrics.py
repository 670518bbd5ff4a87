"""Metrics: how good is a ranking, given where the relevant products stand in it?

Every metric is a function of `Judged`, the rank of each relevant product, and gives one value per
query: NaN for a query without any relevant product, which no mean counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from matchset.matrices import offsets_of, positions_of

Values: TypeAlias = NDArray[np.float64]
MISSING = np.iinfo(np.int64).max  # the rank of a relevant product that is not in the answer


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The relevant products of each query, and where each stands in the query's answer."""

    row: NDArray[np.int64]  # query of each relevant pair, ascending, (n_pairs,)
    gain: Values  # how relevant each pair is, positive, (n_pairs,)
    rank: NDArray[np.int64]  # from 0, MISSING where the product is not given, (n_pairs,)
    n_queries: int

    def select(self, kept: NDArray[np.bool_]) -> Judged:
        """As if only some of the pairs were relevant; the queries keep their places."""
        return replace(self, row=self.row[kept], gain=self.gain[kept], rank=self.rank[kept])

    def count(self, pairs: NDArray[np.bool_] | None = None) -> Values:
        """Number of pairs, or of those that `pairs` marks, of each query, (n_queries,)."""
        rows = self.row if pairs is None else self.row[pairs]
        return np.bincount(rows, minlength=self.n_queries).astype(np.float64)


def recall(judged: Judged, k: int) -> Values:
    """Share of the relevant products that are among the first k, (n_queries,)."""
    return _divide(judged.count(judged.rank < k), judged.count())


def precision(judged: Judged, k: int) -> Values:
    """Share of the k first places that relevant products hold, (n_queries,)."""
    return _divide(judged.count(judged.rank < k), np.where(judged.count() > 0, float(k), 0.0))


def hit_rate(judged: Judged, k: int) -> Values:
    """Whether any relevant product is among the first k, (n_queries,)."""
    return _divide(judged.count(judged.rank < k) > 0, np.sign(judged.count()))


def reciprocal_rank(judged: Judged, k: int) -> Values:
    """One over the place (from 1) of the first relevant product, 0 beyond k, (n_queries,)."""
    best = np.full(judged.n_queries, MISSING)
    np.minimum.at(best, judged.row, judged.rank)
    found = np.where(best < k, 1.0 / (1.0 + best), 0.0)
    return _divide(found, np.sign(judged.count()))


def ndcg(judged: Judged, k: int) -> Values:
    """Discounted gain of the first k over the best that there could be, (n_queries,).

    A relevant product at place r (from 1) gives its gain over log2(1 + r).
    """
    order = np.lexsort([-judged.gain, judged.row])  # each query's largest gains first
    place = positions_of(offsets_of(judged.count()))
    return _divide(
        _discount(judged, judged.gain, judged.rank, k),
        _discount(judged, judged.gain[order], place, k),
    )


Metric: TypeAlias = Callable[[Judged, int], Values]
METRICS: Mapping[str, Metric] = {
    "recall": recall,
    "precision": precision,
    "ndcg": ndcg,
    "mrr": reciprocal_rank,
    "hit_rate": hit_rate,
}


def ceiling(judged: Judged, is_warm: NDArray[np.bool_], k: int) -> Values:
    """The best recall of who knows warm products only; `is_warm` is per pair, (n_queries,)."""
    return _divide(np.minimum(judged.count(is_warm), k), judged.count())


def _discount(judged: Judged, gain: Values, rank: NDArray[np.int64], k: int) -> Values:
    near = rank < k
    discounted = gain[near] / np.log2(rank[near] + 2.0)
    sums = np.zeros(judged.n_queries)
    sums += np.bincount(judged.row[near], discounted, minlength=judged.n_queries)
    return sums


def _divide(values: NDArray[np.generic], by: Values) -> Values:
    """The quotients, NaN where nothing is relevant."""
    result = np.full(len(by), np.nan)
    np.divide(values, by, out=result, where=by > 0)
    return result
