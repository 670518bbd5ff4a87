"""Learning to re-rank: which weights put the held-back positives first?

What training knows of a query decides how far each part is to be trusted: queries that it knows,
new ones, and those with a word that no past query had. Each situation has weights of its own, which
are held together by a ridge on what they differ, since some are rare.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.learn.held_kinds import KINDS, PAIRS, PRODUCTS, RECENT
from matchset.learn.labeled_candidates import (
    LabeledCandidates,
    find_recall,
    mean_recall,
    recall_of,
)
from matchset.learn.score_calibration import calibrate
from matchset.matrices import Floats
from matchset.model.match_set_model import SOURCES
from matchset.model.reranker import (
    COLD,
    FEATURES,
    NEW_QUERY,
    NEW_WORD,
    PRIOR,
    PRIOR_DEVIATION,
    SITUATIONS,
    Reranker,
    default_reranker,
    prior_mean,
)

logger = logging.getLogger(__name__)

# Ridges of what weights differ by situation, on features of about unit deviation; of the constant
# of cold products alone; of weights that stay. All stand beside a sum over queries.
DEVIATION_RIDGE, RIDGE, FIXED = 10.0, 0.3, 1e9
_COMPARED = 1000  # queries on which choices of parts, and of a weight, are compared
_LEAST_SHOWING = 20  # queries by which the weight of `same_query` is chosen
_TIED = 2e-4  # of recall
_SCALED = 100_000  # candidates that tell the deviations of features
_SAME_QUERY_WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0)
_CONSTANT, _SAME_QUERY, _WORDS_DECIDE = (
    FEATURES.index(name) for name in ("constant", "same_query", "words_decide")
)
PART_FEATURES = {
    "tree": ("tree_score", "tree_log", "tree_missed"),
    "towers": ("cosine", "cosine_rank"),
    "lexical": (
        "bm25_share", "bm25", "bm25_any", "word_share", "all_words", "rarest_word", "new_words",
        "new_words_not", "words_decide"
    ),
    "neighbors": ("vote_share", "vote_log", "same_query"),
}  # fmt: skip


def fit_reranker(
    data: LabeledCandidates, parts: tuple[str, ...], *, new_share: float, threads: int
) -> Reranker:
    """Fit weights by a softmax over each query's candidates, then calibrate scores.

    `new_share` is that of products without a past query among the answers: as the most recent days
    tell, or as assumed. The fewer queries there are, the nearer weights stay to the prior.
    """
    n_queries = len(data.n_positive)
    if _count_useful(data) == 0:
        reason = f"none of {n_queries} validation queries has a positive candidate"
        nothing = default_reranker(reason, parts)
        logger.warning("default weights: %s; %s", reason, nothing.warning)
        return nothing

    whole = _fit_to(data, parts, None, new_share, threads)
    same_query = float(whole.weights[0, 0, _SAME_QUERY])
    few = data.select(np.arange(n_queries) % -(-n_queries // _COMPARED) == 0)
    # All parts too, as more queries would make them look worse than the others.
    like_them, *subsets = (
        _fit_to(few, some, same_query, new_share, threads) for some in (parts, *list_subsets(parts))
    )
    worth = {_name(each.parts, parts): each.facts["recall"]["all"] for each in subsets}
    facts = {**whole.facts, "recall": {**like_them.facts["recall"], **worth}}
    if whole.warning:
        logger.warning("%s", whole.warning)
    # Of a few answers, fewer parts learn what is not so.
    return replace(whole, facts=facts, subsets=tuple(subsets) if whole.is_calibrated else ())


def list_subsets(parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return all parts but each, then each alone: none twice."""
    without = [tuple(name for name in parts if name != part) for part in parts]
    alone = [(part,) for part in parts]
    return list(dict.fromkeys(some for some in (*without, *alone) if some and some != parts))


def _name(some: tuple[str, ...], parts: tuple[str, ...]) -> str:
    if len(some) == 1:
        return f"{some[0]} alone"
    return f"without {' and '.join(name for name in parts if name not in some)}"


def _judge(data: LabeledCandidates, recall: NDArray[np.float64]) -> dict[str, dict[str, Any]]:
    """Count the queries of each kind, and tell the recall of each."""
    return {
        name: {"queries": int(np.count_nonzero(own)), "recall": mean_recall(recall[:, own])}
        for name, own in ((name, data.kinds == kind) for kind, name in enumerate(KINDS))
        if own.any()
    }


