"""Calibration: do scores mean what they say, and which least score should be chosen?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchset.evaluate.judgments import BATCH, find_pairs, match_qrels
from matchset.evaluate.qrels import Qrels
from matchset.evaluate.significance import Values
from matchset.matchers.base import DEFAULT_K, Retriever

TENTHS = 10
LEAST_ANSWERS = 500  # of a tenth of the scale, for a share that means something
MIN_SCORES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)


class ReliabilityBin(NamedTuple):
    """The answers whose scores are in one tenth of the scale."""

    low: float  # where the tenth begins
    answers: int
    mean_score: float
    share: float  # of the answers that are relevant


class Cutoff(NamedTuple):
    """What is left of the answers at a least score, as means over queries."""

    min_score: float
    recall: float
    recall_by_traffic: float
    size: float  # products of a match set
    empty: float  # share of the queries without an answer


@dataclass(frozen=True, slots=True, eq=False)
class ScoredAnswers:
    """All answers to the test queries, with their scores."""

    qrels: Qrels
    row: NDArray[np.int64]  # the query of each answer, (n_answers,)
    score: Values  # (n_answers,)
    is_relevant: NDArray[np.bool_]  # (n_answers,)

    def reliability(self, least: int = LEAST_ANSWERS) -> tuple[ReliabilityBin, ...]:
        """Return the share of relevant answers and the mean score, by tenth from 0 to 1.

        Tenths with fewer than `least` answers are left out. An answer that nobody clicked counts as
        not relevant, though it may be: so scores are chances of a click or a purchase.
        """
        tenth = np.clip((self.score * TENTHS).astype(np.int64), 0, TENTHS - 1)
        bins = []
        for number in range(TENTHS):
            mine = tenth == number
            if (n := int(np.count_nonzero(mine))) >= max(least, 1):
                share = float(self.is_relevant[mine].mean())
                low = number / TENTHS
                bins.append(ReliabilityBin(low, n, float(self.score[mine].mean()), share))
        return tuple(bins)

    def cutoffs(self, min_scores: tuple[float, ...] = MIN_SCORES) -> tuple[Cutoff, ...]:
        """Return recall and size of the match set at each least score."""
        n, traffic = len(self.qrels), self.qrels.traffic
        n_relevant = np.bincount(self.qrels.row, minlength=n)
        found = []
        for least in min_scores:
            kept = self.score >= least
            hits = np.bincount(self.row[kept & self.is_relevant], minlength=n) / n_relevant
            sizes = np.bincount(self.row[kept], minlength=n)
            by_traffic = float(np.average(hits, weights=traffic))
            empty = float((sizes == 0).mean())
            found.append(Cutoff(least, float(hits.mean()), by_traffic, float(sizes.mean()), empty))
        return tuple(found)


def score_answers(
    matcher: Retriever, qrels: Qrels, *, k: int = DEFAULT_K, batch: int = BATCH
) -> ScoredAnswers:
    """Match all test queries, and keep the score of each answer."""
    rows, scores, marks = [], [], []
    for results in match_qrels(matcher, qrels, k, batch=batch):
        _, entries = find_pairs(qrels, results)
        is_relevant = np.zeros(len(results.row), dtype=np.bool_)
        is_relevant[entries] = True
        rows.append(results.row)
        scores.append(results.score.astype(np.float64))
        marks.append(is_relevant)
    return ScoredAnswers(qrels, np.concatenate(rows), np.concatenate(scores), np.concatenate(marks))
