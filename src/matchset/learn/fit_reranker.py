"""Learning to re-rank: which weights put the held-back positives first, and what do scores mean?"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.matrices import Csr, Floats, Ids, offsets_of, rows_of
from matchset.model.match_set_model import SOURCES, Candidates
from matchset.model.reranker import (
    COLD,
    DEFAULT_WEIGHTS,
    FEATURES,
    WARM,
    Reranker,
    default_reranker,
)

logger = logging.getLogger(__name__)

RIDGE = 1e-4  # on features of about unit deviation
LEAST_QUERIES = 200  # with a positive candidate
_BINS = 20  # of equal numbers of positives, to calibrate
_RANKED = 100  # candidates of each query, the best, on which scores are calibrated
_COMPARED = 1000  # queries on which choices of parts, and of a weight, are compared
_LEAST_SHOWING = 20  # queries by which the weight of `same_query` is chosen
MONTH = 30  # days for which a chance holds, where the log has times
_MOST_DOUBLINGS = 2.0
_LEAST_POSITIVES = 100  # in half of the days, to measure how chances grow
_TIED = 2e-4  # of recall
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
    halves: NDArray[
        np.uint8
    ]  # of the days in which each is positive, bits 1 and 2, (n_candidates,)
    n_positive: NDArray[np.int64]  # of each query, those that no source proposed too, (n_queries,)
    is_complete: NDArray[np.bool_]  # whether all positives of a query are known, (n_queries,)
    n_days: int = 0  # that were held back; none where the seed decided

    @property
    def is_by_time(self) -> bool:
        """Whether the most recent days were held back."""
        return self.n_days > 0

    @property
    def is_positive(self) -> NDArray[np.bool_]:
        """Whether each candidate is right, (n_candidates,)."""
        return self.halves > 0

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
            halves=self.halves[kept],
            n_positive=self.n_positive[queries],
            is_complete=self.is_complete[queries],
        )


def label_candidates(
    candidates: Candidates, wanted: Csr, is_complete: NDArray[np.bool_], *, n_days: int = 0
) -> LabeledCandidates:
    """Mark the positives; `wanted` is queries x labels, -1 for products that training lacks."""
    width = np.int64(
        max(1, int(candidates.labels.max(initial=0)), int(wanted.indices.max(initial=0))) + 1
    )
    is_known = wanted.indices >= 0
    keys = wanted.row_of_entry[is_known] * width + wanted.indices[is_known]
    order = np.argsort(keys, kind="stable")
    keys, bits = keys[order], wanted.data[is_known][order].astype(np.uint8)
    asked = rows_of(candidates.offsets) * width + candidates.labels
    at = np.minimum(np.searchsorted(keys, asked), max(0, len(keys) - 1))
    halves = np.zeros(len(asked), dtype=np.uint8)
    if len(keys):
        halves = np.where(keys[at] == asked, bits[at], halves)
    return LabeledCandidates(candidates, halves, np.diff(wanted.indptr), is_complete, n_days)


def fit_reranker(data: LabeledCandidates, parts: tuple[str, ...], *, threads: int) -> Reranker:
    """Weights by a softmax over each query's candidates, then scores by isotonic regression.

    Fewer than 200 queries with a positive candidate give the default weights.
    """
    n_queries, n_useful = len(data.n_positive), _count_useful(data)
    if n_useful < LEAST_QUERIES:
        reason = (
            f"{n_useful} of {n_queries} validation queries have a positive candidate; "
            f"weights need {LEAST_QUERIES}"
        )
        logger.warning("default weights: %s", reason)
        return default_reranker(reason)
    whole = _fit_to(data, parts, threads=threads)
    few = data.select(np.arange(n_queries) < _COMPARED)
    subsets = [_fit_to(few, parts, some, threads=threads) for some in list_subsets(parts)]
    worth = {_name(each.parts, parts): each.facts["recall"]["all"] for each in subsets}
    facts = {**whole.facts, "recall": {"all": _recall_as_judged(few, whole.weights), **worth}}
    return replace(whole, facts=facts, subsets=tuple(subsets))


def list_subsets(parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All parts but each, then each alone: none twice."""
    without = [tuple(name for name in parts if name != part) for part in parts]
    alone = [(part,) for part in parts]
    return list(dict.fromkeys(some for some in (*without, *alone) if some and some != parts))


def _name(some: tuple[str, ...], parts: tuple[str, ...]) -> str:
    if len(some) == 1:
        return f"{some[0]} alone"
    return f"without {' and '.join(name for name in parts if name not in some)}"


