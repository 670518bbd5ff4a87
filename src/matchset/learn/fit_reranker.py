"""Learning to re-rank: which weights put the held-back positives first, and what do scores mean?"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.matrices import Csr, Floats, offsets_of, rows_of
from matchset.model.match_set_model import SOURCES, Candidates
from matchset.model.reranker import (
    DEFAULT_WEIGHTS,
    FEATURES,
    Reranker,
    default_reranker,
)

logger = logging.getLogger(__name__)

RIDGE = 1e-4  # on features of about unit deviation
LEAST_QUERIES = 200  # with a positive candidate
_BINS = 20  # of equal numbers of positives, to calibrate
_RANKED = 100  # candidates of each query, the best, on which scores are calibrated
_ABLATED = 1000  # queries by which the worth of each part is measured
_LEAST_SHOWING = 20  # queries by which the weight of `same_query` is chosen
_SAME_QUERY_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0)
_SAME_QUERY = FEATURES.index("same_query")
_POPULARITY = FEATURES.index("popularity")
PART_FEATURES = {
    "tree": ("tree_score", "tree_log", "tree_missed"),
    "towers": ("cosine",),
    "lexical": ("bm25_share", "bm25", "bm25_any"),
    "neighbors": ("vote_share", "vote_log", "same_query"),
}


@dataclass(frozen=True, slots=True, eq=False)
class LabeledCandidates:
    """Candidates of validation queries, and which of them are right."""

    candidates: Candidates
    is_positive: NDArray[np.bool_]  # (n_candidates,)
    n_positive: NDArray[np.int64]  # of each query, those that no source proposed too, (n_queries,)
    is_complete: NDArray[np.bool_]  # whether all positives of a query are known, (n_queries,)
    is_by_time: bool

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Whether training knows the candidate as an answer to the very same query."""
        return self.candidates.features[:, _SAME_QUERY] > 0

    def select(
        self, queries: NDArray[np.bool_], candidates: NDArray[np.bool_] | None = None
    ) -> LabeledCandidates:
        """Some of the queries, with some of their candidates."""
        c = self.candidates
        row = rows_of(c.offsets)
        kept = queries[row] if candidates is None else queries[row] & candidates
        offsets = offsets_of(np.bincount(row[kept], minlength=len(queries))[queries])
        chosen = Candidates(offsets, c.labels[kept], c.features[kept], c.sources[kept])
        return replace(
            self,
            candidates=chosen,
            is_positive=self.is_positive[kept],
            n_positive=self.n_positive[queries],
            is_complete=self.is_complete[queries],
        )


def label_candidates(
    candidates: Candidates, wanted: Csr, is_complete: NDArray[np.bool_], *, is_by_time: bool
) -> LabeledCandidates:
    """Mark the positives; `wanted` is queries x labels, -1 for products that training lacks."""
    width = np.int64(
        max(1, int(candidates.labels.max(initial=0)), int(wanted.indices.max(initial=0))) + 1
    )
    is_known = wanted.indices >= 0
    keys = wanted.row_of_entry[is_known] * width + wanted.indices[is_known]
    found = np.isin(rows_of(candidates.offsets) * width + candidates.labels, keys)
    return LabeledCandidates(
        candidates, found, np.diff(wanted.indptr), is_complete, is_by_time=is_by_time
    )


def fit_reranker(data: LabeledCandidates, parts: tuple[str, ...], *, threads: int) -> Reranker:
    """Weights by a softmax over each query's candidates, then scores by isotonic regression.

    Fewer than 200 queries with a positive candidate give the default weights.
    """
    n_queries = len(data.candidates.offsets) - 1
    n_useful = int(np.count_nonzero(_count_positives(data)))
    if n_useful < LEAST_QUERIES:
        reason = (
            f"{n_useful} of {n_queries} validation queries have a positive candidate; "
            f"weights need {LEAST_QUERIES}"
        )
        logger.warning("default weights: %s", reason)
        return default_reranker(reason)
    weights = fit_weights(data, threads=threads)
    knots, log_odds = calibrate(data, weights)
    facts: dict[str, Any] = {
        "is_learned": True,
        "queries": n_queries,
        "queries_with_positive_candidate": n_useful,
        "by_time": data.is_by_time,
        "recall": measure_parts(data, weights, parts, threads=threads),
    }
    return Reranker(weights, knots, log_odds, facts)


def fit_weights(data: LabeledCandidates, *, threads: int, left_out: tuple[str, ...] = ()) -> Floats:
    """Weights of cold and warm products, (2, n_features).

    What training knows of the very same query is never a wrong answer. Where only right ones are
    left, a softmax would put them above everything: so it learns from the other candidates alone,
    and `same_query` gets the smallest weight that finds as much as any.
    """
    is_new = ~data.is_known
    row = rows_of(data.candidates.offsets)
    has_new = np.bincount(row[data.is_positive & is_new], minlength=len(data.n_positive)) > 0
    dropped = {FEATURES.index(name) for name in left_out}
    weights = _fit(data.select(has_new, is_new), dropped | {_SAME_QUERY}, threads=threads)
    if _SAME_QUERY not in dropped:
        weights[:, _SAME_QUERY] = _choose_same_query(data, weights)
    return weights


