"""Configuration: what can be set, and what happens when nothing is?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeVar

Config = TypeVar("Config", "NGrams", "VectorizerConfig", "LearnConfig", "TrainConfig")
Unit = Literal["word", "char"]
Titles = Literal["instances", "none"]
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
    # Ids for unknown n-grams, per kind: 0 ignores them, 1 is one shared id, more are hash buckets.
    oov_buckets: int = 1
    # Bytes that counting n-grams may take beside the queries; beyond it they are read again.
    memory_budget: int = 2 * 2**30

    def __post_init__(self) -> None:
        kinds = [(kind.unit, kind.n) for kind in self.ngrams]
        if not kinds or len(set(kinds)) < len(kinds):
            raise ValueError(f"ngrams must be distinct kinds, at least one; got {kinds}")
        _check_range("oov_buckets", self.oov_buckets, 0, 2**24)
        _check_range("memory_budget", self.memory_budget, 1, 2**62)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnConfig:
    """Every parameter of learning, from label vectors to kept weights.

    The tree: `branching` children per node (a target, see `learn.tree.plan_splits`), at most
    `max_leaf` labels per leaf cluster, at most `cluster_passes` of 2-means per cut.

    Label vectors: `embeddings` is "pifa" (the sum of a label's positive instances, cut to its
    `pifa_entries` largest entries, None for all; `pifa_rows` as in `learn.embeddings`), "given"
    (vectors handed to training) or "pifa+given" (both joined, the given ones taking `given_share`
    of the similarity).

    Negatives: "tfn" (teacher forcing), "man" (matcher-aware, with a beam of `man_beam`), "given",
    or several joined by "+".

    The solver minimises `|w|^2 / 2 + C * sum of losses`, each loss times `positive_weight` or
    `negative_weight`, and positives also by `weights`: "binary" (one), "linear" (Y's value), "log"
    (1 + its logarithm) or "given" (a matrix handed to training). `bias` is the value of the
    constant feature. It stops when the duality gap is at most `tolerance` times the objective,
    or after `max_passes`. Weights of at most `threshold` in magnitude are dropped, then all
    but the `max_weights` largest of each label.
    """

    branching: int = 32
    max_leaf: int = 100
    cluster_passes: int = 20
    embeddings: str = "pifa"
    pifa_entries: int | None = 32
    pifa_rows: str = "sum"
    given_share: float = 0.5
    negatives: str = "tfn"
    man_beam: int = 20
    loss: str = "squared_hinge"
    C: float = 1.0
    positive_weight: float = 1.0
    negative_weight: float = 1.0
    weights: str = "binary"
    bias: float = 1.0
    tolerance: float = 0.01
    max_passes: int = 100
    threshold: float = 0.1
    max_weights: int | None = None
    seed: int = 0
    threads: int | None = None

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
    """How a log becomes a matcher.

    A pair of query and product is positive when its weighted events reach `min_count`; `events`
    gives the weights (None: by the usual names, see `data.events.training_rule`).

    With a catalogue, `titles="instances"` makes each title one more query for its own product, of
    weight `title_weight`: products that nobody has searched for are found too.

    Queries that led to something less often than `min_query_count` are never shown.
    """

    events: Mapping[str, float] | None = None
    min_count: float = 1.0
    titles: Titles = "instances"
    title_weight: float = 10.0
    min_query_count: float = DEFAULT_MIN_QUERY_COUNT
    vectorizer: VectorizerConfig = VectorizerConfig()
    learn: LearnConfig = LearnConfig()

    def __post_init__(self) -> None:
        """Check every value against its rule."""
        _one_of("titles", self.titles, ("instances", "none"))
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
        values["learn"] = _make(LearnConfig, "learn", values["learn"])
    return _make(TrainConfig, "the configuration", values)


def read_vectorizer_config(stored: Mapping[str, Any]) -> VectorizerConfig:
    """A vectorizer's configuration from plain values."""
    values = dict(stored)
    if "ngrams" in values:
        values["ngrams"] = tuple(_make(NGrams, "ngrams", kind) for kind in values["ngrams"])
    return _make(VectorizerConfig, "vectorizer", values)


def _make(kind: type[Config], name: str, values: Mapping[str, Any]) -> Config:
    if not isinstance(values, Mapping):
        raise TypeError(f"{name} must be a table of settings; got {type(values).__name__}")
    known = [field.name for field in fields(kind)]
    for key in values:
        if key not in known:
            raise ValueError(f"{name} must set one of {', '.join(known)}; got {key!r}")
    return kind(**values)
