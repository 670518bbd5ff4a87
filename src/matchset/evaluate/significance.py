"""Significance: how precise is a mean over queries, and can a difference be due to chance?"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values: TypeAlias = NDArray[np.float64]

RESAMPLES = 1_000  # of the bootstrap
FLIPS = 10_000  # of the randomization test
CONFIDENCE = 0.95
ALPHA = 0.05  # a smaller corrected p-value is significant
_CELLS = 1 << 22  # in a block of resamples


def mean(values: Values, weights: Values) -> Values:
    """Return weighted means over the queries that have a value, NaN if none has.

    `values` is (n_queries, n_groups, n_columns): a query has NaN in all columns of a group or in
    none. `weights` is (n_weights, n_queries); the means are (n_weights, n_groups, n_columns).
    """
    sums, totals = _total(np.ones((1, len(values))), *_weigh(values, weights))
    return _divide(sums[0], totals[0])


def bootstrap(
    values: Values,
    weights: Values,
    *,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> tuple[Values, Values]:
    """Return the interval of each mean (see `mean`), by a percentile bootstrap over queries.

    All means use the same resamples, which saves time.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1; got {confidence}")
    if resamples < 1:
        raise ValueError(f"resamples must be positive; got {resamples}")
    n = len(values)
    sums, totals = _weigh(values, weights)
    rng = np.random.default_rng(seed)
    means = np.full((resamples, *sums.shape[1:]), np.nan)
    block = max(1, _CELLS // max(n, 1))
    for begin in range(0, resamples if n else 0, block):
        drawn = rng.integers(0, n, (min(block, resamples - begin), n), dtype=np.uint32)
        counts = np.stack([np.bincount(row, minlength=n) for row in drawn]).astype(np.float64)
        means[begin : begin + block] = _divide(*_total(counts, sums, totals))
    tail = (1 - confidence) / 2
    bounds = np.full((2, *means.shape[1:]), np.nan)
    is_known = ~np.isnan(means).all(axis=0)
    bounds[:, is_known] = np.nanquantile(means[:, is_known], [tail, 1 - tail], axis=0)
    return bounds[0], bounds[1]


def randomization_test(differences: Values, *, flips: int = FLIPS, seed: int = 0) -> Values:
    """Return two-sided p-values of each column's mean, by flipping signs of queries at random.

    `differences` is (n_queries, n_columns): the metric of one matcher minus that of another. If the
    two are equally good, both signs are equally likely.
    """
    if flips < 1:
        raise ValueError(f"flips must be positive; got {flips}")
    differs = np.flatnonzero(np.any(differences != 0, axis=1))
    kept = differences[differs]
    n = len(differs)
    seen = np.abs(kept.sum(axis=0))
    rng = np.random.default_rng(seed)
    n_extreme = np.zeros(kept.shape[1], dtype=np.int64)
    block = max(1, _CELLS // max(n, 1))
    for begin in range(0, flips, block):
        size = min(block, flips - begin)
        bits = np.unpackbits(rng.integers(0, 256, (size, n // 8 + 1), np.uint8), axis=1, count=n)
        # A sum with some signs flipped is the whole sum minus twice the flipped part.
        flipped = kept.sum(axis=0) - 2.0 * (bits.astype(np.float64) @ kept)
        n_extreme += np.count_nonzero(np.abs(flipped) >= seen - 1e-9 * n, axis=0)
    return np.asarray((1.0 + n_extreme) / (1.0 + flips))


def holm(p_values: ArrayLike) -> Values:
    """Return p-values corrected for multiple tests by Holm's method."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    scaled = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(scaled, 1.0)
    return corrected


def _weigh(values: Values, weights: Values) -> tuple[Values, Values]:
    """Return weighted values, (n, n_weights, n_groups, n_columns), and weights, (..., 1)."""
    is_known = ~np.isnan(values[:, None, :, :1])
    totals = is_known * np.ascontiguousarray(weights.T)[:, :, None, None]
    return np.nan_to_num(values)[:, None] * totals, totals


def _total(counts: Values, *each: Values) -> list[Values]:
    """Return sums over the queries, each repeated `counts` times, (n_resamples, n_queries)."""
    return [
        (counts @ part.reshape(len(part), math.prod(part.shape[1:]))).reshape(-1, *part.shape[1:])
        for part in each
    ]


def _divide(sums: Values, totals: Values) -> Values:
    result = np.full(sums.shape, np.nan)
    np.divide(sums, totals, out=result, where=np.broadcast_to(totals > 0, sums.shape))
    return result
