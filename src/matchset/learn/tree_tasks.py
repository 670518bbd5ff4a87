"""Tasks of a tree: what does each step of its training read, and what does it make?"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from matchset.config import LearnConfig
from matchset.learn.layers import (
    LayerProblem,
    Range,
    SolvedParents,
    join_parents,
    order_parents,
    plan_ranges,
    solve,
)
from matchset.learn.negatives import propagate_labels, select_instances
from matchset.learn.training_data import Examples
from matchset.matrices import Csr
from matchset.model.tree import TreeModel
from matchset.work.tasks import Job, Results, Task

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class TrainedTree:
    """A model, and how many classifiers of each layer used up `max_iter` before they converged."""

    model: TreeModel
    n_unconverged: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TreeSource:
    """Where a tree's examples are, and where its results go."""

    examples: str  # task whose result has them
    prefix: str  # of the names of its stages, such as "final/"
    reads_titles: bool = True  # whether it learns from all examples, or from queries alone

    def read(self, results: Results) -> Examples:
        """The examples."""
        examples: Examples = results.get(self.examples, "examples")
        if self.reads_titles:
            return examples
        return examples.head(results.get(self.examples, "n_queries"))


def is_teacher_forcing(config: LearnConfig) -> bool:
    """Whether no layer needs another one to be trained."""
    return config.negatives == "tfn"


def propagate(job: Job, source: TreeSource) -> Mapping[str, Any]:
    """The positives of every node, level by level: nodes x instances."""
    examples = source.read(job.results)
    pairs = examples.Y if examples.pair_weights is None else examples.pair_weights
    levels = propagate_labels(pairs, job.results.get(source.prefix + "tree", "tree"))
    return {str(level): rows.transposed() for level, rows in enumerate(levels)}


def _select(
    job: Job,
    *,
    source: TreeSource,
    config: LearnConfig,
    level: int,
    ranges: Sequence[Range],
) -> Mapping[str, Any]:
    """What the parents of a level are trained on, where it is more than their positives."""
    examples, tree = source.read(job.results), job.results.get(source.prefix + "tree", "tree")
    pairs = examples.Y if examples.pair_weights is None else examples.pair_weights
    given = None if examples.negatives is None else propagate_labels(examples.negatives, tree)
    above = [read_parts(job.results, source, upper, ranges) for upper in range(level)]
    layers = tuple(map(join_parents, above))
    top = TreeModel(tree, layers, examples.X.n_cols, examples.Y.n_cols)
    instances = select_instances(
        examples.X,
        top,
        positives=propagate_labels(pairs, tree),
        given=given,
        config=config,
        threads=job.threads,
    )
    return {"instances": instances}


def _solve(
    job: Job,
    *,
    source: TreeSource,
    config: LearnConfig,
    chosen: Range,
) -> Mapping[str, Any]:
    """The weights of a range of parents."""
    problem = make_problem(job.results, source, config, chosen.level)
    seed = config.seed * 64 + chosen.level  # a tree is never that deep
    return {"solved": solve(problem.take(chosen), config, seed=seed, threads=job.threads)}


def make_problem(
    results: Results, source: TreeSource, config: LearnConfig, level: int
) -> LayerProblem:
    """What all children of a level are trained on; `solve` takes ranges of it."""
    examples, tree = source.read(results), results.get(source.prefix + "tree", "tree")
    return LayerProblem(
        examples.X,
        _read_instances(results, source, config, level),
        results.get(source.prefix + "levels", str(level)),
        tree.offsets[level],
        examples.instance_weights,
    )


def _read_instances(results: Results, source: TreeSource, config: LearnConfig, level: int) -> Csr:
    """Parents x instances; with teacher forcing they are the positives of the parents."""
    if level > 0:
        if is_teacher_forcing(config):
            above: Csr = results.get(source.prefix + "levels", str(level - 1))
            return above
        found: Csr = results.get(source.prefix + f"select.{level}", "instances")
        return found
    n = len(source.read(results).X)
    everything = np.arange(n, dtype=np.int32)
    return Csr(np.array([0, n]), everything, np.ones(n, dtype=np.float32), n)


def plan_selection(given: Mapping[str, Any], level: int, results: Results) -> list[Task]:
    """A task that selects the instances of a level; none for the root, which learns from all."""
    source = given["source"]
    if not 0 < level < results.get(source.prefix + "tree", "tree").depth:
        return []
    name = source.prefix + f"select.{level}"
    arguments = {**given, "level": level, "ranges": list_ranges(results, source)}
    return [Task(name, _select, arguments, is_wide=True)]


def plan_solving(given: Mapping[str, Any], *which: Any) -> list[Task]:
    """A task for every range of parents, of one level or of all."""
    *levels, results = which
    source: TreeSource = given["source"]
    return [
        Task(_name(source, one), _solve, {**given, "chosen": one}, one.cost, threads=one.threads)
        for one in list_ranges(results, source)
        if not levels or one.level == levels[0]
    ]


def _name(source: TreeSource, chosen: Range) -> str:
    return f"{source.prefix}solve.{chosen.level}/{chosen.name}"


def list_ranges(results: Results, source: TreeSource) -> list[Range]:
    """The ranges of all levels; how they are cut depends on the positives alone."""
    tree = results.get(source.prefix + "tree", "tree")
    n_instances = np.array([0, len(source.read(results).X)], dtype=np.int64)
    levels = [results.get(source.prefix + "levels", str(n)).indptr for n in range(tree.depth - 1)]
    return plan_ranges(list(zip([n_instances, *levels], tree.offsets, strict=True)))


def read_parts(
    results: Results, source: TreeSource, level: int, ranges: Sequence[Range]
) -> list[SolvedParents]:
    """What the ranges of a level make, its parents one after another."""
    own = [one for one in ranges if one.level == level]
    return order_parents([(one, results.get(_name(source, one), "solved")) for one in own])


def join_layers(results: Results, source: TreeSource, ranges: Sequence[Range]) -> TrainedTree:
    """The model that all ranges make; they are freed on the way."""
    examples, tree = source.read(results), results.get(source.prefix + "tree", "tree")
    layers, n_unconverged = [], []
    for level in range(tree.depth):
        parts = read_parts(results, source, level, ranges)
        layers.append(join_parents(parts))
        n_unconverged.append(sum(part.n_unconverged for part in parts))
        for one in ranges:
            if one.level == level:
                results.forget(_name(source, one))
    model = TreeModel(tree, tuple(layers), examples.X.n_cols, examples.Y.n_cols)
    return TrainedTree(model, tuple(n_unconverged))


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
