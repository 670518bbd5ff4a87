"""Layer training: which weights tell the children of each node apart?"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from matchset import _native
from matchset.config import LearnConfig
from matchset.learn.sinks import Part, Sink
from matchset.matrices import Csr, Floats, Offsets
from matchset.model.tree import LayerWeights

log = logging.getLogger(__name__)

# Enough instances for the threads to share evenly, few enough to report and to stop in between.
BATCH_INSTANCES = 200_000


@dataclass(frozen=True, slots=True, eq=False)
class LayerProblem:
    """What the children of some parents learn from."""

    X: Csr  # instances x features
    instances: Csr  # parents x instances
    positives: Csr  # children x instances; values as summed up the tree
    first_child: Offsets  # of each parent, and the end, (n_parents + 1,)


def train_layer(
    problem: LayerProblem,
    config: LearnConfig,
    *,
    seed: int,
    threads: int,
    sink: Sink,
    on_parents: Callable[[int], None],
) -> LayerWeights:
    """Solve the children of every parent, in batches.

    After each batch its weights go to `sink`, and `on_parents` hears how many parents are done. An
    exception leaves nothing of the layer in the sink.
    """
    try:
        _solve_parents(problem, config, seed=seed, threads=threads, sink=sink, heard=on_parents)
    except BaseException:  # also Ctrl-C
        sink.discard()
        raise
    return sink.close()


def _solve_parents(
    problem: LayerProblem,
    config: LearnConfig,
    *,
    seed: int,
    threads: int,
    sink: Sink,
    heard: Callable[[int], None],
) -> None:
    rule, prune = solver_rules(config, seed)
    instances, positives = problem.instances, problem.positives
    weights = weigh_positives(positives.data, config.weights)
    n_unfinished = 0
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
        sink.add(cast("Part", tuple(part)))
        n_unfinished += n_given_up
        heard(end)
    if n_unfinished:
        log.info("%d of %d problems used up max_passes", n_unfinished, len(positives))


def weigh_positives(counts: Floats, weights: str) -> Floats:
    """Weight of each positive from its count, summed up the tree; empty where all are one."""
    if weights == "binary":
        return counts[:0]
    if weights == "log":
        counts = np.maximum(1 + np.log(counts), 1e-6).astype(np.float32)
    return counts


def solver_rules(config: LearnConfig, seed: int) -> tuple[_native.SolverRule, _native.PruneRule]:
    """The solver's part of the configuration."""
    rule = _native.SolverRule(
        positive_cost=config.C * config.positive_weight,
        negative_cost=config.C * config.negative_weight,
        bias=config.bias,
        tol=config.tolerance,
        max_iter=config.max_passes,
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
