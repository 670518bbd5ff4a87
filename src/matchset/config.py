"""Configuration: what can be set, and what happens when nothing is?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Unit = Literal["word", "char"]


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
