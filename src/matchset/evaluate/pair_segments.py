"""Pair segments: for which queries and products is a matcher good, and what counts as relevant?

A segment is a subset of the relevant pairs. Its queries are those with a pair in it, and every
metric is computed as if only its pairs were relevant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.config import DEFAULT_MIN_QUERY_COUNT
from matchset.data.events import EventRule, EventWeights, kind_of, relevance_rule
from matchset.data.log import Log
from matchset.data.positives import Positives
from matchset.evaluate.qrels import Qrels, training_pairs
from matchset.evaluate.significance import Values
from matchset.matchers.base import Matcher, Retriever
from matchset.strings import Strings

ALL = "all"
SEGMENTS = (
    "seen query",
    "unseen query",
    "head query",
    "tail query",
    "rare query",
    "warm product",
    "cold product",
)
LIKE_TRAINING = 0.95  # share of pairs known from training; in a later month it is about 0.7
HEAD_SHARE = 0.5  # share of the traffic that makes up the head

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class SeenInTraining:
    """What of the qrels was in the training data; None where that is unknown."""

    is_seen: Bools | None  # of each query, (n_queries,)
    is_warm: Bools | None  # of each relevant pair's product, (n_pairs,)
    head: Strings | None  # ids of the popular products; the others are the long tail


def find_seen_in_training(
    qrels: Qrels, train: Log | Positives | None, matcher: Retriever | None = None
) -> SeenInTraining:
    """Look up what was seen in `train` if given, else in what the matcher remembers."""
    if train is not None:
        pairs = training_pairs(train)
        is_warm = pairs.products.index_of(qrels.products) >= 0
        popularity = np.asarray(pairs.pairs.sum(axis=0), dtype=np.float64).ravel()
        return SeenInTraining(
            pairs.queries.index_of(qrels.queries) >= 0,
            is_warm[qrels.product],
            pairs.products.take(np.flatnonzero(is_head(popularity))),
        )
    learned = matcher.training if isinstance(matcher, Matcher) else None
    if learned is not None:
        is_warm = learned.is_warm(qrels.products)
        return SeenInTraining(learned.is_seen(qrels.queries), is_warm[qrels.product], None)
    return SeenInTraining(None, None, None)


def is_like_training(qrels: Qrels, training: SeenInTraining) -> bool:
    """Return whether a test looks like the training log: nearly all of its pairs are known."""
    if training.is_seen is None or training.is_warm is None:
        return False
    is_known = training.is_seen[qrels.row] & training.is_warm
    return float(is_known.mean()) >= LIKE_TRAINING


def is_head(traffic: Values) -> Bools:
    """Return which are the most frequent, together half of the traffic, (n,).

    Ties at the boundary all belong to the head; if all are equally frequent there is no head.
    """
    if len(traffic) == 0:
        return np.zeros(0, dtype=np.bool_)
    falling = np.sort(traffic)[::-1]
    # The one that crosses the boundary still belongs to the head.
    last = int(np.searchsorted(np.cumsum(falling), HEAD_SHARE * falling.sum() * (1 - 1e-12)))
    least = float(falling[last])
    if least == falling[-1]:
        return np.zeros(len(traffic), dtype=np.bool_)
    return np.asarray(traffic >= least)


def make_segments(
    qrels: Qrels, training: SeenInTraining, names: Sequence[str] = SEGMENTS
) -> dict[str, Bools]:
    """Return the pairs of each segment in `names` that can be computed, after `ALL`, (n_pairs,)."""
    for name in names:
        if name not in SEGMENTS:
            raise ValueError(f"segments must be among {', '.join(SEGMENTS)}; got {name!r}")
    head = is_head(qrels.traffic)[qrels.row]
    rare = qrels.traffic[qrels.row] < DEFAULT_MIN_QUERY_COUNT
    known: dict[str, Bools] = {"head query": head, "tail query": ~head, "rare query": rare}
    if training.is_seen is not None:
        seen = training.is_seen[qrels.row]
        known |= {"seen query": seen, "unseen query": ~seen}
    if training.is_warm is not None:
        known |= {"warm product": training.is_warm, "cold product": ~training.is_warm}
    chosen: Mapping[str, Bools] = {name: known[name] for name in names if name in known}
    return {ALL: np.ones(qrels.n_pairs, dtype=np.bool_), **chosen}


def choose_rule(
    matcher: Retriever,
    log: Log,
    *,
    events: EventWeights | None = None,
    min_count: float | None = None,
) -> EventRule:
    """Return which events make a product relevant: what is given, else purchases, else clicks.

    A log with neither, such as one of ratings, is tested as the model was trained: ratings have no
    default threshold, so the model's own is the best guess.
    """
    learned = matcher.training if isinstance(matcher, Matcher) else None
    config = None if learned is None else learned.config
    has_default = any(kind_of(name) in ("purchase", "cart", "click") for name in log.events)
    if not has_default and config is not None and set(config.events or ()) <= set(log.events):
        events = config.events if events is None else events
        min_count = config.min_count if min_count is None else min_count
    least = 1.0 if min_count is None else min_count
    return relevance_rule(log.events, weights=events, min_count=least)
