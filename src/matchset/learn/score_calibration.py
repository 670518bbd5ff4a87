"""Calibration: what chance does a score of the re-ranker mean?"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.learn.labeled_candidates import LabeledCandidates, rank_of, score_candidates
from matchset.matrices import Floats, Ids, rows_of
from matchset.model.reranker import default_reranker

MONTH = 30  # days for which a chance holds, where the log has times
_BINS = 20  # of equal numbers of positives
_RANKED = 100  # candidates of each query, the best, on which scores are calibrated
_MOST_DOUBLINGS = 2.0
_LEAST_POSITIVES = 100  # in half of the days, to measure how chances grow


def calibrate(data: LabeledCandidates, weights: Floats) -> tuple[Floats, Floats]:
    """Knots of scores and their log-odds, by isotonic regression over bins of equal positives.

    The best candidates of each query count. Known answers of a query that are not positive again
    count as wrong where time decided what is held back; else only queries all of whose positives
    are held back count, since what was left to training would look wrong. Where time decided,
    chances are those of a month.
    """
    if not data.is_by_time:
        data = data.select(data.is_complete)
    scores = score_candidates(data.candidates.features, weights)
    is_ranked = rank_of(data.candidates.offsets, scores) < _RANKED
    knots, log_odds = fit_isotonic(scores[is_ranked], data.is_positive[is_ranked])
    if data.is_by_time:
        row = rows_of(data.candidates.offsets)[is_ranked]
        odds = _read_line(scores[is_ranked], knots, log_odds)
        growth = measure_growth(odds, row, data.halves[is_ranked])
        log_odds += np.float32(growth * _count_doublings(data.n_days))
    return knots, log_odds


def _count_doublings(n_days: int) -> float:
    """How often the days double to a month; more than twice would be guessing."""
    return max(-_MOST_DOUBLINGS, min(math.log2(MONTH / n_days), _MOST_DOUBLINGS))


def measure_growth(log_odds: NDArray[np.float64], row: Ids, halves: NDArray[np.uint8]) -> float:
    """By how much log-odds grow when the days double, seen where they are halved.

    A longer time shows more of what customers choose, so chances hold for a length of time.
    """
    shifts = []
    for bits in (3, 1, 2):  # all days, then each half of them
        is_right = (halves & bits) > 0
        if np.count_nonzero(is_right) < _LEAST_POSITIVES:
            return 0.0
        mine = (np.bincount(row[is_right], minlength=int(row[-1]) + 1) > 0)[row]
        shifts.append(_find_shift(log_odds[mine], int(np.count_nonzero(is_right))))
    growth = shifts[0] - (shifts[1] + shifts[2]) / 2
    return round(max(0.0, growth), 3)  # coarse: libraries differ in their last bits


def _find_shift(log_odds: NDArray[np.float64], n_right: int) -> float:
    """What must be added to log-odds so that as many are expected as are right."""
    low, high = -10.0, 10.0
    for _ in range(30):
        middle = (low + high) / 2
        expected = float((1 / (1 + np.exp(-log_odds - middle))).sum())
        low, high = (middle, high) if expected < n_right else (low, middle)
    return (low + high) / 2


def _read_line(scores: NDArray[np.float64], knots: Floats, log_odds: Floats) -> NDArray[np.float64]:
    """Log-odds of scores, as search reads them."""
    if len(knots) == 1:
        return np.asarray(float(log_odds[0]) + scores - float(knots[0]))
    x, y = knots.astype(np.float64), log_odds.astype(np.float64)
    i = np.clip(np.searchsorted(x, scores, side="right"), 1, len(x) - 1)
    rise = (y[i] - y[i - 1]) / (x[i] - x[i - 1])
    return np.asarray(y[i - 1] + (scores - x[i - 1]) * rise)


def fit_isotonic(
    scores: NDArray[np.float64], is_positive: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """Mean score and log-odds of ascending blocks: pool adjacent violators."""
    order = np.argsort(scores, kind="stable")
    scores, is_positive = scores[order], is_positive[order]
    n_before = np.cumsum(is_positive)
    n_positive = int(n_before[-1]) if len(n_before) else 0
    if n_positive == 0:
        default = default_reranker("")
        return default.knots, default.log_odds
    edges = np.searchsorted(n_before, n_positive * np.arange(1, _BINS) / _BINS)
    blocks: list[tuple[float, float, float]] = []  # sum of scores, positives, candidates
    for part in np.split(np.arange(len(scores)), np.unique(edges)):
        if len(part) == 0:
            continue
        block = float(scores[part].sum()), float(is_positive[part].sum()), float(len(part))
        while blocks and _chance(blocks[-1]) >= _chance(block):
            last = blocks.pop()
            block = last[0] + block[0], last[1] + block[1], last[2] + block[2]
        blocks.append(block)
    knots = [total / n for total, _, n in blocks]
    chances = np.array([_chance(block) for block in blocks])
    log_odds = _native.log_fixed(chances / (1 - chances))
    return np.array(knots, dtype=np.float32), log_odds.astype(np.float32)


def _chance(block: tuple[float, float, float]) -> float:
    return (block[1] + 0.5) / (block[2] + 1)
