"""Configuration: which settings does training have, and which values may they take?"""

from __future__ import annotations

import math
import numbers
import operator
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar

import numpy as np

MAX_THREADS = 4096
_MAX_INT = 2**31 - 1
MAX_SEED = 2**32 - 1  # as in NumPy and scikit-learn

Config = TypeVar("Config", "NGrams", "VectorizerConfig", "LearnConfig", "TrainConfig")
Unit = Literal["word", "char"]
Titles = Literal["instances", "none"]
Precision = Literal["int8", "float32"]
NEGATIVES = ("tfn", "man", "given")
EMBEDDINGS = ("pifa", "given", "pifa+given")
WEIGHTS = ("binary", "log", "linear", "given")
AUTO = "auto"
UNSPACED = "cjk"  # texts in scripts without spaces (Chinese, Japanese, Thai): nothing is stemmed
STEMMED = (
    "en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "no", "fi", "ru", "pl", "cs", "hu",
    "ro", "tr"
)  # fmt: skip
LANGUAGES = (*STEMMED, UNSPACED)
PARTS = ("tree", "towers", "lexical", "neighbors")
DEFAULT_MIN_QUERY_COUNT = 5  # queries with fewer events are never shown to people


def count_threads(threads: int | None) -> int:
    """Return the given number of threads, or one per core available to this process."""
    if threads is None:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    number = as_int(threads)
    if number is None:
        raise TypeError(f"threads must be an int; got {type(threads).__name__}")
    if not 1 <= number <= MAX_THREADS:
        raise ValueError(f"threads must be from 1 to {MAX_THREADS}; got {number}")
    return number


def as_int(value: object) -> int | None:
    """Return a Python or NumPy integer as an int; None for anything else, booleans included."""
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        return None
    try:
        return operator.index(value)
    except TypeError:  # NumPy's arrays of more than one entry
        return None


