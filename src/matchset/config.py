"""Threads: how many may a call use?"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar

MAX_THREADS = 4096


def count_threads(threads: int | None) -> int:
    """The number asked for, or one per core that this process may use."""
    if threads is None:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    if isinstance(threads, bool) or not isinstance(threads, int):
        raise TypeError(f"threads must be an int; got {type(threads).__name__}")
    if not 1 <= threads <= MAX_THREADS:
        raise ValueError(f"threads must be from 1 to {MAX_THREADS}; got {threads}")
    return threads


Config = TypeVar("Config", "NGrams", "VectorizerConfig", "LearnConfig", "TrainConfig")
Unit = Literal["word", "char"]
Titles = Literal["instances", "none"]
Precision = Literal["int8", "float32"]
NEGATIVES = ("tfn", "man", "given")
EMBEDDINGS = ("pifa", "given", "pifa+given")
WEIGHTS = ("binary", "log", "linear", "given")
LOSSES = ("squared_hinge",)
DEFAULT_MIN_QUERY_COUNT = 5  # a query that led to something less often is not shown to people


def _at_least(config: object, least: int, *names: str, may_be_none: bool = False) -> None:
    for name in names:
        value = getattr(config, name)
        if value is None and may_be_none:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")


def _check_range(name: str, value: int, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int; got {type(value).__name__}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be from {low} to {high}; got {value}")


@dataclass(frozen=True, slots=True)
class NGrams:
    """One kind of n-gram, and which of them become features."""

    unit: Unit  # "word": n words in a row; "char": n characters of one word with its boundaries
    n: int
    limit: int  # keep at most so many, the most frequent
    min_df: int = 1  # and only those that at least so many queries have

    def __post_init__(self) -> None:
        if self.unit not in ("word", "char"):
            raise ValueError(f"unit must be 'word' or 'char'; got {self.unit!r}")
        _check_range("n", self.n, 1, 16)
        _check_range("limit", self.limit, 0, 2**31 - 1)
        _check_range("min_df", self.min_df, 1, 2**31 - 1)


@dataclass(frozen=True, slots=True)
class VectorizerConfig:
    """How queries become features; the defaults are the paper's."""

    ngrams: tuple[NGrams, ...] = (
        NGrams("word", 1, limit=1_000_000),
        NGrams("word", 2, limit=3_000_000),
        NGrams("char", 3, limit=200_000),
    )
    "Kinds of n-grams."
    oov_buckets: int = 1
    "Ids for unknown n-grams, per kind: 0 ignores them, 1 is one shared id, more are hash buckets."
    memory_budget: int = 2 * 2**30
    "Bytes that counting n-grams may take beside the queries; beyond it they are read again."

    def __post_init__(self) -> None:
        kinds = [(kind.unit, kind.n) for kind in self.ngrams]
        if not kinds or len(set(kinds)) < len(kinds):
            raise ValueError(f"ngrams must be distinct kinds, at least one; got {kinds}")
        _check_range("oov_buckets", self.oov_buckets, 0, 2**24)
        _check_range("memory_budget", self.memory_budget, 1, 2**62)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnConfig:
    """Every parameter of learning, from label vectors to kept weights.

    The solver minimises `|w|^2 / 2 + C * sum of losses`.
    """

    branching: int = 32
    "Children per node: a target, see `learn.tree.plan_splits`."
    max_leaf: int = 100
    "Labels per leaf cluster at most."
    cluster_passes: int = 20
    "Passes of 2-means per cut at most."
    embeddings: str = "pifa"
    "Label vectors: pifa (sums of positive instances), given, or pifa+given (both joined)."
    pifa_entries: int | None = 32
    "Largest entries kept of each label vector; none: all."
    pifa_rows: str = "sum"
    "Each instance adds its row (sum), or divides it among its labels first (normalized)."
    given_share: float = 0.5
    "Share of the given vectors in the similarity of pifa+given."
    negatives: str = "tfn"
    "Instances of a cluster: tfn (teacher forcing), man (matcher-aware), given; joined by +."
    man_beam: int = 20
    "Width of the beam that finds matcher-aware negatives."
    loss: str = "squared_hinge"
    "Loss of one instance."
    C: float = 1.0
    "Weight of the losses against the size of the weights."
    positive_weight: float = 1.0
    "Weight of the losses of positives."
    negative_weight: float = 1.0
    "Weight of the losses of negatives."
    weights: str = "binary"
    "Positives weigh one (binary), their count (linear), one plus its logarithm (log), or as given."
    bias: float = 1.0
    "Value of the constant feature, whose weight is regularised too; 0: no bias."
    tolerance: float = 0.01
    "Stop when the duality gap is at most this share of the objective,"
    max_passes: int = 100
    "or after so many passes."
    threshold: float = 0.1
    "Drop weights of at most this magnitude,"
    max_weights: int | None = None
    "then all but so many of each label, the largest stay."
    seed: int = 0
    "Of every random choice."
    threads: int | None = None
    "Threads; none: one per core. They never change the result."

    def __post_init__(self) -> None:
        """Check every value against its rule."""
        _at_least(self, 2, "branching")
        _at_least(self, 1, "max_leaf", "cluster_passes", "man_beam", "max_passes")
        _at_least(self, 1, "pifa_entries", "max_weights", "threads", may_be_none=True)
        _at_least(self, 0, "seed")
        if self.max_leaf > 65536:
            raise ValueError(f"max_leaf must be at most 65536; got {self.max_leaf}")
        _one_of("embeddings", self.embeddings, EMBEDDINGS)
        _one_of("pifa_rows", self.pifa_rows, ("sum", "normalized"))
        _one_of("weights", self.weights, WEIGHTS)
        _one_of("loss", self.loss, LOSSES)
        for scheme in self.negatives.split("+"):
            _one_of("negatives", scheme, NEGATIVES)
        for name in ("C", "positive_weight", "negative_weight", "tolerance"):
            value = getattr(self, name)
            if not (value > 0 and math.isfinite(value)):
                raise ValueError(f"{name} must be positive and finite; got {value}")
        for name in ("bias", "threshold"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"{name} must be zero or positive, and finite; got {value}")
        if not 0 <= self.given_share <= 1:
            raise ValueError(f"given_share must be from 0 to 1; got {self.given_share}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """How a log becomes a matcher."""

    events: Mapping[str, float] | None = None
    "Weight of each event that counts; none: by usual names, see `data.events.training_rule`."
    min_count: float = 1.0
    "A pair of query and product is positive when its weighted events reach this."
    titles: Titles = "instances"
    "With a catalogue, each title is one more query for its product (instances), or not (none)."
    title_weight: float = 10.0
    "Weight of a title beside a query's."
    precision: Precision = "int8"
    "Weights of the saved model: a byte each (int8), or exact (float32)."
    min_query_count: float = DEFAULT_MIN_QUERY_COUNT
    "Queries that led to something less often are never shown, nor n-grams that they alone have."
    vectorizer: VectorizerConfig = VectorizerConfig()
    "How queries become features."
    # Titles are longer than queries, so with them product vectors keep more entries: on Home Depot
    # 128 instead of 32 raised Recall@100 from 38 to 44 %. Without titles 32 is as good, and faster.
    # A leaf of 100 products can fill a match set of 100 alone; with 50 more leaves have a say: that
    # was worth 1.3 points there, and 5 points of Recall@50 on a simulated shop.
    learn: LearnConfig = LearnConfig(pifa_entries=128, max_leaf=50)
    "How features become a tree of classifiers."

    def __post_init__(self) -> None:
        """Check every value against its rule."""
        _one_of("titles", self.titles, ("instances", "none"))
        _one_of("precision", self.precision, ("int8", "float32"))
        if not (self.title_weight > 0 and math.isfinite(self.title_weight)):
            raise ValueError(f"title_weight must be positive and finite; got {self.title_weight}")
        if not self.min_query_count >= 0:
            raise ValueError(f"min_query_count must be at least 0; got {self.min_query_count}")


def read_config(stored: Mapping[str, Any]) -> TrainConfig:
    """A configuration from plain values, as TOML and model files hold them.

    Tables are called as the fields are: `[learn]`, `[vectorizer]`, `[[vectorizer.ngrams]]`.
    """
    values = dict(stored)
    if "vectorizer" in values:
        values["vectorizer"] = read_vectorizer_config(values["vectorizer"])
    if "learn" in values:
        values["learn"] = _make(LearnConfig, "learn", values["learn"], base=TrainConfig().learn)
    return _make(TrainConfig, "the configuration", values)


def read_vectorizer_config(stored: Mapping[str, Any]) -> VectorizerConfig:
    """A vectorizer's configuration from plain values."""
    values = dict(stored)
    if "ngrams" in values:
        values["ngrams"] = tuple(_make(NGrams, "ngrams", kind) for kind in values["ngrams"])
    return _make(VectorizerConfig, "vectorizer", values)


def _make(
    kind: type[Config], name: str, values: Mapping[str, Any], *, base: Config | None = None
) -> Config:
    if not isinstance(values, Mapping):
        raise TypeError(f"{name} must be a table of settings; got {type(values).__name__}")
    known = [field.name for field in fields(kind)]
    for key in values:
        if key not in known:
            raise ValueError(f"{name} must set one of {', '.join(known)}; got {key!r}")
    return kind(**values) if base is None else replace(base, **values)
