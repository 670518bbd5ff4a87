"""Configuration of DSSM: what can be set, and what are the defaults?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, Literal

from matchset.config import (
    DEFAULT_MIN_QUERY_COUNT,
    NGrams,
    VectorizerConfig,
    read_vectorizer_config,
)
from matchset.errors import install_command

Loss = Literal["softmax", "hinge"]
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

    A step compares every query of a batch of positive pairs with every product of the batch, so
    that the other pairs' products are its random negatives. `loss="hinge"` is that of Nigam et al.:
    squared hinges on purchased, impressed and random products. Pairs with an event that are not
    positive are impressed; where there are none, that term is empty. The default is a softmax over
    the same batch, because it finds more.
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
    loss: Loss = "softmax"
    "softmax: cross-entropy over the products of a batch; hinge: the three terms of the paper."
    temperature: float = 0.05
    "softmax: cosines are divided by it."
    purchased: float = 0.9
    "hinge: positive pairs should have a cosine of at least this."
    impressed: float = 0.55
    "hinge: pairs of a query and an impressed product should have a cosine of at most this."
    random: float = 0.2
    "hinge: pairs of a query and any other product should have a cosine of at most this."
    n_impressed: int = 1
    "hinge: products added per pair, drawn from the impressed ones of its query."
    n_random: int = 0
    "Products added per batch, drawn from the whole catalog."
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
        least = {"dimensions": 1, "batch_size": 2, "epochs": 1, "patience": 1, "seed": 0}
        least |= {"n_impressed": 0, "n_random": 0, "validation_queries": 0}
        for name, low in least.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < low:
                raise ValueError(f"{name} must be an integer of at least {low}; got {value!r}")
        for name in ("temperature", "learning_rate", "time_limit"):
            value = getattr(self, name)
            if not (name == "time_limit" and value is None) and not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite; got {value}")
        for name in ("purchased", "impressed", "random"):
            if not -1 <= (value := getattr(self, name)) <= 1:
                raise ValueError(f"{name} must be from -1 to 1; got {value}")
        if not 0 <= self.validation_share < 1:
            raise ValueError(
                f"validation_share must be from 0 to less than 1; got {self.validation_share}"
            )
        for name, allowed in (("loss", ("softmax", "hinge")), ("device", ("auto", "cpu", "cuda"))):
            if (value := getattr(self, name)) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {value!r}")


def read_dssm_config(stored: Mapping[str, Any]) -> DSSMConfig:
    """A configuration from plain values, as in model files."""
    values = dict(stored)
    known = [field.name for field in fields(DSSMConfig)]
    for key in values:
        if key not in known:
            raise ValueError(f"the configuration must set one of {', '.join(known)}; got {key!r}")
    if "vectorizer" in values:
        values["vectorizer"] = read_vectorizer_config(values["vectorizer"])
    return DSSMConfig(**values)


def import_extra(module: str, extra: str = "dssm", what: str = "DSSM") -> Any:
    """A module of an extra, which `what` needs; an ImportError says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{what} needs {module.partition('.')[0]}, which is not installed; "
            f"install it with: {install_command(extra)} ({error})"
        ) from None
