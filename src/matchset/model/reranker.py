"""Linear re-ranker: how much does each feature of a candidate count, and what does a score mean?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from matchset import _native
from matchset.matrices import Floats
from matchset.storage.sections import Section, read_object

FEATURES: tuple[str, ...] = tuple(_native.feature_names())
COLD, WARM = 0, 1  # rows of the weights: products without and with a positive query in training

# Where too little is held back to learn from: parts that agree outweigh one that stands alone, and
# what the very same query led to comes first.
DEFAULT_WEIGHTS = {
    "tree_score": 3.0,
    "tree_log": 0.1,
    "tree_missed": 0.5,
    "cosine": 10.0,
    "bm25_share": 4.0,
    "vote_share": 4.0,
    "vote_log": 0.1,
    "same_query": 3.0,
}
DEFAULT_LOG_ODDS = -15.0  # of a linear score of zero


@dataclass(frozen=True, slots=True, eq=False)
class Reranker:
    """Weights of the linear score, and the straight lines from it to log-odds."""

    weights: Floats  # of cold and of warm products, (2, n_features)
    knots: Floats  # linear scores, ascending, (n_knots,)
    log_odds: Floats  # of being a positive, (n_knots,)
    facts: Mapping[str, Any] = field(default_factory=dict)  # how it was learned, plain values
    parts: tuple[str, ...] = ()  # to which it was fitted; none: default weights, for any parts
    subsets: tuple[Reranker, ...] = ()  # fitted to fewer of the parts: all but one, or one alone

    def __post_init__(self) -> None:
        if self.weights.shape != (2, len(FEATURES)):
            raise ValueError(f"weights must be 2 x {len(FEATURES)}; got {self.weights.shape}")
        if self.knots.ndim != 1 or len(self.knots) == 0 or self.knots.shape != self.log_odds.shape:
            found = f"{self.knots.shape} and {self.log_odds.shape}"
            raise ValueError(f"knots and log_odds must be lists of one length; got {found}")
        for name in ("weights", "knots", "log_odds"):
            values = getattr(self, name)
            if values.dtype != np.float32 or not np.isfinite(values).all():
                raise ValueError(f"{name} must be finite and float32; got {values.dtype}")

    @property
    def arrays(self) -> tuple[Floats, Floats, Floats]:
        """What kernels take."""
        return np.ascontiguousarray(self.weights).reshape(-1), self.knots, self.log_odds

    @property
    def is_learned(self) -> bool:
        """Whether the weights come from validation queries, or are the defaults."""
        return bool(self.facts.get("is_learned", False))

    def for_parts(self, parts: tuple[str, ...]) -> Reranker:
        """The re-ranker that was fitted to these parts; the default one if none was."""
        if not self.is_learned or parts == self.parts:
            return self
        for each in self.subsets:
            if each.parts == parts:
                return each
        return default_reranker(f"none were fitted to {' and '.join(parts)}")

    def __str__(self) -> str:
        """How it was learned, what each part was worth, and the weights: a line each."""
        if not self.is_learned:
            lines = [f"default weights of the re-ranker: {self.facts.get('reason', 'unknown')}"]
        else:
            facts = self.facts
            chosen = "the most recent ones" if facts["by_time"] else "chosen by the seed"
            useful = f"{facts['queries_with_positive_candidate']:,} have a positive candidate"
            lines = [
                f"re-ranker: {facts['queries']:,} validation queries, {chosen}; {useful}",
                f"Recall@10/50/100 there: {_join(_percent(facts['recall']))}",
            ]
        weights = {
            name: f"{cold:.2f} / {warm:.2f}"
            for name, (cold, warm) in self.table().items()
            if cold or warm
        }
        return "\n".join([*lines, f"weights, cold / warm products: {_join(weights)}"])

    def table(self) -> dict[str, tuple[float, float]]:
        """Weight of each feature for cold and for warm products."""
        cold, warm = self.weights.tolist()
        return {name: (cold[i], warm[i]) for i, name in enumerate(FEATURES)}


def default_reranker(reason: str) -> Reranker:
    """The weights that count where none were learned; `reason` says why."""
    row = [DEFAULT_WEIGHTS.get(name, 0.0) for name in FEATURES]
    return Reranker(
        np.array([row, row], dtype=np.float32),
        np.zeros(1, dtype=np.float32),
        np.full(1, DEFAULT_LOG_ODDS, dtype=np.float32),
        {"is_learned": False, "reason": reason},
    )


def _percent(recalls: Mapping[str, list[float]]) -> dict[str, str]:
    return {
        name: " / ".join(f"{100 * value:.1f}" for value in values)
        for name, values in recalls.items()
    }


def _join(values: Mapping[str, str]) -> str:
    return "; ".join(f"{name} {value}" for name, value in values.items())


def store_reranker(reranker: Reranker) -> Section:
    """A re-ranker as a section: plain numbers, which a person can read."""
    subsets = [_to_plain(each) for each in reranker.subsets]
    return Section({"features": list(FEATURES), **_to_plain(reranker), "subsets": subsets})


def _to_plain(reranker: Reranker) -> dict[str, Any]:
    return {
        "parts": list(reranker.parts),
        "weights": reranker.weights.astype(np.float64).tolist(),
        "knots": reranker.knots.astype(np.float64).tolist(),
        "log_odds": reranker.log_odds.astype(np.float64).tolist(),
        "facts": dict(reranker.facts),
    }


def read_reranker(section: Section) -> Reranker:
    """A re-ranker from its section."""
    header = section.header
    if tuple(header["features"]) != FEATURES:
        raise ValueError(f"features must be {', '.join(FEATURES)}; got {header['features']}")
    return _from_plain(header, tuple(_from_plain(each) for each in header["subsets"]))


def _from_plain(stored: Mapping[str, Any], subsets: tuple[Reranker, ...] = ()) -> Reranker:
    weights, knots, log_odds = (
        np.array(stored[name], dtype=np.float32) for name in ("weights", "knots", "log_odds")
    )
    facts = read_object(stored["facts"])
    return Reranker(weights, knots, log_odds, facts, tuple(stored["parts"]), subsets)
