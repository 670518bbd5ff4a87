"""Calibration: what chance does a score of the re-ranker mean?"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.learn.labeled_candidates import LabeledCandidates
from matchset.matrices import Ids
from matchset.model.reranker import LEAST_CALIBRATED, SITUATIONS, Calibration, default_reranker

MONTH = 30  # days for which a chance holds, where the log has times
_BINS = 20  # of equal numbers of positives
_RANKED = 100  # candidates of each query, the best, on which scores are calibrated
_MOST_DOUBLINGS = 2.0
_LEAST_GROWING = 100  # positives in half of the days, to measure how chances grow
_LEAST_POSITIVES = 300  # of a situation that has lines of its own


def calibrate(
    data: LabeledCandidates, scores: NDArray[np.float64], rank: NDArray[np.int64]
) -> tuple[Calibration, ...]:
    """Fit lines from scores to log-odds in each situation, by isotonic regression.

    The best candidates of each query count. Where time decided what is held back, chances are those
    of a month. A situation with too few positives has the lines of all, moved.
    """
    is_measured = data.is_measured[data.row]
    if np.count_nonzero(data.is_positive & is_measured) < LEAST_CALIBRATED:
        return default_reranker("").calibrations
    is_ranked = is_measured & data.is_judged & (rank < _RANKED)
    situation = data.candidates.situations[data.row]
    common = _fit_lines(data, scores, is_ranked)
    return tuple(
        _fit_own(data, scores, is_ranked & (situation == i), common) for i in range(len(SITUATIONS))
    )


def _fit_lines(
    data: LabeledCandidates, scores: NDArray[np.float64], chosen: NDArray[np.bool_]
) -> Calibration:
    lines = fit_isotonic(scores[chosen], data.is_positive[chosen])
    if not data.is_by_time or not chosen.any():
        return lines
    growth = measure_growth(lines.read(scores[chosen]), data.row[chosen], data.halves[chosen])
    shift = np.float32(growth * _count_doublings(data.n_days))
    return replace(lines, log_odds=lines.log_odds + shift)


def _fit_own(
    data: LabeledCandidates,
    scores: NDArray[np.float64],
    chosen: NDArray[np.bool_],
    common: Calibration,
) -> Calibration:
    """Return the lines of one situation; of few positives, those of all with a shrunken shift."""
    n = int(np.count_nonzero(data.is_positive[chosen]))
    if n >= _LEAST_POSITIVES:
        return _fit_lines(data, scores, chosen)
    shift = _find_shift(common.read(scores[chosen]), n) if n else 0.0
    shrunken = np.float32(shift * n / (n + _LEAST_POSITIVES))
    return replace(common, log_odds=common.log_odds + shrunken)


def _count_doublings(n_days: int) -> float:
    """Return how often the days double to a month; more than twice would be guessing."""
    return max(-_MOST_DOUBLINGS, min(math.log2(MONTH / n_days), _MOST_DOUBLINGS))


def measure_growth(log_odds: NDArray[np.float64], row: Ids, halves: NDArray[np.uint8]) -> float:
    """By how much log-odds grow when the days double, seen where they are halved.

    A longer time shows more of what customers choose, so chances hold for a length of time.
    """
    shifts = []
    for bits in (3, 1, 2):  # all days, then each half of them
        is_right = (halves & bits) > 0
        if np.count_nonzero(is_right) < _LEAST_GROWING:
            return 0.0
        mine = (np.bincount(row[is_right], minlength=int(row[-1]) + 1) > 0)[row]
        shifts.append(_find_shift(log_odds[mine], int(np.count_nonzero(is_right))))
    growth = shifts[0] - (shifts[1] + shifts[2]) / 2
    return round(max(0.0, growth), 3)  # coarse: libraries differ in their last bits


def _find_shift(log_odds: NDArray[np.float64], n_right: int) -> float:
    """Return what must be added to log-odds so that as many are expected as are right."""
    low, high = -10.0, 10.0
    for _ in range(30):
        middle = (low + high) / 2
        expected = float((1 / (1 + np.exp(-log_odds - middle))).sum())
        low, high = (middle, high) if expected < n_right else (low, middle)
    return (low + high) / 2


def fit_isotonic(scores: NDArray[np.float64], is_positive: NDArray[np.bool_]) -> Calibration:
    """Mean score and log-odds of ascending blocks: pool adjacent violators."""
    order = np.argsort(scores, kind="stable")
    scores, is_positive = scores[order], is_positive[order]
    n_before = np.cumsum(is_positive)
    n_positive = int(n_before[-1]) if len(n_before) else 0
    if n_positive == 0:
        return default_reranker("").calibrations[0]
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
    return Calibration(np.array(knots, dtype=np.float32), log_odds.astype(np.float32))


def _chance(block: tuple[float, float, float]) -> float:
    return (block[1] + 0.5) / (block[2] + 1)