def _fit_to(
    data: LabeledCandidates,
    parts: tuple[str, ...],
    some: tuple[str, ...] | None = None,
    *,
    threads: int,
) -> Reranker:
    """A re-ranker of some parts: features and candidates of the others are gone.

    Recall is that of the queries that it was fitted to.
    """
    some = parts if some is None else some
    every = np.ones(len(data.n_positive), dtype=np.bool_)
    own = np.uint8(sum(SOURCES[name] for name in some))
    data = data.select(every, (data.candidates.sources & own) > 0)
    dropped = [name for part in parts if part not in some for name in PART_FEATURES[part]]
    weights = fit_weights(data, threads=threads, left_out=tuple(dropped))
    facts: dict[str, Any] = {
        "is_learned": True,
        "queries": len(data.n_positive),
        "queries_with_positive_candidate": _count_useful(data),
        "by_time": data.is_by_time,
        "recall": {"all": _recall_as_judged(data, weights)},
    }
    return Reranker(weights, *calibrate(data, weights), facts, some)


def fit_weights(data: LabeledCandidates, *, threads: int, left_out: tuple[str, ...] = ()) -> Floats:
    """Weights of cold and warm products, (2, n_features).

    What training knows of the very same query is never a wrong answer. Where only right ones are
    left, a softmax would put them above everything: so it learns from the other candidates alone,
    and `same_query` gets the smallest weight that finds nearly as much as any.
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
    """The smallest weight that finds nearly as much as any, for queries that training knows.

    Where time decided what is held back, known answers that nobody chose again take places of the
    ranking, as they will in answers. Else they are left out, since single events were held back,
    and only queries with an answer that is right again count. Few queries: the default weight.
    """
    row = rows_of(data.candidates.offsets)
    is_telling = data.is_known if data.is_by_time else data.is_known & data.is_positive
    shows = np.bincount(row[is_telling], minlength=len(data.n_positive)) > 0
    if np.count_nonzero(shows) < _LEAST_SHOWING:
        return DEFAULT_WEIGHTS["same_query"]
    judged = data.select(shows & (np.cumsum(shows) <= _COMPARED))
    recalls = []
    for weight in _SAME_QUERY_WEIGHTS:
        tried = weights.copy()
        tried[:, _SAME_QUERY] = weight
        recalls.append(sum(_recall_as_judged(judged, tried)) / 3)
    least = max(recalls) - _TIED
    return next(w for w, r in zip(_SAME_QUERY_WEIGHTS, recalls, strict=True) if r >= least)


def _count_useful(data: LabeledCandidates) -> int:
    """Queries with a positive candidate."""
    return len(np.unique(rows_of(data.candidates.offsets)[data.is_positive]))


def _fit(data: LabeledCandidates, dropped: set[int], *, threads: int) -> Floats:
    features = data.candidates.features.copy()
    features[:, sorted(dropped)] = 0
    is_warm = features[:, _POPULARITY] > 0
    # As if features were divided by their deviations. Powers of two, so that the last bits of a
    # deviation do not matter.
    deviation = np.array(
        [[_deviation(x) for x in features[is_warm == kind].T] for kind in (COLD, WARM)]
    )
    scale = [[_round_to_power(each) if each > 1e-6 else 1.0 for each in row] for row in deviation]
    ridge = RIDGE * np.square(scale)
    found = _native.fit_softmax(
        features.reshape(-1),
        data.candidates.offsets,
        data.is_positive.view(np.uint8),
        is_warm.view(np.uint8),
        ridge.reshape(-1),
        n_kinds=2,
        threads=threads,
    )
    weights: Floats = found.astype(np.float32).reshape(2, -1)
    return weights


def _deviation(values: Floats) -> float:
    return float(values.std(dtype=np.float64)) if len(values) else 0.0


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
    are held back count, since what was left to training would look wrong. Where time decided,
    chances are those of a month.
    """
    if not data.is_by_time:
        data = data.select(data.is_complete)
    scores = score_candidates(data.candidates.features, weights)
    is_ranked = _rank_of(data.candidates.offsets, scores) < _RANKED
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


def _recall_as_judged(data: LabeledCandidates, weights: Floats) -> list[float]:
    """Recall; without times, known answers of a query that are not positive again are left out."""
    if data.is_by_time:
        return recall_of(data, weights)
    every = np.ones(len(data.n_positive), dtype=np.bool_)
    return recall_of(data.select(every, data.is_positive | ~data.is_known), weights)


def recall_of(data: LabeledCandidates, weights: Floats) -> list[float]:
    """Mean Recall@10, 50 and 100."""
    scores = score_candidates(data.candidates.features, weights)
    rank, row = _rank_of(data.candidates.offsets, scores), rows_of(data.candidates.offsets)
    n = np.maximum(data.n_positive, 1)
    hits = [
        np.bincount(row[data.is_positive & (rank < k)], minlength=len(n)) / n for k in (10, 50, 100)
    ]
    return [round(float(each.mean()), 4) if len(each) else 0.0 for each in hits]
