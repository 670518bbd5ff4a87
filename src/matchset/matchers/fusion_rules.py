"""Fusion rules: how do several rankings of the same query become one?

Pure functions over labels; `fuse_matches` gives product ids labels first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from matchset.matrices import Csr, Floats, Ids, offsets_of, positions_of
from matchset.strings import Strings
from matchset.text import normalize_strings

Method: TypeAlias = Literal["rrf", "weighted", "interleave", "append"]
Normalization: TypeAlias = Literal["minmax", "best"]
Key = TypeVar("Key", np.int32, np.int64)
DEFAULT_CONSTANT = 60.0  # of the paper on reciprocal rank fusion (SIGIR 2009)
SCORED = ("rrf", "weighted")  # methods that add up a score per ranking
# This share of a normalized score comes from the rank: products that tie in a ranking keep their
# order, and the last of a ranking is worth more than a product that is not in it.
_BY_RANK = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionRule:
    """How several rankings are combined into one.

    - "rrf": a product's score is the sum of `weight / (constant + rank)`, with ranks from 1.
    - "weighted": the sum of `weight * normalized score`. Scores are normalized per query and
      ranking: "minmax" maps the best to 1 and the last to 0, "best" divides by the best.
    - "interleave": team draft. In each round the rankings, in a random order, take turns to draft
      their best product that is still free. The order depends only on `seed` and the query.
    - "append": the first ranking keeps its order, and the others take turns to add new products
      after it. With `keep`, new products already come after the first `keep` products, and the rest
      of the first ranking comes last. So they get room even if the first ranking alone has k
      products.

    A ranking with weight 0 is ignored. Interleaved and appended products score 1 / position.
    """

    method: Method = "rrf"
    weights: tuple[float, ...] | None = None  # of each ranking; None: all 1
    constant: float = DEFAULT_CONSTANT
    normalize: Normalization = "minmax"
    keep: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise ValueError(f"method must be one of {get_args(Method)}; got {self.method!r}")
        if self.normalize not in get_args(Normalization):
            found = f"got {self.normalize!r}"
            raise ValueError(f"normalize must be one of {get_args(Normalization)}; {found}")
        if not (self.constant > 0 and math.isfinite(self.constant)):
            raise ValueError(f"constant must be positive and finite; got {self.constant}")
        if self.keep is not None and self.keep < 1:
            raise ValueError(f"keep must be at least 1; got {self.keep}")
        if self.keep is not None and self.method != "append":
            raise ValueError(f"keep is for append; got method {self.method!r}")
        if self.seed < 0:
            raise ValueError(f"seed must be zero or positive; got {self.seed}")
        if self.weights is not None:
            self._check_weights(self.weights)

    def _check_weights(self, weights: tuple[float, ...]) -> None:
        if self.method not in SCORED:
            raise ValueError(f"weights are for rrf and weighted; got method {self.method!r}")
        if not all(weight >= 0 and math.isfinite(weight) for weight in weights):
            raise ValueError(f"weights must be zero or positive, and finite; got {weights}")
        if not any(weights):
            raise ValueError(f"at least one weight must be positive; got {weights}")

    def weigh(self, n_rankings: int) -> tuple[float, ...]:
        """The weight of each ranking; a ValueError unless there is one per ranking."""
        if self.weights is None:
            return (1.0,) * n_rankings
        if len(self.weights) != n_rankings:
            raise ValueError(f"weights must be {n_rankings}, one per matcher; got {self.weights}")
        return self.weights


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The products of several rankings, in order of query and label."""

    row: NDArray[np.int64]  # the query, (n,)
    label: Ids  # (n,)
    ranks: Ids  # from 1, 0 where a ranking does not have it, (n, n_rankings)
    strength: NDArray[np.float64]  # score that a ranking of weight 1 adds, (n, n_rankings)
    n_queries: int

    def add_up(self, weights: Sequence[float]) -> Floats:
        """Score of each product, (n,)."""
        total = np.zeros(len(self.row))
        for column, weight in enumerate(weights):
            total += weight * self.strength[:, column]
        return total.astype(np.float32)  # before sorting: equal float32 scores go by label


@dataclass(frozen=True, slots=True, eq=False)
class Fused:
    """One ranking per query, and the rank of its products in each ranking."""

    found: Csr  # labels and scores, best first
    ranks: Ids  # from 1, 0 where a ranking does not have it, (n_entries, n_rankings)


def fuse(
    rankings: Sequence[Csr], k: int, rule: FusionRule, *, depth: int, queries: Strings
) -> Fused:
    """The k best of each query.

    `rankings` share their labels and have a row per query, with at most `depth` products each, best
    first.
    """
    weights = rule.weigh(len(rankings))
    found = gather(rankings, rule, depth=depth)
    if rule.method in SCORED:
        scores = found.add_up(weights)
        kept = np.flatnonzero(scores > 0)  # not what only a ranking of weight 0 has
        order = kept[_sort(-scores[kept], found.row[kept], found.n_queries)]
        best, _, offsets = _cut(order, found, k)
        values = scores[best]
    else:
        draft = _append(found, rule) if rule.method == "append" else _draft(found, rule, queries)
        best, position, offsets = _cut(_sort(draft, found.row, found.n_queries), found, k)
        values = (1.0 / (1.0 + position)).astype(np.float32)
    fused = Csr(offsets, found.label[best], values, rankings[0].n_cols)
    return Fused(fused, found.ranks[best])


