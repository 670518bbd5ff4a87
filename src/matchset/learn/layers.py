"""Layer training: which weights distinguish the children of each node?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import LearnConfig
from matchset.matrices import Csr, Floats, Ids, Offsets, offsets_of
from matchset.model.tree import LayerPart, LayerWeights
from matchset.work.forms import keepable

LANES = 16  # children that are solved side by side, in one pass over the instances
# What a range of parents costs is counted in instances, each as often as it is passed over. A range
# takes about 50 ms, or more if there would be too many ranges: some thousands of files are fine.
LEAST_COST = 50_000
MOST_RANGES = 2048


@dataclass(frozen=True, slots=True, eq=False)
class LayerProblem:
    """What the children of some parents of a level are trained on."""

    X: Csr  # instances x features
    instances: Csr  # parents x instances
    positives: Csr  # children x instances; values are counts, summed over the labels below
    first_child: Offsets  # of each parent, and the end, (n_parents + 1,)
    instance_weights: Floats | None = None  # (n_instances,); None: all one
    first_parent: int = 0  # number of the first parent in its level

    def take(self, chosen: Range) -> LayerProblem:
        """The problem of a range of parents, or of some children of one."""
        begin, end = chosen.begin, chosen.end
        first, last = int(self.first_child[begin]), int(self.first_child[end])
        positives = self.positives.slice(first, last)
        first_child = self.first_child[begin : end + 1] - first
        if chosen.group is not None:
            positives = positives.take(_choose_children(positives, chosen.group))
            first_child = np.array([0, len(positives)], dtype=np.int64)
        return LayerProblem(
            self.X,
            self.instances.slice(begin, end),
            positives,
            first_child,
            self.instance_weights,
            self.first_parent + begin,
        )


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """Parents of a level that are solved together, or a group of the children of one parent."""

    level: int
    begin: int
    end: int
    group: int | None = None  # of `LANES` children, those with the most positives first
    cost: float = 1.0

    @property
    def name(self) -> str:
        """A name for its result."""
        group = "" if self.group is None else f"-{self.group}"
        return f"{self.level}-{self.begin}-{self.end}{group}"


@keepable
@dataclass(frozen=True, slots=True, eq=False)
class SolvedParents:
    """Weights of the children of some parents, as `LayerWeights` has them."""

    n_rows: NDArray[np.int64]  # features of each parent, (n_parents,)
    features: Ids  # (n_rows,)
    n_entries: Ids  # of each feature, (n_rows,)
    children: NDArray[np.uint16]  # (n_entries,)
    weights: Floats  # (n_entries,)
    bias: Floats  # (n_children,)
    n_unconverged: int

    @property
    def part(self) -> LayerPart:
        """The weights alone."""
        return (
            self.n_rows, self.features, self.n_entries, self.children, self.weights, self.bias,
        )  # fmt: skip


def plan_ranges(sizes: Sequence[tuple[Offsets, Offsets]]) -> list[Range]:
    """Ranges that cost about the same, for all levels; the data alone decides.

    A level is given by the offsets of each parent's instances and of its children. The children of
    a parent that costs too much, such as the root, are solved in groups.
    """
    costs = [np.diff(instances) * -(-np.diff(children) // LANES) for instances, children in sizes]
    most = max(LEAST_COST, sum(int(cost.sum()) for cost in costs) // MOST_RANGES)
    found: list[Range] = []
    for level, (cost, (_, children)) in enumerate(zip(costs, sizes, strict=True)):
        for begin, end in _cut(cost, most):
            n_groups = -(-int(children[end] - children[begin]) // LANES)
            total = float(cost[begin:end].sum())
            if end - begin > 1 or total <= most or n_groups < 2:
                found.append(Range(level, begin, end, cost=total))
                continue
            each = total / n_groups
            found.extend(Range(level, begin, end, group, each) for group in range(n_groups))
    return found


def _cut(cost: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Ranges of at most that cost, and of one parent where it costs more."""
    before, begin = offsets_of(cost), 0
    while begin < len(cost):
        end = int(np.searchsorted(before, before[begin] + most, side="right")) - 1
        end = min(len(cost), max(end, begin + 1))
        yield begin, end
        begin = end


def _choose_children(positives: Csr, group: int) -> NDArray[np.int64]:
    """Children of a group, ascending: alike in their number of positives, they end together."""
    order = np.argsort(-np.diff(positives.indptr), kind="stable")
    return np.sort(order[LANES * group : LANES * (group + 1)])


