"""Segments: for which queries and products is a matcher good?

A segment is a part of the relevant pairs. Its queries are those that have a pair in it, and every
metric is computed as if its pairs alone were relevant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.data.events import EventRule, EventWeights, kind_of, relevance_rule
from matchset.data.log import Log
from matchset.data.positives import Positives
from matchset.evaluate.metrics import Values
from matchset.evaluate.qrels import Questions, training_pairs
from matchset.matchers.base import Matcher, Retriever
from matchset.strings import Strings

ALL = "all"
SEGMENTS = (
    "seen query",
    "unseen query",
    "head query",
    "tail query",
    "warm product",
    "cold product",
)
LIKE_TRAINING = 0.95  # of the pairs, that training knew; of a later month it knew about 0.7
HEAD_SHARE = 0.5  # of the traffic, which the head makes up

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """What was there to learn from, as far as the questions go; None where nobody knows."""

    is_seen: Bools | None  # of each query, (n_queries,)
    is_warm: Bools | None  # of each relevant pair's product, (n_pairs,)
    head: Strings | None  # ids of the popular products; all others are the long tail


def recall_training(
    questions: Questions, train: Log | Positives | None, matcher: Retriever | None = None
) -> Training:
    """What `train` tells, or else what the matcher remembers."""
    if train is not None:
        pairs = training_pairs(train)
        is_warm = pairs.products.index_of(questions.products) >= 0
        popularity = np.asarray(pairs.pairs.sum(axis=0), dtype=np.float64).ravel()
        return Training(
            pairs.queries.index_of(questions.queries) >= 0,
            is_warm[questions.product],
            pairs.products.take(np.flatnonzero(is_head(popularity))),
        )
    learned = matcher.training if isinstance(matcher, Matcher) else None
    if learned is not None:
        is_warm = learned.is_warm(questions.products)
        return Training(learned.is_seen(questions.queries), is_warm[questions.product], None)
    return Training(None, None, None)


def is_like_training(questions: Questions, training: Training) -> bool:
    """Whether the questions look like those of training: nearly all is known, pair by pair."""
    if training.is_seen is None or training.is_warm is None:
        return False
    is_known = training.is_seen[questions.row] & training.is_warm
    return float(is_known.mean()) >= LIKE_TRAINING


def is_head(traffic: Values) -> Bools:
    """Which are the most frequent that together make half of the traffic, (n,).

    Equally frequent ones go together, into the head; where all are equal there is no head.
    """
    if len(traffic) == 0:
        return np.zeros(0, dtype=np.bool_)
    falling = np.sort(traffic)[::-1]
    # The one that crosses the line still belongs to the head.
    last = int(np.searchsorted(np.cumsum(falling), HEAD_SHARE * falling.sum() * (1 - 1e-12)))
    least = float(falling[last])
    if least == falling[-1]:
        return np.zeros(len(traffic), dtype=np.bool_)
    return np.asarray(traffic >= least)


def make_segments(
    questions: Questions, training: Training, names: Sequence[str] = SEGMENTS
) -> dict[str, Bools]:
    """Pairs of each segment that is asked for and can be told; `ALL` comes first, (n_pairs,)."""
    for name in names:
        if name not in SEGMENTS:
            raise ValueError(f"segments must be of {', '.join(SEGMENTS)}; got {name!r}")
    head = is_head(questions.traffic)[questions.row]
    known: dict[str, Bools] = {"head query": head, "tail query": ~head}
    if training.is_seen is not None:
        seen = training.is_seen[questions.row]
        known |= {"seen query": seen, "unseen query": ~seen}
    if training.is_warm is not None:
        known |= {"warm product": training.is_warm, "cold product": ~training.is_warm}
    chosen: Mapping[str, Bools] = {name: known[name] for name in names if name in known}
    return {ALL: np.ones(questions.n_pairs, dtype=np.bool_), **chosen}


def choose_rule(
    matcher: Retriever,
    log: Log,
    *,
    events: EventWeights | None = None,
    min_count: float | None = None,
) -> EventRule:
    """What is given; else purchases, or else clicks; of a log with neither, as in training.

    Ratings have no usual threshold: one that taught the model is the best guess.
    """
    learned = matcher.training if isinstance(matcher, Matcher) else None
    config = None if learned is None else learned.config
    has_usual = any(kind_of(name) in ("purchase", "cart", "click") for name in log.events)
    if not has_usual and config is not None and set(config.events or ()) <= set(log.events):
        events = config.events if events is None else events
        min_count = config.min_count if min_count is None else min_count
    least = 1.0 if min_count is None else min_count
    return relevance_rule(log.events, weights=events, min_count=least)