def gather(rankings: Sequence[Csr], rule: FusionRule, *, depth: int) -> Candidates:
    """Collect ranks and scores by product."""
    row, label, index = _number(rankings)
    ranks = np.zeros((len(label), len(rankings)), dtype=np.int32)
    strength = np.zeros(ranks.shape)
    begin = 0
    for column, each in enumerate(rankings):
        at = index[begin : begin + len(each.indices)]
        begin += len(at)
        rank = each.position_in_row + 1 if len(each) > 1 else np.arange(1, len(at) + 1)
        # From the back, as the last assignment counts: a product that is in a ranking twice keeps
        # its first position.
        back = at[::-1]
        ranks[back, column] = rank[::-1]
        if rule.method == "rrf":
            strength[back, column] = 1.0 / (float(rule.constant) + rank[::-1])
        elif rule.method == "weighted":
            by_rank = 1.0 - (rank - 1) / depth
            score = (1 - _BY_RANK) * _normalize(each, rule) + _BY_RANK * by_rank
            strength[back, column] = score[::-1]
    return Candidates(row, label, ranks, strength, len(rankings[0]))


def _number(rankings: Sequence[Csr]) -> tuple[NDArray[np.int64], Ids, NDArray[np.int64]]:
    """Query and label of each distinct product, ascending, and the index there of each entry."""
    if len(rankings[0]) == 1:  # the fast path: a few microseconds count here
        label, index = _distinct(np.concatenate([each.indices for each in rankings]))
        return np.zeros(len(label), dtype=np.int64), label, index
    width = np.int64(max(1, rankings[0].n_cols))
    keys = np.concatenate([each.row_of_entry * width + each.indices for each in rankings])
    distinct, index = _distinct(keys)
    row, label = np.divmod(distinct, width)
    return row, label.astype(np.int32), index


def _distinct(keys: NDArray[Key]) -> tuple[NDArray[Key], NDArray[np.int64]]:
    """Distinct keys, ascending, and the index among them of each: a quicker `np.unique`."""
    order = keys.argsort(kind="stable")
    ascending = keys[order]
    is_new = np.ones(len(keys), dtype=np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_new[1:])
    index = np.empty(len(keys), dtype=np.int64)
    index[order] = is_new.cumsum() - 1
    return ascending[is_new], index


def _sort(values: NDArray[np.generic], row: NDArray[np.int64], n_queries: int) -> NDArray[np.int64]:
    """Indices in ascending order of values within each query; a stable sort."""
    return values.argsort(kind="stable") if n_queries == 1 else np.lexsort((values, row))


def _cut(
    order: NDArray[np.int64], found: Candidates, k: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The first k of each query, the position of each from 0, and where each query starts."""
    if found.n_queries == 1:  # the fast path: a few microseconds count here
        best = order[:k]
        return best, np.arange(len(best)), np.array([0, len(best)])
    sizes = np.bincount(found.row[order], minlength=found.n_queries)
    position = positions_of(offsets_of(sizes))
    is_kept = position < k
    return order[is_kept], position[is_kept], offsets_of(np.minimum(sizes, k))


def _normalize(found: Csr, rule: FusionRule) -> NDArray[np.float64]:
    """Each score between 0 and 1, per query."""
    sizes = np.diff(found.indptr)
    has_any = sizes > 0
    scores = found.data.astype(np.float64)
    best = np.repeat(scores[found.indptr[:-1][has_any]], sizes[has_any])
    if rule.normalize == "best":
        least, scores = np.zeros(len(scores)), np.maximum(scores, 0)
    else:
        least = np.repeat(scores[found.indptr[1:][has_any] - 1], sizes[has_any])
    result = np.ones(len(scores))  # where all scores are equal, all are the best
    np.divide(scores - least, best - least, out=result, where=best > least)
    return result


def _append(found: Candidates, rule: FusionRule) -> NDArray[np.int64]:
    """A sort key per product: lower comes first, no two of a query have the same."""
    first, others = found.ranks[:, 0].astype(np.int64), found.ranks[:, 1:].astype(np.int64)
    absent = np.int64(2**31)
    turn = np.where(others > 0, others, absent)
    n_others = max(1, turn.shape[1])
    # In turn: rank by rank, at equal ranks in the order of the rankings.
    added = (turn * n_others + np.arange(turn.shape[1])).min(axis=1, initial=int(absent) * n_others)
    is_head = (first > 0) & (first <= (absent if rule.keep is None else rule.keep))
    tail = absent * (n_others + 1) + first
    return np.where(is_head, first - absent, np.where((others > 0).any(axis=1), added, tail))


def _draft(found: Candidates, rule: FusionRule, queries: Strings) -> NDArray[np.int64]:
    """The position at which each product is drafted, (n,)."""
    hashes = normalize_strings(queries).hashes()
    positions = np.empty(len(found.row), dtype=np.int64)
    bounds = np.searchsorted(found.row, np.arange(found.n_queries + 1))
    for query in range(found.n_queries):
        ranks = found.ranks[bounds[query] : bounds[query + 1]]
        if len(ranks):
            rng = np.random.default_rng([rule.seed, int(hashes[query])])
            positions[bounds[query] + _draft_one(ranks, rng)] = np.arange(len(ranks))
    return positions


def _draft_one(ranks: Ids, rng: np.random.Generator) -> NDArray[np.int64]:
    """Products of one query in the order in which the teams draft them, (n,)."""
    order = np.argsort(np.where(ranks > 0, ranks, np.iinfo(np.int32).max), axis=0, kind="stable")
    sizes = np.count_nonzero(ranks, axis=0)
    teams = [iter(order[:size, team].tolist()) for team, size in enumerate(sizes)]
    free = [True] * len(ranks)
    picked: list[int] = []
    for turns in np.argsort(rng.random((int(sizes.max()), len(teams))), axis=1).tolist():
        for team in turns:
            pick = next((product for product in teams[team] if free[product]), None)
            if pick is not None:
                free[pick] = False
                picked.append(pick)
    return np.array(picked, dtype=np.int64)