def _choose_same_query(data: LabeledCandidates, weights: Floats) -> float:
    """The smallest weight within a thousandth of the best recall of queries that show it.

    Those are queries with an answer that is right again; with few of them it is the default.
    """
    row = rows_of(data.candidates.offsets)
    is_again = data.is_positive & data.is_known
    shows = np.bincount(row[is_again], minlength=len(data.n_positive)) > 0
    if np.count_nonzero(shows) < _LEAST_SHOWING:
        return DEFAULT_WEIGHTS["same_query"]
    judged = data.select(shows, data.is_positive | ~data.is_known)
    recalls = []
    for weight in _SAME_QUERY_WEIGHTS:
        tried = weights.copy()
        tried[:, _SAME_QUERY] = weight
        recalls.append(sum(recall_of(judged, tried)) / 3)
    good = [
        w for w, r in zip(_SAME_QUERY_WEIGHTS, recalls, strict=True) if r >= max(recalls) - 1e-3
    ]
    return good[0]


def _count_positives(data: LabeledCandidates) -> NDArray[np.int64]:
    row = rows_of(data.candidates.offsets)
    return np.bincount(row[data.is_positive], minlength=len(data.candidates.offsets) - 1)


def _fit(data: LabeledCandidates, dropped: set[int], *, threads: int) -> Floats:
    features, n = data.candidates.features, len(FEATURES)
    is_warm = features[:, _POPULARITY] > 0
    wide = np.zeros((len(features), 2 * n), dtype=np.float32)
    wide[~is_warm, :n] = features[~is_warm]
    wide[is_warm, n:] = features[is_warm]
    for column in dropped:
        wide[:, [column, n + column]] = 0
    # Powers of two: dividing by them is exact, so the last bits of a deviation do not matter.
    deviation = np.array([float(column.std(dtype=np.float64)) for column in wide.T])
    scale = np.array([_round_to_power(each) if each > 1e-6 else 1.0 for each in deviation])
    wide /= scale.astype(np.float32)
    found = _native.fit_softmax(
        wide.reshape(-1),
        2 * n,
        data.candidates.offsets,
        data.is_positive.view(np.uint8),
        ridge=RIDGE,
        threads=threads,
    )
    weights: Floats = (found / scale).astype(np.float32).reshape(2, n)
    return weights


def _round_to_power(value: float) -> float:
    """The nearest power of two."""
    share, exponent = math.frexp(value)  # from a half to one
    return math.ldexp(1.0, exponent - (share < math.sqrt(0.5)))


def score_candidates(features: Floats, weights: Floats) -> NDArray[np.float64]:
    """Linear score of each candidate."""
    is_warm = (features[:, _POPULARITY] > 0).astype(np.int64)
    by_kind = weights.astype(np.float64)
    scores = np.zeros(len(features), dtype=np.float64)
    for column in range(features.shape[1]):  # one after another: a sum in one order everywhere
        scores += features[:, column] * by_kind[is_warm, column]
    return scores


def _rank_of(offsets: NDArray[np.int64], scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rank of each candidate within its query, from 0."""
    row = rows_of(offsets)
    order = np.lexsort((-scores, row))
    rank = np.empty(len(scores), dtype=np.int64)
    rank[order] = np.arange(len(scores)) - offsets[row]
    return rank


def calibrate(data: LabeledCandidates, weights: Floats) -> tuple[Floats, Floats]:
    """Knots of scores and their log-odds, by isotonic regression over bins of equal positives.

    The best candidates of each query count. Known answers of a query that are not positive again
    count as wrong where time decided what is held back; else only queries all of whose positives
    are held back count, since what was left to training would look wrong.
    """
    if not data.is_by_time:
        data = data.select(data.is_complete)
    scores = score_candidates(data.candidates.features, weights)
    is_ranked = _rank_of(data.candidates.offsets, scores) < _RANKED
    return fit_isotonic(scores[is_ranked], data.is_positive[is_ranked])


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


def measure_parts(
    data: LabeledCandidates, weights: Floats, parts: tuple[str, ...], *, threads: int
) -> dict[str, list[float]]:
    """Recall@10, 50 and 100 on validation queries: of all parts, and without each of them.

    Without a part, its features and the candidates that it alone proposed are gone, and the weights
    are fitted again. The queries are those that the weights were fitted on.
    """
    is_chosen = np.arange(len(data.n_positive)) < _ABLATED
    chosen = data.select(is_chosen, data.is_positive | ~data.is_known)
    found = {"all": recall_of(chosen, weights)}
    for part in parts if len(parts) > 1 else ():
        others = np.uint8(sum(SOURCES[name] for name in parts if name != part))
        left = chosen.select(
            np.ones(len(chosen.n_positive), dtype=np.bool_),
            (chosen.candidates.sources & others) > 0,
        )
        dropped = PART_FEATURES[part]
        found[f"without {part}"] = recall_of(
            left, fit_weights(left, threads=threads, left_out=dropped)
        )
    return found


def recall_of(data: LabeledCandidates, weights: Floats) -> list[float]:
    """Mean Recall@10, 50 and 100."""
    scores = score_candidates(data.candidates.features, weights)
    rank, row = _rank_of(data.candidates.offsets, scores), rows_of(data.candidates.offsets)
    n = np.maximum(data.n_positive, 1)
    hits = [
        np.bincount(row[data.is_positive & (rank < k)], minlength=len(n)) / n for k in (10, 50, 100)
    ]
    return [round(float(each.mean()), 4) if len(each) else 0.0 for each in hits]
