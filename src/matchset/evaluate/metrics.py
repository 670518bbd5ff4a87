"""Metrics: how good is a ranking, given the ranks of the relevant products?

Every metric is a function of `Judgments` and gives one value per query. A query without relevant
products has NaN, and is left out of the means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from matchset.evaluate.judgments import MISSING, Judgments
from matchset.evaluate.significance import Values
from matchset.matrices import offsets_of, positions_of


def recall(judgments: Judgments, k: int) -> Values:
    """Return the share of the relevant products that are among the first k, (n_queries,)."""
    return _divide(judgments.count(judgments.rank < k), judgments.count())


def precision(judgments: Judgments, k: int) -> Values:
    """Return the share of the first k positions that hold relevant products, (n_queries,)."""
    return _divide(
        judgments.count(judgments.rank < k), np.where(judgments.count() > 0, float(k), 0.0)
    )


def hit_rate(judgments: Judgments, k: int) -> Values:
    """Return whether any relevant product is among the first k, (n_queries,)."""
    return _divide(judgments.count(judgments.rank < k) > 0, np.sign(judgments.count()))


def reciprocal_rank(judgments: Judgments, k: int) -> Values:
    """Return 1 / the position (from 1) of the first relevant product, 0 beyond k, (n_queries,)."""
    best = np.full(judgments.n_queries, MISSING)
    np.minimum.at(best, judgments.row, judgments.rank)
    found = np.where(best < k, 1.0 / (1.0 + best), 0.0)
    return _divide(found, np.sign(judgments.count()))


def ndcg(judgments: Judgments, k: int) -> Values:
    """Return the discounted gain of the first k over that of an ideal ranking, (n_queries,).

    A relevant product at position r (from 1) contributes its gain over log2(1 + r).
    """
    order = np.lexsort([-judgments.gain, judgments.row])  # each query's largest gains first
    ideal = positions_of(offsets_of(judgments.count()))  # ranks of the ideal ranking
    return _divide(
        _discount(judgments, judgments.gain, judgments.rank, k),
        _discount(judgments, judgments.gain[order], ideal, k),
    )


Metric: TypeAlias = Callable[[Judgments, int], Values]
METRICS: Mapping[str, Metric] = {
    "recall": recall,
    "precision": precision,
    "ndcg": ndcg,
    "mrr": reciprocal_rank,
    "hit_rate": hit_rate,
}
# As tables show them; the last two are not means over queries, see `evaluation`.
NAMES: Mapping[str, str] = {
    "recall": "Recall",
    "precision": "Precision",
    "ndcg": "nDCG",
    "mrr": "MRR",
    "hit_rate": "Hit rate",
    "coverage": "Coverage",
    "long_tail": "Long tail",
}


def seen_limit(judgments: Judgments, is_warm: NDArray[np.bool_], k: int) -> Values:
    """Return the best recall with warm products only; `is_warm` is per pair, (n_queries,)."""
    return _divide(np.minimum(judgments.count(is_warm), k), judgments.count())


def _discount(judgments: Judgments, gain: Values, rank: NDArray[np.int64], k: int) -> Values:
    near = rank < k
    discounted = gain[near] / np.log2(rank[near] + 2.0)
    sums = np.zeros(judgments.n_queries)
    sums += np.bincount(judgments.row[near], discounted, minlength=judgments.n_queries)
    return sums


def _divide(values: NDArray[np.generic], by: Values) -> Values:
    """Return the quotients, NaN for queries without relevant products."""
    result = np.full(len(by), np.nan)
    np.divide(values, by, out=result, where=by > 0)
    return result