def _fit_to(
    data: LabeledCandidates,
    parts: tuple[str, ...],
    same_query: float | None,
    new_share: float,
    threads: int,
) -> Reranker:
    """Fit a re-ranker to some parts, and measure the recall of the queries it was fitted to."""
    dropped = [
        FEATURES.index(name)
        for part, names in PART_FEATURES.items()
        for name in names
        if part not in parts
    ]
    data = _drop_parts(data, parts, dropped) if dropped else data
    weights = fit_weights(data, parts, new_share=new_share, threads=threads)
    weights[..., _SAME_QUERY] = (
        choose_same_query(data, weights) if same_query is None else same_query
    )
    weights[..., dropped] = 0
    scores = data.lift(data.score(weights))
    rank = data.rank(scores)
    recall = find_recall(data, rank)
    facts: dict[str, Any] = {
        "is_learned": True,
        "queries": len(data.n_positive),
        "queries_with_positive_candidate": _count_useful(data),
        "positives": int(np.count_nonzero(data.is_positive & data.is_measured[data.row])),
        "by_time": data.is_by_time,
        "days": data.n_days,
        "new_share": new_share,
        "recall": {"all": mean_recall(recall[:, data.is_measured])},
        "kinds": _judge(data, recall),
    }
    return Reranker(weights, calibrate(data, scores, rank), facts, parts)


def _drop_parts(
    data: LabeledCandidates, parts: tuple[str, ...], dropped: list[int]
) -> LabeledCandidates:
    """Drop what other parts proposed and know: search with these alone does not see it."""
    own = np.uint8(sum(SOURCES[name] for name in parts))
    data = data.keep((data.candidates.sources & own) > 0)
    data.candidates.features[:, dropped] = 0
    situations = data.candidates.situations
    if "neighbors" not in parts:  # which tells what training knows
        situations = np.zeros_like(situations)
    if "lexical" not in parts:  # which tells what titles know
        situations = np.where(situations == NEW_WORD, NEW_QUERY, situations).astype(np.uint8)
    return replace(data, candidates=replace(data.candidates, situations=situations))


def fit_weights(
    data: LabeledCandidates, parts: tuple[str, ...], *, new_share: float, threads: int
) -> Floats:
    """Fit weights of cold and warm products in each situation, (n_situations, 2, n_features).

    What training knows of the very same query is never a wrong answer. Where only right ones are
    left, a softmax would put them above everything: so it learns from the other candidates alone,
    and the weight of `same_query` is chosen by itself.
    """
    has_new = np.bincount(data.row[data.is_positive & ~data.is_known], minlength=len(data.kinds))
    shares = weigh_kinds(data, has_new > 0, new_share)
    weights = _fit(data, shares, prior_mean(parts), threads)
    is_recent = data.kinds == RECENT
    if is_recent.any():  # what was added tells how to order new products, not how many there are
        weights[:, COLD, _CONSTANT] += _shift_cold(data, weights, shares * is_recent, threads)
    return weights


def weigh_kinds(
    data: LabeledCandidates, teaches: NDArray[np.bool_], new_share: float
) -> NDArray[np.float64]:
    """Share the loss among queries: where chance decided, those of new products are as many.

    That is among the queries that training knows, of those that teach something.
    """
    shares = teaches.astype(np.float64)
    if data.is_by_time:
        return shares
    is_new, is_old = (teaches & (data.kinds == kind) for kind in (PRODUCTS, PAIRS))
    n = np.count_nonzero(is_new | is_old)
    if is_new.any() and is_old.any():
        shares[is_new] = new_share * n / np.count_nonzero(is_new)
        shares[is_old] = (1 - new_share) * n / np.count_nonzero(is_old)
    return shares


def choose_same_query(data: LabeledCandidates, weights: Floats) -> float:
    """Choose the smallest weight that finds nearly as much as any, where training knows queries.

    Where time decided what is held back, known answers that nobody chose again take places of the
    ranking, as they will in answers. Else they are left out, since single events were held back,
    and only queries with an answer that is right again count. Few queries: the default weight.
    """
    is_telling = data.is_known if data.is_by_time else data.is_known & data.is_positive
    shows = np.bincount(data.row[is_telling], minlength=len(data.n_positive)) > 0
    shows &= data.kinds != PRODUCTS
    if np.count_nonzero(shows) < _LEAST_SHOWING:
        return PRIOR["same_query"][0]
    judged = data.select(shows & (np.cumsum(shows) <= _COMPARED))
    recalls = []
    for weight in _SAME_QUERY_WEIGHTS:
        tried = weights.copy()
        tried[..., _SAME_QUERY] = weight
        recalls.append(sum(recall_of(judged, tried)) / 3)
    least = max(recalls) - _TIED
    return next(w for w, r in zip(_SAME_QUERY_WEIGHTS, recalls, strict=True) if r >= least)


