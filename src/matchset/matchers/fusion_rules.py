"""Fusing: how do several rankings of the same query become one?

Pure functions over labels: who has product ids gives each a number first (`fuse_matches`).
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
SCORED = ("rrf", "weighted")  # methods that add up what each matcher says of a product
# Of a normalised score this much goes by rank: what ties in one ranking keeps its order, and the
# last of a ranking is worth more than what is not in it.
_BY_RANK = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class FusionRule:
    """How rankings become one.

    - "rrf": a product's score is the sum of `weight / (constant + rank)`, ranks from 1.
    - "weighted": the sum of `weight * normalised score`. Scores are normalised per query and
      ranking: "minmax" takes the best to 1 and the last to 0, "best" divides by the best.
    - "interleave": team draft. In each round the rankings, in an order drawn anew, take turns to
      draft their best product that is still free. Drawn by `seed` and the query's text alone.
    - "append": the first ranking keeps its order; the others add what is new behind it, in turn.
      With `keep` what is new already comes behind the first `keep` products, and the rest of the
      first ranking last: so it finds place though the first ranking could fill k alone.

    A ranking of weight 0 plays no part. Interleaved and appended products score 1 / place.
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
            raise ValueError(f"one weight at least must be positive; got {weights}")

    def weigh(self, n_rankings: int) -> tuple[float, ...]:
        """The weight of each ranking; a ValueError where their number is another."""
        if self.weights is None:
            return (1.0,) * n_rankings
        if len(self.weights) != n_rankings:
            raise ValueError(f"weights must be {n_rankings}, one per matcher; got {self.weights}")
        return self.weights


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """What several rankings hold, product by product, in the order of query and label."""

    row: NDArray[np.int64]  # the query, (n,)
    label: Ids  # (n,)
    ranks: Ids  # from 1, 0 where a ranking has not got it, (n, n_rankings)
    strength: NDArray[np.float64]  # what a ranking of weight 1 adds, (n, n_rankings)
    n_queries: int

    def add_up(self, weights: Sequence[float]) -> Floats:
        """Score of each product, (n,)."""
        total = np.zeros(len(self.row))
        for place, weight in enumerate(weights):
            total += weight * self.strength[:, place]
        return total.astype(np.float32)  # before sorting: what ties as shown goes by label


@dataclass(frozen=True, slots=True, eq=False)
class Fused:
    """One ranking per query, and where each of its products stood."""

    found: Csr  # labels and scores, best first
    ranks: Ids  # from 1, 0 where a ranking has not got it, (n_entries, n_rankings)


def fuse(
    rankings: Sequence[Csr], k: int, rule: FusionRule, *, depth: int, queries: Strings
) -> Fused:
    """The k best of each query.

    `rankings` have labels in common, and rows for the same queries, with at most `depth` products
    each, best first.
    """
    weights = rule.weigh(len(rankings))
    found = gather(rankings, rule, depth=depth)
    if rule.method in SCORED:
        scores = found.add_up(weights)
        kept = np.flatnonzero(scores > 0)  # not what a weight of 0 alone has brought
        order = kept[_sort(-scores[kept], found.row[kept], found.n_queries)]
        best, _, offsets = _cut(order, found, k)
        values = scores[best]
    else:
        draft = _append(found, rule) if rule.method == "append" else _draft(found, rule, queries)
        best, place, offsets = _cut(_sort(draft, found.row, found.n_queries), found, k)
        values = (1.0 / (1.0 + place)).astype(np.float32)
    fused = Csr(offsets, found.label[best], values, rankings[0].n_cols)
    return Fused(fused, found.ranks[best])


def gather(rankings: Sequence[Csr], rule: FusionRule, *, depth: int) -> Candidates:
    """Bring together what the rankings say of each product."""
    row, label, place = _number(rankings)
    ranks = np.zeros((len(label), len(rankings)), dtype=np.int32)
    strength = np.zeros(ranks.shape)
    begin = 0
    for column, each in enumerate(rankings):
        at = place[begin : begin + len(each.indices)]
        begin += len(at)
        rank = each.position_in_row + 1 if len(each) > 1 else np.arange(1, len(at) + 1)
        ranks[at, column] = rank
        if rule.method == "rrf":
            strength[at, column] = 1.0 / (rule.constant + rank)
        elif rule.method == "weighted":
            by_rank = 1.0 - (rank - 1) / depth
            strength[at, column] = (1 - _BY_RANK) * _normalize(each, rule) + _BY_RANK * by_rank
    return Candidates(row, label, ranks, strength, len(rankings[0]))


