"""Fusion tuning: which weights give a fusion the highest recall?

Coordinate ascent, without random choices: from the best single ranking or from equal weights, one
weight at a time is increased, decreased or set to zero as long as that helps. Single rankings are
among the candidates, and the last comparison ranks as the fusion will: so on the data that it was
chosen on, the rule is never below its best part.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from matchset.matchers.fusion_rules import Candidates, FusionRule, fuse, gather
from matchset.matrices import Csr
from matchset.strings import Strings

logger = logging.getLogger(__name__)

CONSTANTS = (2.0, 10.0, 30.0, 60.0)  # the smaller, the more the first ranks count
_STEPS = (0.0, 0.25, 0.5, 0.75, 1.5, 2.0, 4.0)  # factors of the weight
_FROM_ZERO = (0.05, 0.2, 0.5, 1.0)  # factors of the largest weight, for a weight of zero
_MAX_PASSES = 5


@dataclass(frozen=True, slots=True, eq=False)
class ValidationRankings:
    """Rankings of the validation queries, and what is relevant to them."""

    queries: Strings  # (n_queries,)
    rankings: Sequence[Csr]  # with shared labels, at most `depth` per query
    depth: int
    row: NDArray[np.int64]  # query of each relevant pair whose product has a label, (n_pairs,)
    label: NDArray[np.int64]  # (n_pairs,)
    n_relevant: NDArray[np.float64]  # of each query, also without a label, (n_queries,)
    ks: tuple[int, ...]

    @property
    def worth(self) -> NDArray[np.float64]:
        """What each found pair adds to the mean recall, (n_pairs,)."""
        return 1.0 / (self.n_relevant[self.row] * len(self.n_relevant) * len(self.ks))

    def measure(self, rule: FusionRule) -> float:
        """Mean recall at `ks` of a rule."""
        k, queries = max(self.ks), self.queries
        fused = fuse(self.rankings, k, rule, depth=self.depth, queries=queries).found
        width = np.int64(fused.n_cols)
        given = fused.row_of_entry * width + fused.indices
        rank = np.full(len(self.row), np.iinfo(np.int64).max)
        _, at, entry = np.intersect1d(self.row * width + self.label, given, return_indices=True)
        rank[at] = fused.position_in_row[entry]
        return float(sum(self.worth[rank < k].sum() for k in self.ks))


def tune(validation: ValidationRankings, rule: FusionRule) -> FusionRule:
    """The rule of the same method with the highest recall."""
    n_rankings = len(validation.rankings)
    corners = [tuple(map(float, row)) for row in np.eye(n_rankings)]
    candidates = [
        replace(setting, weights=_climb(_Objective.of(validation, setting), corners))
        for setting in _settings(rule)
    ]
    candidates += [replace(rule, weights=weights) for weights in corners]
    recalls = [validation.measure(candidate) for candidate in candidates]
    best = int(np.argmax(recalls))
    logger.info(
        "mean recall %.4f with %s; single matchers: %s",
        recalls[best],
        candidates[best],
        ", ".join(f"{recall:.4f}" for recall in recalls[-n_rankings:]),
    )
    return candidates[best]


def _settings(rule: FusionRule) -> Iterator[FusionRule]:
    """The choices besides weights."""
    if rule.method == "rrf":
        for constant in dict.fromkeys((rule.constant, *CONSTANTS)):
            yield replace(rule, constant=constant, weights=None)
    else:
        yield replace(rule, normalize="minmax", weights=None)
        yield replace(rule, normalize="best", weights=None)


@dataclass(frozen=True, slots=True, eq=False)
class _Objective:
    """Mean recall as a function of weights, up to ties; many times faster than fusing."""

    found: Candidates
    column: NDArray[np.int64]  # position of each candidate among those of its query, (n,)
    relevant: NDArray[np.int64]  # indices of the relevant candidates
    worth: NDArray[np.float64]  # of each of them
    ks: tuple[int, ...]

    @classmethod
    def of(cls, validation: ValidationRankings, setting: FusionRule) -> _Objective:
        found = gather(validation.rankings, setting, depth=validation.depth)
        first = np.searchsorted(found.row, np.arange(found.n_queries))
        width = np.int64(validation.rankings[0].n_cols)
        keys = found.row * width + found.label
        wanted = validation.row * width + validation.label
        _, relevant, pair = np.intersect1d(keys, wanted, return_indices=True)
        column = np.arange(len(found.row)) - first[found.row]
        return cls(found, column, relevant, validation.worth[pair], validation.ks)

    def __call__(self, weights: tuple[float, ...]) -> float:
        if len(self.relevant) == 0:
            return 0.0
        scores = self.found.add_up(weights)
        width = int(self.column.max()) + 1
        table = np.zeros((self.found.n_queries, width), dtype=np.float32)
        table[self.found.row, self.column] = -scores
        near = [k for k in self.ks if k < width]
        if near:
            table.partition([k - 1 for k in near], axis=1)
        row, mine = self.found.row[self.relevant], scores[self.relevant]
        total = 0.0
        for k in self.ks:
            last = -table[row, k - 1] if k < width else np.zeros(len(row), dtype=np.float32)
            total += float(self.worth[(mine >= last) & (mine > 0)].sum())
        return total


def _climb(objective: _Objective, corners: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """Coordinate ascent from the best corner or from equal weights."""
    measure = cache(objective)
    best = max([*corners, (1.0,) * len(corners)], key=measure)
    for _ in range(_MAX_PASSES):
        before = best
        for index in range(len(best)):
            best = max([best, *_neighbors(best, index)], key=measure)
        if best == before:
            break
    return best


def _neighbors(weights: tuple[float, ...], index: int) -> Iterator[tuple[float, ...]]:
    """Other values for one weight; the largest is always 1."""
    old = weights[index]
    tried = [old * step for step in _STEPS] if old else [max(weights) * s for s in _FROM_ZERO]
    for value in tried:
        changed = (*weights[:index], value, *weights[index + 1 :])
        if (largest := max(changed)) > 0:
            yield tuple(round(weight / largest, 4) for weight in changed)