def as_float(value: object) -> float | None:
    """Return a real number, Python's or NumPy's, as Python's; None for booleans and all else."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def check_share(name: str, value: object) -> float:
    """Return the value as a Python number, if it is one from 0 to 1."""
    share = as_float(value)
    if share is None or not 0 <= share <= 1:
        raise ValueError(f"{name} must be from 0 to 1; got {value!r}")
    return share


def check_int(name: str, value: object, low: int, high: int = _MAX_INT) -> int:
    """Return the value as a Python integer, if it is one within the limits."""
    number = as_int(value)
    if number is None or number < low:
        raise ValueError(f"{name} must be an integer of at least {low}; got {value!r}")
    if number > high:
        raise ValueError(f"{name} must be at most {high}; got {number}")
    return number


def _set(config: object, name: str, value: object) -> None:
    object.__setattr__(config, name, value)  # the dataclasses here are frozen


def _check_ints(
    config: object, low: int, *names: str, high: int = _MAX_INT, may_be_none: bool = False
) -> None:
    """Check some fields, and store them as Python integers."""
    for name in names:
        value = getattr(config, name)
        if value is not None or not may_be_none:
            _set(config, name, check_int(name, value, low, high))


def _check_floats(config: object, *names: str, may_be_zero: bool = False) -> None:
    """Check some fields, and store them as Python floats."""
    rule = "zero or positive, and finite" if may_be_zero else "positive and finite"
    for name in names:
        value = getattr(config, name)
        number = as_float(value)
        if number is None:
            raise ValueError(f"{name} must be a number, {rule}; got {value!r}")
        if not math.isfinite(number) or number < 0 or (number == 0 and not may_be_zero):
            raise ValueError(f"{name} must be {rule}; got {value}")
        _set(config, name, number)


def _check_range(config: object, low: int, high: int, name: str) -> None:
    """Check one field, and store it as a Python integer."""
    value = getattr(config, name)
    number = as_int(value)
    if number is None:
        raise TypeError(f"{name} must be an int; got {type(value).__name__}")
    if not low <= number <= high:
        raise ValueError(f"{name} must be from {low} to {high}; got {number}")
    _set(config, name, number)


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")


def check_language(language: str | None) -> str | None:
    """Return the language, if texts can be analyzed in it; "none" is None."""
    if language in (None, "none"):
        return None
    if language not in (AUTO, *LANGUAGES):
        known = ", ".join(LANGUAGES)
        raise ValueError(f"language must be auto, none or one of {known}; got {language!r}")
    return language


@dataclass(frozen=True, slots=True)
class NGrams:
    """One kind of n-gram, and how many of them become features."""

    unit: Unit  # "word": n words in a row; "char": n characters of one word with its boundaries
    n: int
    limit: int  # largest number kept; the most frequent are
    min_df: int = 1  # smallest number of queries an n-gram must occur in

    def __post_init__(self) -> None:
        if self.unit not in ("word", "char"):
            raise ValueError(f"unit must be 'word' or 'char'; got {self.unit!r}")
        _check_range(self, 1, 16, "n")
        _check_range(self, 0, _MAX_INT, "limit")
        _check_range(self, 1, _MAX_INT, "min_df")


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
    "Features for unknown n-grams of each kind: none (0), one for all (1), or that many buckets."

    def __post_init__(self) -> None:
        kinds = [(kind.unit, kind.n) for kind in self.ngrams]
        if not kinds or len(set(kinds)) < len(kinds):
            raise ValueError(f"ngrams must be distinct kinds, at least one; got {kinds}")
        _check_range(self, 0, 2**24, "oov_buckets")


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnConfig:
    """Every parameter of learning, from label vectors to pruned weights.

    The solver minimizes `|w|^2 / 2 + C * sum of squared hinge losses`. Where matrices are fitted
    (`XRLinear`), `negatives` and `weights` may also be "given".
    """

    branching: int = 32
    "Target number of children per tree node."
    max_leaf_size: int = 100
    "Largest number of products in a leaf cluster."
    kmeans_max_iter: int = 20
    "Largest number of 2-means iterations per split of a cluster."
    embeddings: str = "pifa"
    "Product vectors: pifa (sums of positive instances), given, or pifa+given (concatenated)."
    pifa_max_entries: int | None = 32
    "Number of largest entries kept in each product vector; all if not set."
    pifa_normalize: bool = False
    "Divide an instance with m products by the square root of m before adding it to their vectors."
    given_share: float = 0.5
    "Share of the given vectors in the similarity of pifa+given, from 0 to 1."
    negatives: str = "tfn"
    "Training instances of a cluster: tfn (teacher forcing) or man (matcher-aware), or tfn+man."
    man_beam: int = 20
    "Beam width of the search for matcher-aware negatives."
    C: float = 1.0
    "Weight of the losses relative to the regularization."
    positive_weight: float = 1.0
    "Weight of the losses of positives."
    negative_weight: float = 1.0
    "Weight of the losses of negatives."
    weights: str = "binary"
    "Weight of a positive: one (binary), its count (linear), or 1 + log of it (log)."
    bias: float = 1.0
    "Value of the constant feature, whose weight is regularized too; 0 for no bias."
    tol: float = 0.01
    "Stop when the duality gap is at most this share of the objective."
    max_iter: int = 100
    "Largest number of passes of the solver over the data."
    threshold: float = 0.1
    "Drop weights of at most this magnitude."
    max_weights: int | None = None
    "Number of largest weights kept per classifier; all if not set."
    seed: int = 0
    "Random seed."
    threads: int | None = None
    "Number of threads; one per core if not set. It never changes the result."

    def __post_init__(self) -> None:
        """Check every value, and store numbers of NumPy as Python's."""
        _check_ints(self, 2, "branching")
        _check_ints(self, 1, "max_leaf_size", high=65536)
        _check_ints(self, 1, "kmeans_max_iter", "man_beam", "max_iter")
        _check_ints(self, 1, "pifa_max_entries", "max_weights", may_be_none=True)
        _check_ints(self, 1, "threads", high=MAX_THREADS, may_be_none=True)
        _check_ints(self, 0, "seed", high=MAX_SEED)
        _check_floats(self, "C", "positive_weight", "negative_weight", "tol")
        _check_floats(self, "bias", "threshold", may_be_zero=True)
        _set(self, "given_share", check_share("given_share", self.given_share))
        if type(self.pifa_normalize).__name__ not in ("bool", "bool_"):  # Python's or NumPy's
            raise ValueError(f"pifa_normalize must be a boolean; got {self.pifa_normalize!r}")
        _set(self, "pifa_normalize", bool(self.pifa_normalize))
        _check_choice("embeddings", self.embeddings, EMBEDDINGS)
        _check_choice("weights", self.weights, WEIGHTS)
        schemes = self.negatives.split("+") if isinstance(self.negatives, str) else [self.negatives]
        for scheme in schemes:
            _check_choice("negatives", scheme, NEGATIVES)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """How a log becomes a matcher."""

    events: Mapping[str, float] | None = None
    "Weight of each event, such as purchase=1 click=0.2; chosen by the usual names if not set."
    min_count: float = 1.0
    "A query and a product are a positive pair if their weighted events add up to at least this."
    titles: Titles = "instances"
    "With a catalog, train on each title as one more query for its product (instances), or not."
    title_weight: float = 10.0
    "Weight of a title relative to a query."
    precision: Precision = "int8"
    "Precision of the saved weights: one byte each (int8), or exact (float32)."
    min_query_count: float = DEFAULT_MIN_QUERY_COUNT
    "Never show queries with fewer events than this, nor n-grams that occur only in such queries."
    language: str | None = AUTO
    "Stem words in this language (en, de, ...; cjk: scripts without spaces); auto detects it."
    parts: tuple[str, ...] = PARTS
    "Parts of the match set: tree, towers, lexical, neighbors; tree alone is XR-Linear."
    tune: bool = True
    "Learn the weights of the re-ranker on positives that are held back from the parts."
    new_share: float | None = None
    (
        "Share of the answers that are new products, to which no past query led; as the log tells "
        "if not set. More of them cost some recall of known ones (docs/training.md)."
    )
    max_past_queries: int = 2_000_000
    "Past queries that a match set remembers, at most: the most frequent ones."
    vectorizer: VectorizerConfig = VectorizerConfig()
    "How queries become features."
    # Titles are longer than queries, so with them product vectors keep more entries: on Home Depot
    # 128 instead of 32 raised Recall@100 from 38 to 44 %. Without titles 32 is as good, and faster.
    # A leaf of 100 products can fill a ranking of 100 alone; with 50, more leaves contribute. That
    # was worth 1.3 points there, and 5 points of Recall@50 on a simulated shop.
    learn: LearnConfig = LearnConfig(pifa_max_entries=128, max_leaf_size=50)
    "How features become a tree of classifiers."

    def __post_init__(self) -> None:
        """Check every value, and store numbers of NumPy as Python's."""
        _check_choice("titles", self.titles, ("instances", "none"))
        _check_choice("precision", self.precision, ("int8", "float32"))
        _check_floats(self, "title_weight", "min_count")
        for name in ("embeddings", "negatives", "weights"):  # matrices that a log does not have
            value: str = getattr(self.learn, name)
            if "given" in value.split("+"):
                raise ValueError(f"{name} must not be 'given' to train on a log; got {value!r}")
        _check_events(self.events)
        _set(self, "language", check_language(self.language))
        _set(self, "parts", _check_parts(self.parts))
        _check_range(self, 1, _MAX_INT, "max_past_queries")
        if self.new_share is not None:
            _set(self, "new_share", check_share("new_share", self.new_share))
        if type(self.tune) is not bool:
            raise ValueError(f"tune must be a boolean; got {self.tune!r}")
        least = as_float(self.min_query_count)
        if least is None or not least >= 0:
            raise ValueError(f"min_query_count must be at least 0; got {self.min_query_count!r}")
        _set(self, "min_query_count", least)

    def with_threshold(self, threshold: float) -> TrainConfig:
        """Return the configuration of a model that was pruned to at least this threshold."""
        learn = replace(self.learn, threshold=max(threshold, self.learn.threshold))
        return replace(self, learn=learn)


