"""Labeled candidates: which candidates of validation queries are right, and how are they ranked?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from matchset.learn.held_kinds import ELSEWHERE, PRODUCTS, WORDS
from matchset.matrices import Csr, Floats, Ids, offsets_of, rows_of
from matchset.model.match_set_model import Candidates
from matchset.model.reranker import DECISIVE, FEATURES, KNOWN_QUERY, NEW_WORD

_SAME_QUERY, _POPULARITY, _ALL_WORDS, _WORDS_DECIDE = (
    FEATURES.index(name) for name in ("same_query", "popularity", "all_words", "words_decide")
)


@dataclass(frozen=True, slots=True, eq=False)
class LabeledCandidates:
    """Candidates of validation queries, and which of them are right."""

    candidates: Candidates
    halves: NDArray[np.uint8]  # of the days, bits 1 and 2, in which each is positive
    n_positive: NDArray[np.int64]  # of each query, those that no source proposed too, (n_queries,)
    kinds: NDArray[np.uint8]  # of each query, an index into KINDS, (n_queries,)
    n_days: int = 0  # that were held back; none where the seed decided

    @classmethod
    def join(cls, rounds: Sequence[LabeledCandidates]) -> LabeledCandidates:
        """Join the queries of several rounds."""
        if len(rounds) == 1:
            return rounds[0]
        return cls(
            Candidates.join([each.candidates for each in rounds]),
            np.concatenate([each.halves for each in rounds]),
            np.concatenate([each.n_positive for each in rounds]),
            np.concatenate([each.kinds for each in rounds]),
            rounds[0].n_days,
        )

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

    @property
    def row(self) -> Ids:
        """The query of each candidate."""
        return rows_of(self.candidates.offsets)

    @property
    def groups(self) -> NDArray[np.uint8]:
        """What is known of each candidate's query, and whether it is warm: rows of weights."""
        is_warm = self.candidates.features[:, _POPULARITY] > 0
        return (2 * self.candidates.situations[self.row] + is_warm).astype(np.uint8)

    def select(
        self, queries: NDArray[np.bool_], candidates: NDArray[np.bool_] | None = None
    ) -> LabeledCandidates:
        """Some of the queries, with some of their candidates."""
        if queries.all() and (candidates is None or candidates.all()):
            return self
        c, row = self.candidates, self.row
        kept = queries[row] if candidates is None else queries[row] & candidates
        offsets = offsets_of(np.bincount(row[kept], minlength=len(queries))[queries])
        chosen = Candidates(
            offsets, c.labels[kept], c.features[kept], c.sources[kept], c.situations[queries]
        )
        return replace(
            self,
            candidates=chosen,
            halves=self.halves[kept],
            n_positive=self.n_positive[queries],
            kinds=self.kinds[queries],
        )

    def drop_others(self) -> LabeledCandidates:
        """Only queries that are what they were held back for: a new word for a new word.

        A stem may be known though a word is new, and a query may be new without its products.
        """
        situations, kinds = self.candidates.situations, self.kinds
        is_other = (kinds == PRODUCTS) & (situations != KNOWN_QUERY)
        if self.is_by_time:
            is_other |= (kinds == WORDS) & (situations != NEW_WORD)
        return self.select(~is_other)

    def keep(self, candidates: NDArray[np.bool_]) -> LabeledCandidates:
        """All queries, with some of their candidates."""
        return self.select(np.ones(len(self.n_positive), dtype=np.bool_), candidates)

    def score(self, weights: Floats) -> NDArray[np.float64]:
        """Linear score of each candidate; `weights` are (n_situations, 2, n_features)."""
        by_group, groups = weights.reshape(-1, weights.shape[-1]).astype(np.float64), self.groups
        scores = np.zeros(len(groups), dtype=np.float64)
        for column in range(weights.shape[-1]):  # one after another: a sum in one order everywhere
            scores += self.candidates.features[:, column] * by_group[groups, column]
        return scores

    def rank(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Rank of each candidate within its query, from 0; words decide as they do in search."""
        features, row = self.candidates.features, self.row
        decides = features[:, _WORDS_DECIDE]
        best = np.full(len(self.n_positive), -np.inf)  # of those with all words
        has_all = features[:, _ALL_WORDS] > 0
        np.maximum.at(best, row[has_all], scores[has_all])
        is_below = (decides < 0) & (scores >= best[row])
        scores = np.where(is_below, best[row], scores + DECISIVE * np.maximum(decides, 0))
        order = np.lexsort((is_below, -scores, row))
        rank = np.empty(len(scores), dtype=np.int64)
        rank[order] = np.arange(len(scores)) - self.candidates.offsets[row]
        return rank


def label_candidates(
    candidates: Candidates, wanted: Csr, kinds: NDArray[np.uint8], *, n_days: int = 0
) -> LabeledCandidates:
    """Mark the positives; `wanted` is queries x labels, -1 for products that training lacks.

    Positives that a query does not ask for are left out.
    """
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
    is_asked = wanted.data.astype(np.uint8) != ELSEWHERE
    n_positive = np.bincount(wanted.row_of_entry[is_asked], minlength=len(wanted))
    labeled = LabeledCandidates(candidates, halves, n_positive, kinds, n_days)
    return labeled.keep(halves != ELSEWHERE)


def recall_of(data: LabeledCandidates, weights: Floats) -> list[float]:
    """Mean Recall@10, 50 and 100."""
    rank, row = data.rank(data.score(weights)), data.row
    n = np.maximum(data.n_positive, 1)
    hits = [
        np.bincount(row[data.is_positive & (rank < k)], minlength=len(n)) / n for k in (10, 50, 100)
    ]
    return [round(float(each.mean()), 4) if len(each) else 0.0 for each in hits]
