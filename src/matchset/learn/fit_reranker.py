"""Learning to re-rank: which weights put the held-back positives first?"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import Any

import numpy as np

from matchset import _native
from matchset.learn.labeled_candidates import LabeledCandidates, recall_of
from matchset.learn.score_calibration import calibrate
from matchset.matrices import Floats, rows_of
from matchset.model.match_set_model import SOURCES
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
_COMPARED = 1000  # queries on which choices of parts, and of a weight, are compared
_LEAST_SHOWING = 20  # queries by which the weight of `same_query` is chosen
_TIED = 2e-4  # of recall
_SAME_QUERY_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0)
_SAME_QUERY = FEATURES.index("same_query")
_POPULARITY = FEATURES.index("popularity")
PART_FEATURES = {
    "tree": ("tree_score", "tree_log", "tree_missed"),
    "towers": ("cosine", "cosine_rank"),
    "lexical": ("bm25_share", "bm25", "bm25_any"),
    "neighbors": ("vote_share", "vote_log", "same_query"),
}


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
    # Fitted to as few queries as the others: more would look worse beside them.
    like_them = _fit_to(few, parts, threads=threads).facts["recall"]["all"]
    facts = {**whole.facts, "recall": {"all": like_them, **worth}}
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
    return Reranker(weights, *calibrate(data.shown(), weights), facts, some)


def fit_weights(data: LabeledCandidates, *, threads: int, left_out: tuple[str, ...] = ()) -> Floats:
    """Weights of cold and warm products, (2, n_features).

    What training knows of the very same query is never a wrong answer. Where only right ones are
    left, a softmax would put them above everything: so it learns from the other candidates alone,
    and `same_query` gets the smallest weight that finds nearly as much as any.
    """
    shown = data.shown()
    is_new = ~shown.is_known
    row = rows_of(shown.candidates.offsets)
    has_new = np.bincount(row[shown.is_positive & is_new], minlength=len(shown.n_positive)) > 0
    dropped = {FEATURES.index(name) for name in left_out}
    weights = _fit(shown.select(has_new, is_new), dropped | {_SAME_QUERY}, threads=threads)
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


def _recall_as_judged(data: LabeledCandidates, weights: Floats) -> list[float]:
    """Recall; without times, known answers of a query that are not positive again are left out."""
    if data.is_by_time:
        return recall_of(data, weights)
    every = np.ones(len(data.n_positive), dtype=np.bool_)
    return recall_of(data.select(every, data.is_positive | ~data.is_known), weights)