def _number(rankings: Sequence[Csr]) -> tuple[NDArray[np.int64], Ids, NDArray[np.int64]]:
    """Query and label of each distinct product, ascending, and the place there of each entry."""
    if len(rankings[0]) == 1:  # the short way: a few microseconds count here
        label, place = _distinct(np.concatenate([each.indices for each in rankings]))
        return np.zeros(len(label), dtype=np.int64), label, place
    width = np.int64(max(1, rankings[0].n_cols))
    keys = np.concatenate([each.row_of_entry * width + each.indices for each in rankings])
    distinct, place = _distinct(keys)
    row, label = np.divmod(distinct, width)
    return row, label.astype(np.int32), place


def _distinct(keys: NDArray[Key]) -> tuple[NDArray[Key], NDArray[np.int64]]:
    """Distinct keys, ascending, and the place among them of each: `np.unique` with less ado."""
    order = keys.argsort(kind="stable")
    ascending = keys[order]
    is_new = np.ones(len(keys), dtype=np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_new[1:])
    place = np.empty(len(keys), dtype=np.int64)
    place[order] = is_new.cumsum() - 1
    return ascending[is_new], place


def _sort(values: NDArray[np.generic], row: NDArray[np.int64], n_queries: int) -> NDArray[np.int64]:
    """Places in ascending order of values within each query; equal ones stay as they are."""
    return values.argsort(kind="stable") if n_queries == 1 else np.lexsort((values, row))


def _cut(
    order: NDArray[np.int64], found: Candidates, k: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The first k of each query, the place of each from 0, and where each query starts."""
    if found.n_queries == 1:  # the short way: a few microseconds count here
        best = order[:k]
        return best, np.arange(len(best)), np.array([0, len(best)])
    sizes = np.bincount(found.row[order], minlength=found.n_queries)
    place = positions_of(offsets_of(sizes))
    return order[place < k], place[place < k], offsets_of(np.minimum(sizes, k))


def _normalize(found: Csr, rule: FusionRule) -> NDArray[np.float64]:
    """Each score between 0 and 1, for each query by itself."""
    sizes = np.diff(found.indptr)
    has_any = sizes > 0
    scores = found.data.astype(np.float64)
    best = np.repeat(scores[found.indptr[:-1][has_any]], sizes[has_any])
    if rule.normalize == "best":
        least, scores = np.zeros(len(scores)), np.maximum(scores, 0)
    else:
        least = np.repeat(scores[found.indptr[1:][has_any] - 1], sizes[has_any])
    result = np.ones(len(scores))  # where all score the same, all are the best
    np.divide(scores - least, best - least, out=result, where=best > least)
    return result


def _append(found: Candidates, rule: FusionRule) -> NDArray[np.int64]:
    """The place of each product: lower comes first, no two of a query have the same."""
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
    """The place at which each product is drafted, (n,)."""
    hashes = normalize_strings(queries).hashes()
    places = np.empty(len(found.row), dtype=np.int64)
    bounds = np.searchsorted(found.row, np.arange(found.n_queries + 1))
    for query in range(found.n_queries):
        ranks = found.ranks[bounds[query] : bounds[query + 1]]
        if len(ranks):
            drawn = np.random.default_rng([rule.seed, int(hashes[query])])
            places[bounds[query] + _draft_one(ranks, drawn)] = np.arange(len(ranks))
    return places


def _draft_one(ranks: Ids, drawn: np.random.Generator) -> NDArray[np.int64]:
    """Products of one query in the order in which the teams draft them, (n,)."""
    order = np.argsort(np.where(ranks > 0, ranks, np.iinfo(np.int32).max), axis=0, kind="stable")
    sizes = np.count_nonzero(ranks, axis=0)
    teams = [iter(order[:size, team].tolist()) for team, size in enumerate(sizes)]
    free = [True] * len(ranks)
    picked: list[int] = []
    for turns in np.argsort(drawn.random((int(sizes.max()), len(teams))), axis=1).tolist():
        for team in turns:
            pick = next((product for product in teams[team] if free[product]), None)
            if pick is not None:
                free[pick] = False
                picked.append(pick)
    return np.array(picked, dtype=np.int64)
