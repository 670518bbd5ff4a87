"""Labeled candidates: which candidates of validation queries are right, and how are they ranked?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from matchset.matrices import Csr, Floats, offsets_of, rows_of
from matchset.model.match_set_model import Candidates
from matchset.model.reranker import FEATURES

_SAME_QUERY = FEATURES.index("same_query")
_POPULARITY = FEATURES.index("popularity")


@dataclass(frozen=True, slots=True, eq=False)
class LabeledCandidates:
    """Candidates of validation queries, and which of them are right."""

    candidates: Candidates
    halves: NDArray[np.uint8]  # of the days, bits 1 and 2, in which each is positive
    n_positive: NDArray[np.int64]  # of each query, those that no source proposed too, (n_queries,)
    is_complete: NDArray[np.bool_]  # whether all positives of a query are known, (n_queries,)
    n_days: int = 0  # that were held back; none where the seed decided
    is_shown: NDArray[np.bool_] | None = None  # whether customers saw each candidate; None: all

    @property
    def is_by_time(self) -> bool:
        """Whether the most recent days were held back."""
        return self.n_days > 0

    @property
    def is_positive(self) -> NDArray[np.bool_]:
        """Whether each candidate is right, (n_candidates,)."""
        return self.halves > 0

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Whether training knows the candidate as an answer to the very same query."""
        return self.candidates.features[:, _SAME_QUERY] > 0

    def shown(self) -> LabeledCandidates:
        """Only what customers saw: other candidates are no wrong answers."""
        if self.is_shown is None:
            return self
        return self.select(np.ones(len(self.n_positive), dtype=np.bool_), self.is_shown)

    def select(
        self, queries: NDArray[np.bool_], candidates: NDArray[np.bool_] | None = None
    ) -> LabeledCandidates:
        """Some of the queries, with some of their candidates."""
        c = self.candidates
        row = rows_of(c.offsets)
        kept = queries[row] if candidates is None else queries[row] & candidates
        offsets = offsets_of(np.bincount(row[kept], minlength=len(queries))[queries])
        chosen = Candidates(offsets, c.labels[kept], c.features[kept], c.sources[kept])
        return replace(
            self,
            candidates=chosen,
            halves=self.halves[kept],
            n_positive=self.n_positive[queries],
            is_complete=self.is_complete[queries],
            is_shown=None if self.is_shown is None else self.is_shown[kept],
        )


def label_candidates(
    candidates: Candidates, wanted: Csr, is_complete: NDArray[np.bool_], *, n_days: int = 0
) -> LabeledCandidates:
    """Mark the positives; `wanted` is queries x labels, -1 for products that training lacks."""
    width = np.int64(
        max(1, int(candidates.labels.max(initial=0)), int(wanted.indices.max(initial=0))) + 1
    )
    is_known = wanted.indices >= 0
    keys = wanted.row_of_entry[is_known] * width + wanted.indices[is_known]
    order = np.argsort(keys, kind="stable")
    keys, bits = keys[order], wanted.data[is_known][order].astype(np.uint8)
    asked = rows_of(candidates.offsets) * width + candidates.labels
    at = np.minimum(np.searchsorted(keys, asked), max(0, len(keys) - 1))
    halves = np.zeros(len(asked), dtype=np.uint8)
    if len(keys):
        halves = np.where(keys[at] == asked, bits[at], halves)
    return LabeledCandidates(candidates, halves, np.diff(wanted.indptr), is_complete, n_days)


def score_candidates(features: Floats, weights: Floats) -> NDArray[np.float64]:
    """Linear score of each candidate."""
    is_warm = (features[:, _POPULARITY] > 0).astype(np.int64)
    by_kind = weights.astype(np.float64)
    scores = np.zeros(len(features), dtype=np.float64)
    for column in range(features.shape[1]):  # one after another: a sum in one order everywhere
        scores += features[:, column] * by_kind[is_warm, column]
    return scores


def rank_of(offsets: NDArray[np.int64], scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rank of each candidate within its query, from 0."""
    row = rows_of(offsets)
    order = np.lexsort((-scores, row))
    rank = np.empty(len(scores), dtype=np.int64)
    rank[order] = np.arange(len(scores)) - offsets[row]
    return rank


def recall_of(data: LabeledCandidates, weights: Floats) -> list[float]:
    """Mean Recall@10, 50 and 100."""
    scores = score_candidates(data.candidates.features, weights)
    rank, row = rank_of(data.candidates.offsets, scores), rows_of(data.candidates.offsets)
    n = np.maximum(data.n_positive, 1)
    hits = [
        np.bincount(row[data.is_positive & (rank < k)], minlength=len(n)) / n for k in (10, 50, 100)
    ]
    return [round(float(each.mean()), 4) if len(each) else 0.0 for each in hits]
