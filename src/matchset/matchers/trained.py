"""Trained matcher: what do all matchers that learned from a log keep of their training?"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from matchset.config import TrainConfig
from matchset.features.vectorizer import Vectorizer
from matchset.filters.filter import Filter
from matchset.learn.summary import TrainSummary
from matchset.matchers.base import Matcher, TrainingRecord
from matchset.model.products import Products


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainedMatcher(Matcher):
    """A vectorizer, the products, and what is known of the training."""

    vectorizer: Vectorizer
    products: Products
    config: TrainConfig
    query_hashes: NDArray[np.uint64]  # of the training queries, ascending
    n_queries_of: NDArray[np.int64]  # positive queries of each product, (n_products,)
    provenance: Mapping[str, Any] = field(default_factory=dict)  # when, from what, how
    _allowed: WeakKeyDictionary[Filter, Any] = field(
        init=False, repr=False, default_factory=WeakKeyDictionary
    )

    @property
    def training(self) -> TrainingRecord:
        """What it remembers of its training."""
        return TrainingRecord(
            self.products, self.query_hashes, self.n_queries_of, self.config, self.provenance
        )

    @property
    def summary(self) -> TrainSummary | None:
        """Figures of the training; None for a model that has no record of it."""
        stored = self.provenance.get("summary")
        return None if stored is None else TrainSummary.from_dict(stored)

    @abstractmethod
    def _prepare_filter(self, chosen: Filter) -> Any:
        """Return a filter in the form that search needs."""

    def _allow(self, chosen: Filter) -> Any:
        """Return a filter in the form that search needs, made once."""
        if chosen in self._allowed:
            return self._allowed[chosen]
        allowed = self._allowed[chosen] = self._prepare_filter(chosen)
        return allowed
