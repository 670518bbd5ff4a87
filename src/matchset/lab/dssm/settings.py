"""Configuration of DSSM: what can be set, and what are the defaults?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, get_args

from matchset.config import (
    DEFAULT_MIN_QUERY_COUNT,
    NGrams,
    VectorizerConfig,
)
from matchset.errors import install_command

Device = Literal["auto", "cpu", "cuda"]

_VECTORIZER = VectorizerConfig(
    ngrams=(
        NGrams("word", 1, limit=125_000, min_df=2),
        NGrams("word", 2, limit=250_000, min_df=3),
        NGrams("char", 3, limit=64_000, min_df=2),
    ),
    oov_buckets=20_000,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DSSMConfig:
    """Every parameter of training a DSSM.

    A step compares every query of a batch of positive pairs with every product of the batch, by a
    softmax: the other pairs' products are its random negatives. The hinge of Nigam et al. found
    less.
    """

    events: Mapping[str, float] | None = None
    "Weight of each event that counts; chosen by the usual names if not set."
    min_count: float = 1.0
    "A pair of query and product is positive when its weighted events reach this."
    min_query_count: float = DEFAULT_MIN_QUERY_COUNT
    "Queries with fewer events are never displayed, nor are n-grams that only they have."
    vectorizer: VectorizerConfig = _VECTORIZER
    "N-grams with their own embedding, and buckets that all others are hashed into."
    dimensions: int = 256
    "Length of a vector."
    temperature: float = 0.05
    "Cosines are divided by it before the softmax."
    batch_size: int = 1024
    "Pairs per step."
    learning_rate: float = 0.05
    "Learning rate at the start; it decays to zero along a half cosine."
    epochs: int = 4
    "Maximum number of passes over the pairs."
    patience: int = 2
    "Epochs without better recall of the validation queries after which training stops."
    validation_share: float = 0.05
    "Share of the queries that are not trained on, but used to measure recall."
    validation_queries: int = 2_000
    "Maximum number of these queries."
    time_limit: float | None = None
    "Seconds after which no epoch starts; the result then depends on the machine."
    seed: int = 0
    "Random seed."
    device: Device = "auto"
    "Where to train: auto uses a GPU if there is one."

    def __post_init__(self) -> None:
        """Check every value against its rule."""
        least = {"dimensions": 1, "batch_size": 2, "epochs": 1, "patience": 1}
        least |= {"validation_queries": 0, "seed": 0}
        for name, low in least.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < low:
                raise ValueError(f"{name} must be an integer of at least {low}; got {value!r}")
        for name in ("temperature", "learning_rate", "time_limit"):
            value = getattr(self, name)
            if not (name == "time_limit" and value is None) and not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite; got {value}")
        if not 0 <= self.validation_share < 1:
            raise ValueError(
                f"validation_share must be from 0 to less than 1; got {self.validation_share}"
            )
        if self.device not in get_args(Device):
            rule = f"device must be one of {', '.join(get_args(Device))}"
            raise ValueError(f"{rule}; got {self.device!r}")


def import_extra(module: str, extra: str = "dssm", what: str = "DSSM") -> Any:
    """Return a module of an extra, which `what` needs; an ImportError says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{what} needs {module.partition('.')[0]}, which is not installed; "
            f"install it with: {install_command(extra)} ({error})"
        ) from None