def _check_events(events: object) -> None:
    if events is None:
        return
    if not isinstance(events, Mapping):
        raise TypeError(f"events must be weights by name; got {type(events).__name__}")
    for name, weight in events.items():
        if not isinstance(name, str) or as_float(weight) is None:
            raise ValueError(f"events must be numbers by name; got {name!r}: {weight!r}")


def _check_parts(parts: object) -> tuple[str, ...]:
    """Distinct parts in the usual order."""
    if isinstance(parts, str) or not isinstance(parts, Iterable) or not (names := tuple(parts)):
        raise ValueError(f"parts must be some of {', '.join(PARTS)}; got {parts!r}")
    for name in names:
        _check_choice("parts", name, PARTS)
    return tuple(name for name in PARTS if name in names)


def read_config(stored: Mapping[str, Any]) -> TrainConfig:
    """Make a configuration from plain values, as TOML and model files hold them.

    Tables are named like the fields: `[learn]`, `[vectorizer]`, `[[vectorizer.ngrams]]`.
    """
    values = dict(stored)
    if "vectorizer" in values:
        values["vectorizer"] = read_vectorizer_config(values["vectorizer"])
    if "learn" in values:
        values["learn"] = _make(LearnConfig, "learn", values["learn"], base=TrainConfig().learn)
    return _make(TrainConfig, "the configuration", values)


def read_vectorizer_config(stored: Mapping[str, Any]) -> VectorizerConfig:
    """Make a vectorizer's configuration from plain values."""
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