def _count_useful(data: LabeledCandidates) -> int:
    """Count the queries with a positive candidate."""
    return len(np.unique(data.row[data.is_positive]))


def _fit(
    data: LabeledCandidates, shares: NDArray[np.float64], prior: NDArray[np.float64], threads: int
) -> Floats:
    """Return the weights of least loss near the prior."""
    features, groups = data.candidates.features, data.groups
    unused = [_SAME_QUERY, _WORDS_DECIDE]
    center = np.tile(prior, (len(SITUATIONS), 1, 1))
    center[..., unused] = 0
    # As if features were divided by their deviations, which some of the candidates tell. Powers of
    # two, so that the last bits of a deviation do not matter.
    some = np.flatnonzero(~data.is_known)
    some = some[:: 1 + len(some) // _SCALED]
    by_kind = (features[some][groups[some] % 2 == kind] for kind in (0, 1))
    scale = np.array([[_scale(values) for values in each.T] for each in by_kind])
    is_unused = np.zeros(center.shape, dtype=np.bool_)
    is_unused[..., unused] = True
    precision = _couple(np.square(scale))
    precision[np.diag_indices_from(precision)] += FIXED * is_unused.reshape(-1)
    weights = _fit_softmax(data, features, groups, shares, center, precision, threads)
    weights[..., unused] = 0
    return weights


def _shift_cold(
    data: LabeledCandidates, weights: Floats, shares: NDArray[np.float64], threads: int
) -> Floats:
    """Return what cold products need beside their scores, in each situation."""
    situations, is_warm = np.divmod(data.groups, 2)
    features = np.stack([data.score(weights), is_warm == COLD], axis=1).astype(np.float32)
    center = np.tile([1.0, 0.0], (len(SITUATIONS), 1))
    precision = np.diag(np.tile([FIXED, RIDGE], len(SITUATIONS)))
    fitted = _fit_softmax(data, features, situations, shares, center, precision, threads)
    return np.asarray(fitted[:, 1])


def _fit_softmax(
    data: LabeledCandidates,
    features: Floats,
    kinds: NDArray[np.uint8],
    shares: NDArray[np.float64],
    center: NDArray[np.float64],
    precision: NDArray[np.float64],
    threads: int,
) -> Floats:
    """Fit weights of each kind of candidate that the very same query did not lead to."""
    n_kinds = center.size // features.shape[1]
    fitted = _native.fit_softmax(
        features.reshape(-1),
        data.candidates.offsets,
        data.is_positive.view(np.uint8),
        np.where(data.is_known, n_kinds, kinds).astype(np.uint8),  # beyond the last: left out
        shares,
        center.reshape(-1),
        precision.reshape(-1),
        n_kinds=n_kinds,
        threads=threads,
    )
    return np.asarray(fitted).astype(np.float32).reshape(center.shape)


def _couple(squares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the precision of weights that are a common one plus what each situation adds.

    The common one has the prior of all logs, and is integrated out. What is added differs from one
    situation to another no more than from one log to another.
    """
    n, common = len(SITUATIONS), 1 / np.square(PRIOR_DEVIATION.reshape(-1))
    own = np.maximum(DEVIATION_RIDGE * squares.reshape(-1), common)
    shared = own / (common + n * own)
    between = np.eye(n)[:, :, None] - shared  # (n, n, n_weights)
    blocks = [[np.diag(own * between[i, j]) for j in range(n)] for i in range(n)]
    return np.asarray(np.block(blocks), dtype=np.float64)


def _scale(values: Floats) -> float:
    """Return the power of two that is nearest to the deviation; 1 where there is none."""
    deviation = float(values.std(dtype=np.float64)) if len(values) else 0.0
    if deviation <= 1e-6:
        return 1.0
    share, exponent = math.frexp(deviation)  # from a half to one
    return math.ldexp(1.0, exponent - (share < math.sqrt(0.5)))
