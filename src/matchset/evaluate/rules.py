"""Rules: what makes a product relevant, where a model is tested on a log?"""

from __future__ import annotations

from matchset.config import TrainConfig
from matchset.data.events import EventRule, EventWeights, kind_of, relevance_rule
from matchset.data.log import Log
from matchset.evaluate.segments import who_knows_training
from matchset.matchers.protocol import Matcher
from matchset.matchers.tree_matcher import TreeMatcher


def choose_rule(
    matcher: Matcher,
    log: Log,
    *,
    events: EventWeights | None = None,
    min_count: float | None = None,
) -> EventRule:
    """What is given; else purchases, or else clicks; of a log with neither, as in training.

    Ratings have no usual threshold: one that taught the model is the best guess.
    """
    config = _trained_with(matcher)
    has_usual = any(kind_of(name) in ("purchase", "cart", "click") for name in log.events)
    if not has_usual and config is not None and set(config.events or ()) <= set(log.events):
        events = config.events if events is None else events
        min_count = config.min_count if min_count is None else min_count
    least = 1.0 if min_count is None else min_count
    return relevance_rule(log.events, weights=events, min_count=least)


def _trained_with(matcher: Matcher) -> TrainConfig | None:
    """Of a tree, or of a fusion's; None where it is not known."""
    learned = who_knows_training(matcher)
    return learned.config if isinstance(learned, TreeMatcher) else None
