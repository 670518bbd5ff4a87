"""Layer training: which weights distinguish the children of each node?"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import LearnConfig
from matchset.matrices import Csr, Floats, Ids, Offsets, offsets_of
from matchset.model.tree import LayerPart, LayerWeights
from matchset.work.cuts import CUTS, Cuts

logger = logging.getLogger(__name__)

LANES = 16  # children that are solved side by side, in one pass over the instances
# A parent that costs many times more, such as the root, is solved by several threads: by one for
# each of these children, if there are so many.
MANY_RANGES, LEAST_LANES, MOST_THREADS = 4, 4, 8


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
        """Return the problem of a range of parents."""
        begin, end = chosen.begin, chosen.end
        first, last = int(self.first_child[begin]), int(self.first_child[end])
        return LayerProblem(
            self.X,
            self.instances.slice(begin, end),
            self.positives.slice(first, last),
            self.first_child[begin : end + 1] - first,
            self.instance_weights,
            self.first_parent + begin,
        )


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """Parents of a level that are solved together."""

    level: int
    begin: int
    end: int
    cost: float = 1.0
    threads: int = 1  # that share the work, if there are so many


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


def plan_ranges(sizes: Sequence[tuple[Offsets, Offsets]], cuts: Cuts = CUTS) -> list[Range]:
    """Return ranges that cost about the same, for all levels; the data alone decides.

    A level is given by the offsets of each parent's instances and of its children.
    """
    costs = [np.diff(instances) * -(-np.diff(children) // LANES) for instances, children in sizes]
    most = max(cuts.solve_cost, sum(int(cost.sum()) for cost in costs) // cuts.solve_ranges)
    found: list[Range] = []
    for level, (cost, (_, children)) in enumerate(zip(costs, sizes, strict=True)):
        for begin, end in _cut(cost, most):
            total, threads = float(cost[begin:end].sum()), 1
            if total > MANY_RANGES * most:
                n_children = int(children[end] - children[begin])
                threads = min(MOST_THREADS, -(-n_children // LEAST_LANES))
            found.append(Range(level, begin, end, total, threads))
    return found


def _cut(cost: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of at most that cost, and of one parent where it costs more."""
    before, begin = offsets_of(cost), 0
    while begin < len(cost):
        end = int(np.searchsorted(before, before[begin] + most, side="right")) - 1
        end = min(len(cost), max(end, begin + 1))
        yield begin, end
        begin = end


def solve(
    problem: LayerProblem, config: LearnConfig, *, seed: int, threads: int = 1
) -> SolvedParents:
    """Train the children of every parent of a problem, one parent after another.

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
            threads=threads,
        )
    )


def weigh_positives(positives: Csr, weights: str, instance_weights: Floats | None) -> Floats:
    """Return the weight of every positive of a layer, (n_entries,); empty if all are one.

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
    """Return the solver's part of the configuration."""
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


def join_parents(parts: Sequence[SolvedParents]) -> LayerWeights:
    """Join the parents of a layer, one after another."""

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


def warn_of_tree(
    n_unconverged: int, n_weights: int, n_classifiers: int, config: LearnConfig
) -> None:
    """Warn of classifiers that did not converge, and of a threshold that left almost nothing.

    It is absolute: the larger the values of features are, the smaller are the weights they need.
    """
    if n_unconverged:
        logger.warning(
            "%s of %s classifiers did not converge within max_iter=%d passes; "
            "a smaller C, scaled features or a larger max_iter may help",
            f"{n_unconverged:,}",
            f"{n_classifiers:,}",
            config.max_iter,
        )
    if config.threshold > 0 and n_weights < n_classifiers:
        logger.warning(
            "threshold=%g leaves %s weights for %s classifiers, fewer than one each; "
            "a lower threshold or features of smaller values may help",
            config.threshold,
            f"{n_weights:,}",
            f"{n_classifiers:,}",
        )
