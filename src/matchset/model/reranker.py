"""Linear re-ranker: how much does each feature of a candidate count, and what does a score mean?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import PARTS
from matchset.matrices import Floats, Offsets, offsets_of

FEATURES: tuple[str, ...] = tuple(_native.feature_names())
SITUATIONS = ("new query", "known query", "new word")  # what training knows of a query
NEW_QUERY, KNOWN_QUERY, NEW_WORD = range(len(SITUATIONS))
COLD, WARM = 0, 1  # rows of the weights: products without and with a positive query in training
DECISIVE = 100.0  # what `words_decide` adds to the order, though not to the chance, of a candidate

# What weights are before a log tells: mean and deviation over eight logs, of cold and of warm
# products (`benchmarks/prior.py`). With what the very same query led to in front. The cosine of
# cold products counts 12, not 10, and their constant is less by as much: logs of 30 to 1,000
# queries, whose cosines are small, are answered better by 0.0 / 0.3 / 0.4 points.
PRIOR: dict[str, tuple[float, float, float, float]] = {
    "constant": (1.0, 3.2, -2.0, 3.1),
    "tree_score": (0.52, 1.0, -0.37, 2.3),
    "tree_log": (0.061, 0.039, 0.18, 0.14),
    "tree_missed": (-0.15, 0.37, 0.44, 0.52),
    "cosine": (12.0, 2.9, 17.0, 9.0),
    "cosine_rank": (0.11, 0.16, 0.25, 0.43),
    "bm25_share": (0.11, 1.7, -0.23, 0.51),
    "bm25": (0.21, 0.12, 0.11, 0.11),
    "bm25_any": (-0.057, 0.74, -0.2, 0.49),
    "vote_share": (0.0, 1.0, -0.44, 1.5),
    "vote_log": (0.0, 1.0, 0.12, 0.27),
    "same_query": (3.0, 1.0, 3.0, 1.0),
    "popularity": (0.0, 1.0, 0.29, 0.8),
    "recent": (-2.9, 3.4, 0.59, 0.35),
    "word_share": (-1.3, 3.3, -0.43, 0.58),
    "all_words": (-0.12, 0.17, 0.045, 0.35),
    "rarest_word": (0.58, 0.66, 0.048, 0.12),
    "new_words": (1.5, 1.6, 1.5, 3.9),
    "new_words_not": (-1.5, 2.7, -1.2, 0.62),
    "words_decide": (0.0, 1.0, 0.0, 1.0),
}
_PRIOR = np.array([PRIOR[name] for name in FEATURES]).T
_PRIOR_MEAN, PRIOR_DEVIATION = _PRIOR[[0, 2]], _PRIOR[[1, 3]]  # (2, n_features)
_USUAL_COSINE = 0.6  # of a right answer
_WITHOUT_COSINE = 4.0  # what the weight of `bm25_share` is larger by
LEAST_NEW = 0.01  # share of products without a past query among answers: some day one comes
LEAST_CALIBRATED = 100  # right answers among candidates; with fewer, scores only tell an order
DEFAULT_LOG_ODDS = -15.0  # of a linear score of zero


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Straight lines from linear scores to log-odds."""

    knots: Floats  # linear scores, ascending, (n_knots,)
    log_odds: Floats  # of being a positive, (n_knots,)

    def __post_init__(self) -> None:
        if self.knots.ndim != 1 or len(self.knots) == 0 or self.knots.shape != self.log_odds.shape:
            found = f"{self.knots.shape} and {self.log_odds.shape}"
            raise ValueError(f"knots and log_odds must be lists of one length; got {found}")
        for name in ("knots", "log_odds"):
            _check_finite(name, getattr(self, name))

    def read(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-odds of scores, as search reads them."""
        x, y = self.knots.astype(np.float64), self.log_odds.astype(np.float64)
        if len(x) == 1:
            return np.asarray(y[0] + scores - x[0])
        i = np.clip(np.searchsorted(x, scores, side="right"), 1, len(x) - 1)
        width = x[i] - x[i - 1]
        rise = (y[i] - y[i - 1]) / np.where(width > 0, width, 1)
        return np.asarray(y[i - 1] + (scores - x[i - 1]) * rise)


@dataclass(frozen=True, slots=True, eq=False)
class Reranker:
    """Weights of the linear score, and what a score means, in each situation."""

    weights: Floats  # of cold and of warm products, (n_situations, 2, n_features)
    calibrations: tuple[Calibration, ...]  # (n_situations,)
    facts: Mapping[str, Any] = field(default_factory=dict)  # how it was learned, plain values
    parts: tuple[str, ...] = ()  # to which it was fitted; none: default weights, for any parts
    subsets: tuple[Reranker, ...] = ()  # fitted to fewer of the parts: all but one, or one alone
    features: tuple[str, ...] = FEATURES  # of the weights

    def __post_init__(self) -> None:
        if self.features != FEATURES:
            raise ValueError(f"features must be {', '.join(FEATURES)}; got {self.features}")
        shape = (len(SITUATIONS), 2, len(FEATURES))
        if self.weights.shape != shape:
            raise ValueError(f"weights must have the shape {shape}; got {self.weights.shape}")
        if len(self.calibrations) != len(SITUATIONS):
            rule = f"there must be {len(SITUATIONS)} calibrations"
            raise ValueError(f"{rule}; got {len(self.calibrations)}")
        _check_finite("weights", self.weights)

    @property
    def arrays(self) -> tuple[Floats, Floats, Floats, Offsets]:
        """What kernels take."""
        return (
            np.ascontiguousarray(self.weights).reshape(-1),
            np.concatenate([each.knots for each in self.calibrations]),
            np.concatenate([each.log_odds for each in self.calibrations]),
            offsets_of([len(each.knots) for each in self.calibrations]),
        )

    @property
    def is_learned(self) -> bool:
        """Whether the weights come from validation queries, or are the defaults."""
        return bool(self.facts.get("is_learned", False))

    @property
    def is_calibrated(self) -> bool:
        """Whether scores are probabilities: enough right answers were held back to measure them."""
        return int(self.facts.get("positives", 0)) >= LEAST_CALIBRATED

    @property
    def warning(self) -> str:
        """Say why scores are no probabilities, and what to do; empty where they are."""
        if self.is_calibrated:
            return ""
        return (
            f"scores are no probabilities: {self.facts.get('positives', 0)} right answers were "
            f"held back to measure them, but {LEAST_CALIBRATED} are needed; use the first k "
            "products instead of a least score"
        )

    @property
    def new_share(self) -> float:
        """Share of products without a past query among the answers that the weights are for."""
        return float(self.facts.get("new_share", LEAST_NEW))

    def for_parts(self, parts: tuple[str, ...]) -> Reranker:
        """Return the re-ranker that was fitted to these parts; the default one if none was."""
        if not self.is_learned or parts == self.parts:
            return self
        for each in self.subsets:
            if each.parts == parts:
                return each
        return default_reranker(f"none were fitted to {' and '.join(parts)}", parts)

    def __str__(self) -> str:
        """Say how it was learned, what each part was worth, and the weights: a line each."""
        if not self.is_learned:
            lines = [f"default weights of the re-ranker: {self.facts.get('reason', 'unknown')}"]
        else:
            facts = self.facts
            chosen = "the most recent ones" if facts["by_time"] else "chosen by the seed"
            useful = f"{facts['queries_with_positive_candidate']:,} have a positive candidate"
            lines = [
                f"re-ranker: {facts['queries']:,} validation queries, {chosen}; {useful}",
                f"Recall@10/50/100 there: {_join(_percent(facts['recall']))}",
                *(
                    f"{kind}: {judged['queries']:,} queries, {_show(judged['recall'])}"
                    for kind, judged in facts.get("kinds", {}).items()
                ),
            ]
        return "\n".join([*lines, *filter(None, [self.warning])])

    def table(self) -> dict[str, tuple[float, ...]]:
        """Weights of each feature: of cold and of warm products in each situation."""
        columns = self.weights.reshape(-1, len(FEATURES)).T.tolist()
        return {name: tuple(values) for name, values in zip(FEATURES, columns, strict=True)}


def _check_finite(name: str, values: Floats) -> None:
    if values.dtype != np.float32 or not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite and float32; got {values.dtype}")


def prior_mean(parts: tuple[str, ...]) -> NDArray[np.float64]:
    """Return the weights before a log tells, (2, n_features).

    Without towers, words must say what cosines do, and constants hold what those usually add, or
    all cold products would come before all warm ones.
    """
    mean = _PRIOR_MEAN.copy()
    if "towers" not in parts:
        mean[:, FEATURES.index("constant")] += _USUAL_COSINE * mean[:, FEATURES.index("cosine")]
        mean[:, FEATURES.index("bm25_share")] += _WITHOUT_COSINE
    return mean


def default_reranker(reason: str, parts: tuple[str, ...] = PARTS) -> Reranker:
    """Return the weights of the prior, for where nothing was learned; `reason` says why."""
    line = Calibration(np.zeros(1, np.float32), np.full(1, DEFAULT_LOG_ODDS, np.float32))
    return Reranker(
        np.tile(prior_mean(parts).astype(np.float32), (len(SITUATIONS), 1, 1)),
        (line,) * len(SITUATIONS),
        {"is_learned": False, "reason": reason},
    )


def _percent(recalls: Mapping[str, list[float]]) -> dict[str, str]:
    return {name: _show(values) for name, values in recalls.items()}


def _show(recalls: list[float]) -> str:
    return " / ".join(f"{100 * value:.1f}" for value in recalls)


def _join(values: Mapping[str, str]) -> str:
    return "; ".join(f"{name} {value}" for name, value in values.items())
