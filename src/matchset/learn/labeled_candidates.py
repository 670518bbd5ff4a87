"""Labeled candidates: which candidates of validation queries are right, and how are they ranked?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from matchset.learn.held_kinds import ELSEWHERE, MISSPELT, PRODUCTS, WORDS
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
    def is_judged(self) -> NDArray[np.bool_]:
        """Whether each candidate counts when recall and scores are measured.

        Known answers of a query that are not positive again count as wrong where time decided what
        is held back, else not at all: they are known to be right.
        """
        return self.is_positive | ~self.is_known | self.is_by_time

    @property
    def is_measured(self) -> NDArray[np.bool_]:
        """Whether recall and scores are measured on each query: not if made, or too many."""
        left_out = (MISSPELT, PRODUCTS) if self.is_by_time else (MISSPELT,)
        return ~np.isin(self.kinds, left_out)

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

    @property
    def is_other(self) -> NDArray[np.bool_]:
        """Whether each query is not what it was held back for, such as a new word.

        A stem may be known though a word is new, and a query may be new without its products.
        """
        situations, kinds = self.candidates.situations, self.kinds
        is_other: NDArray[np.bool_] = (kinds == PRODUCTS) & (situations != KNOWN_QUERY)
        if self.is_by_time:
            is_other |= (kinds == WORDS) & (situations != NEW_WORD)
        return is_other

    def keep(self, candidates: NDArray[np.bool_]) -> LabeledCandidates:
        """Return all queries, with some of their candidates."""
        return self.select(np.ones(len(self.n_positive), dtype=np.bool_), candidates)

    def score(self, weights: Floats) -> NDArray[np.float64]:
        """Linear score of each candidate; `weights` are (n_situations, 2, n_features)."""
        by_group, groups = weights.reshape(-1, weights.shape[-1]).astype(np.float64), self.groups
        scores = np.zeros(len(groups), dtype=np.float64)
        for column in range(weights.shape[-1]):  # one after another: a sum in one order everywhere
            scores += self.candidates.features[:, column] * by_group[groups, column]
        return scores

    def lift(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return scores in which the best title with all words beats products with none."""
        features, row = self.candidates.features, self.row
        decides = features[:, _WORDS_DECIDE]
        has_all = (features[:, _ALL_WORDS] > 0) & (decides == 0)
        best, strange = np.full((2, len(self.n_positive)), -np.inf)
        np.maximum.at(best, row[has_all], scores[has_all])
        np.maximum.at(strange, row[decides < 0], scores[decides < 0])
        least = np.nextafter(strange, np.inf)[row]
        return np.where(has_all & (scores == best[row]), np.maximum(scores, least), scores)

    def rank(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the rank of each candidate within its query, from 0; those not judged are last.

        Words decide as they do in search, if scores are lifted.
        """
        row, n = self.row, len(self.n_positive)
        at = np.arange(len(row)) - self.candidates.offsets[row]
        order = scores + DECISIVE * np.maximum(self.candidates.features[:, _WORDS_DECIDE], 0)
        table = np.full((n, at.max(initial=0) + 1), np.inf)  # a query's candidates in a row
        table[row, at] = np.where(self.is_judged, -order, np.inf)
        sorted_ = table.argsort(axis=1, kind="stable")
        ranks = np.empty_like(sorted_)
        np.put_along_axis(ranks, sorted_, np.arange(table.shape[1])[None], axis=1)
        return np.asarray(ranks[row, at])


def label_candidates(
    candidates: Candidates, wanted: Csr, kinds: NDArray[np.uint8], *, n_days: int = 0
) -> LabeledCandidates:
    """Mark the positives; `wanted` is queries x labels, -1 for products that training lacks.

    Positives that a query does not ask for are left out.
    """
    width = np.int64(max(candidates.labels.max(initial=1), wanted.indices.max(initial=1)) + 1)
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


def find_recall(data: LabeledCandidates, rank: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return Recall@10, 50 and 100 of each query, (3, n_queries)."""
    n = np.maximum(data.n_positive, 1)
    hits = (data.row[data.is_positive & (rank < k)] for k in (10, 50, 100))
    return np.array([np.bincount(each, minlength=len(n)) / n for each in hits])


def recall_of(data: LabeledCandidates, weights: Floats) -> list[float]:
    """Return the mean Recall@10, 50 and 100."""
    return mean_recall(find_recall(data, data.rank(data.lift(data.score(weights)))))


def mean_recall(recall: NDArray[np.float64]) -> list[float]:
    """Return the mean over queries at each k."""
    return [round(float(each.mean()), 4) if len(each) else 0.0 for each in recall]
