"""Layer training: which weights distinguish the children of each node?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import LearnConfig
from matchset.matrices import Csr, Floats, Offsets, offsets_of
from matchset.model.tree import LayerWeights

# Large enough to keep all threads busy, small enough to report progress and to cancel in between.
BATCH_INSTANCES = 200_000


@dataclass(frozen=True, slots=True, eq=False)
class LayerProblem:
    """What the children of all parents of a level are trained on."""

    X: Csr  # instances x features
    instances: Csr  # parents x instances
    positives: Csr  # children x instances; values are counts, summed over the labels below
    first_child: Offsets  # of each parent, and the end, (n_parents + 1,)
    instance_weights: Floats | None = None  # (n_instances,); None: all one


@dataclass(frozen=True, slots=True, eq=False)
class SolvedLayer:
    """The weights of a layer, and how many of its classifiers did not converge."""

    weights: LayerWeights
    n_unconverged: int


def train_layer(
    problem: LayerProblem,
    config: LearnConfig,
    *,
    seed: int,
    threads: int,
    on_parents: Callable[[int], None],
) -> SolvedLayer:
    """Train the children of every parent, in batches.

    After each batch, `on_parents` gets the number of parents solved so far; an exception it raises
    ends the training.
    """
    rule, prune = solver_rules(config, seed)
    instances, positives = problem.instances, problem.positives
    weights = weigh_positives(positives, config.weights, problem.instance_weights)
    parts: list[list[NDArray[Any]]] = []
    n_unconverged = 0
    for begin, end in _batches(instances, threads):
        *part, n_given_up = _native.solve_parents(
            problem.X.arrays,
            problem.X.n_cols,
            (instances.indptr, instances.indices),
            (positives.indptr, positives.indices, weights),
            problem.first_child,
            begin,
            end,
            rule,
            prune,
            threads=threads,
        )
        parts.append(cast("list[NDArray[Any]]", part))
        n_unconverged += n_given_up
        on_parents(end)
    return SolvedLayer(_join_parts(parts), n_unconverged)


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


def _batches(instances: Csr, threads: int) -> Iterator[tuple[int, int]]:
    n_parents, begin = len(instances), 0
    while begin < n_parents:
        full = instances.indptr[begin] + BATCH_INSTANCES
        end = int(np.searchsorted(instances.indptr, full, side="right")) - 1
        end = min(n_parents, max(end, begin + 4 * threads))
        yield begin, end
        begin = end


def _join_parts(parts: list[list[NDArray[Any]]]) -> LayerWeights:
    """The batches as one layer; concatenates array by array, so that only one is held twice."""
    columns = [list(arrays) for arrays in zip(*parts, strict=True)]
    parts.clear()
    joined = []
    for arrays in columns:
        joined.append(np.concatenate(arrays))
        arrays.clear()
    n_rows, features, n_entries, children, weights, bias = joined
    return LayerWeights(
        offsets_of(n_rows), features, offsets_of(n_entries), children, weights, bias
    )