def solve(problem: LayerProblem, config: LearnConfig, *, seed: int) -> SolvedParents:
    """Train the children of every parent of a problem, in one thread.

    What a parent gets depends on its own instances, on its number in the level and on the seed.
    """
    rule, prune = solver_rules(config, seed)
    instances, positives = problem.instances, problem.positives
    weights = weigh_positives(positives, config.weights, problem.instance_weights)
    return SolvedParents(
        *_native.solve_parents(
            problem.X.arrays,
            problem.X.n_cols,
            (instances.indptr, instances.indices),
            (positives.indptr, positives.indices, weights),
            problem.first_child,
            rule,
            prune,
            first_parent=problem.first_parent,
        )
    )


def weigh_positives(positives: Csr, weights: str, instance_weights: Floats | None) -> Floats:
    """The weight of every positive of a layer, (n_entries,); empty if all of them are one.

    This is the only place that decides what a positive weighs. `positives` (children x instances)
    holds counts, summed over the labels below each child: "binary" ignores them, so an instance
    weighs one for a node no matter how many positives it has below it. An instance's own weight,
    such as that of a title, multiplies the result.
    """
    counts = positives.data
    if weights == "binary":
        counts = counts[:0] if instance_weights is None else np.ones_like(counts)
    elif weights == "log":
        counts = np.maximum(1 + np.log(counts), 1e-6).astype(np.float32)
    return counts if instance_weights is None else counts * instance_weights[positives.indices]


def solver_rules(config: LearnConfig, seed: int) -> tuple[_native.SolverRule, _native.PruneRule]:
    """The solver's part of the configuration."""
    rule = _native.SolverRule(
        positive_cost=config.C * config.positive_weight,
        negative_cost=config.C * config.negative_weight,
        bias=config.bias,
        tol=config.tol,
        max_iter=config.max_iter,
        seed=seed,
    )
    unlimited = 2**63 - 1
    prune = _native.PruneRule(
        threshold=config.threshold,
        max_weights=unlimited if config.max_weights is None else config.max_weights,
    )
    return rule, prune


def order_parents(
    parts: Sequence[tuple[Range, SolvedParents]], positives: Csr, first_child: Offsets
) -> list[SolvedParents]:
    """Ranges of a level one after another; groups of the children of a parent become one."""
    ordered: list[SolvedParents] = []
    for (begin, end), same in groupby(sorted(parts, key=_begin), key=lambda part: _begin(part)[:2]):
        found = list(same)
        if found[0][0].group is None:
            ordered.extend(part for _, part in found)
            continue
        own = positives.slice(int(first_child[begin]), int(first_child[end]))
        children = [_choose_children(own, one.group or 0) for one, _ in found]
        ordered.append(_merge([part for _, part in found], children))
    return ordered


def _begin(part: tuple[Range, SolvedParents]) -> tuple[int, int, int]:
    return part[0].begin, part[0].end, part[0].group or 0


def _merge(groups: list[SolvedParents], children: list[NDArray[np.int64]]) -> SolvedParents:
    """One parent from groups of its children, whose numbers are given."""
    # Each group is in this order already: a stable sort merges them.
    keys = [
        np.repeat(part.features, part.n_entries).astype(np.int64) << 16 | own[part.children]
        for part, own in zip(groups, children, strict=True)
    ]
    order = np.argsort(np.concatenate(keys), kind="stable")
    key = np.concatenate(keys)[order]
    begin = np.flatnonzero(np.diff(key >> 16, prepend=-1))  # of each feature
    bias = np.empty(sum(map(len, children)), dtype=np.float32)
    for part, own in zip(groups, children, strict=True):
        bias[own] = part.bias
    return SolvedParents(
        np.array([len(begin)], dtype=np.int64),
        (key[begin] >> 16).astype(np.int32),
        np.diff(begin, append=len(key)).astype(np.int32),
        (key & 0xFFFF).astype(np.uint16),
        np.concatenate([part.weights for part in groups])[order],
        bias,
        sum(part.n_unconverged for part in groups),
    )


def join_parents(parts: Sequence[SolvedParents]) -> LayerWeights:
    """The layer of all parents, one after another."""

    def join(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    return LayerWeights(
        offsets_of(join("n_rows")),
        join("features"),
        offsets_of(join("n_entries")),
        join("children"),
        join("weights"),
        join("bias"),
    )
