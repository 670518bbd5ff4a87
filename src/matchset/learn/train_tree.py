"""Training of a tree: how do instances and their labels become a model?"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise

import numpy as np

from matchset.config import LearnConfig, Precision, count_threads
from matchset.learn.embeddings import embed_labels
from matchset.learn.label_tree import (
    Subtree,
    cut_labels,
    cut_top,
    order_subtree,
    plan_offsets,
    plan_splits,
)
from matchset.learn.layers import (
    LayerProblem,
    Range,
    SolvedParents,
    join_parents,
    plan_ranges,
    solve,
    warn_of_tree,
)
from matchset.learn.negatives import propagate_labels, select_instances
from matchset.learn.training_data import Examples
from matchset.matrices import Csr, Ids, join_rows, offsets_of
from matchset.model.packed import PackedArrays, PackedTree, join_packed, pack_parents
from matchset.model.tree import LabelTree, TreeModel
from matchset.work.cuts import CUTS, Cuts, plan_parts
from matchset.work.steps import Progress, Steps, ignore, open_steps

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class SolvedTree:
    """A tree, and the weights of ranges of its parents, in the order of levels and parents."""

    tree: LabelTree
    ranges: list[Range]
    parts: list[SolvedParents]

    def level(self, level: int) -> list[SolvedParents]:
        """Return the parts of a level."""
        pairs = zip(self.ranges, self.parts, strict=True)
        return [part for one, part in pairs if one.level == level]

    @property
    def n_unconverged(self) -> tuple[int, ...]:
        """Classifiers of each level that used up `max_iter` before they converged."""
        levels = range(self.tree.depth)
        return tuple(sum(part.n_unconverged for part in self.level(n)) for n in levels)

    @property
    def n_weights(self) -> tuple[int, ...]:
        """Weights of each level."""
        levels = range(self.tree.depth)
        return tuple(sum(len(part.weights) for part in self.level(n)) for n in levels)


@dataclass(frozen=True, slots=True, eq=False)
class TrainedTree:
    """A model, and how many classifiers of each layer used up `max_iter` before they converged."""

    model: TreeModel
    n_unconverged: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TreePart:
    """A packed tree, and what is told of its training."""

    packed: PackedTree
    n_weights: tuple[int, ...]  # of each layer
    n_unconverged: int  # classifiers


def train(
    examples: Examples,
    config: LearnConfig,
    *,
    progress: Callable[[Progress], None] = ignore,
    cuts: Cuts = CUTS,
) -> TrainedTree:
    """Train a tree over matrices, and join its layers."""
    threads = count_threads(config.threads)
    with open_steps(threads=threads, progress=progress, cuts=cuts) as step:
        solved = solve_tree(step, examples, config)
    layers = tuple(join_parents(solved.level(level)) for level in range(solved.tree.depth))
    model = TreeModel(solved.tree, layers, examples.X.n_cols, examples.Y.n_cols)
    warn_of_tree(sum(solved.n_unconverged), model.n_weights, sum(solved.tree.sizes), config)
    return TrainedTree(model, solved.n_unconverged)


def solve_tree(step: Steps, examples: Examples, config: LearnConfig) -> SolvedTree:
    """Embed the labels, cluster them into a tree, then solve all of its layers.

    Labels without a positive have nothing to learn from: they are left out of the tree and are
    never predicted.
    """
    Z, placed = embed(step, examples, config)
    tree = cluster(step, Z, placed, config)
    del Z
    levels = step("levels", propagate, examples, tree)
    root = np.array([0, len(examples.X)])
    instances_of = [root, *(rows.indptr for rows in levels[: tree.depth - 1])]
    ranges = plan_ranges(list(zip(instances_of, tree.offsets, strict=True)), step.cuts)
    if config.negatives == "tfn":  # teacher forcing: no layer waits for another
        task = partial(_solve_range, examples, tree, levels, None, config)
        return SolvedTree(tree, ranges, step.map("solve", task, ranges))
    solved = SolvedTree(tree, [], [])
    for level in range(tree.depth):
        instances = step(f"select.{level}", _select, examples, solved, config, step.threads)
        task = partial(_solve_range, examples, tree, levels, instances, config)
        own = [one for one in ranges if one.level == level]
        parts = solved.parts + step.map(f"solve.{level}", task, own)
        solved = SolvedTree(tree, solved.ranges + own, parts)
    return solved


def embed(step: Steps, examples: Examples, config: LearnConfig) -> tuple[Csr, Ids]:
    """Return vectors of the labels that have positives, and which these are."""
    parts = plan_parts(examples.Y.n_cols, step.cuts.labels)
    found = step.map("embed", partial(_embed_range, examples, config), parts, is_wide=True)
    Z = found[0][0] if len(found) == 1 else step("embed.join", join_rows, [Z for Z, _ in found])
    placed = np.concatenate([some for _, some in found])
    logger.info("%d of %d labels have positives", len(placed), examples.Y.n_cols)
    return Z, placed


def _embed_range(
    examples: Examples, config: LearnConfig, labels: range, *, threads: int
) -> tuple[Csr, Ids]:
    """Return the vectors of the labels of a range that have positives, and which these are."""
    by_label = examples.Y.transposed_columns(labels)
    own = np.flatnonzero(np.diff(by_label.indptr)).astype(np.int32)
    if len(own) < len(by_label):
        by_label = by_label.take(own)
    placed = own + np.int32(labels.start)
    vectors = examples.label_vectors
    Z = embed_labels(
        examples.X,
        by_label,
        given=None if vectors is None else vectors.take(placed),
        config=config,
        threads=threads,
        n_labels=np.diff(examples.Y.indptr) if config.pifa_normalize else None,
    )
    return Z, placed


def cluster(step: Steps, Z: Csr, placed: Ids, config: LearnConfig) -> LabelTree:
    """Cut the labels into a tree: in one task, or the top in one and each subtree in another.

    Cuts are seeded by their place, so a subtree is cut as it would be inside the whole tree; a node
    at the top is cut by a sample.
    """
    splits = plan_splits(len(placed), config.branching, config.max_leaf_size)
    rule = {"max_iter": config.kmeans_max_iter, "seed": config.seed}
    if len(placed) <= step.cuts.tree_labels:
        return step("tree", _build_tree, Z, placed, splits, **rule, threads=step.threads)
    most = {"most": step.cuts.tree_labels, "n_sampled": step.cuts.sampled_labels}
    order, subtrees = step("tree.top", cut_top, Z, splits, **most, **rule, threads=step.threads)
    task = partial(_cut_subtree, Z, order, splits, rule)
    labels = placed[np.concatenate(step.map("tree.part", task, subtrees, is_wide=True))]
    return step("tree", LabelTree, labels, plan_offsets(len(placed), splits))


def _build_tree(
    Z: Csr, placed: Ids, splits: tuple[int, ...], *, max_iter: int, seed: int, threads: int
) -> LabelTree:
    tree = cut_labels(Z, splits, max_iter=max_iter, seed=seed, threads=threads)
    return LabelTree(placed[tree.labels], tree.offsets)


def _cut_subtree(
    Z: Csr,
    order: Ids,
    splits: tuple[int, ...],
    rule: Mapping[str, int],
    subtree: Subtree,
    *,
    threads: int,
) -> Ids:
    """Return the labels of a subtree, in the order of the whole tree."""
    labels = order[subtree.begin : subtree.end]
    return labels[order_subtree(Z.take(labels), splits, subtree, **rule, threads=threads)]


def propagate(examples: Examples, tree: LabelTree) -> tuple[Csr, ...]:
    """Return the positives of every node, level by level: nodes x instances."""
    pairs = examples.Y if examples.pair_weights is None else examples.pair_weights
    return tuple(rows.transposed() for rows in propagate_labels(pairs, tree))


def _select(examples: Examples, solved: SolvedTree, config: LearnConfig, threads: int) -> Csr:
    """Return parents x instances: what the children of the next level are trained on."""
    tree = solved.tree
    pairs = examples.Y if examples.pair_weights is None else examples.pair_weights
    levels = sorted({one.level for one in solved.ranges})
    layers = tuple(join_parents(solved.level(level)) for level in levels)
    given = None if examples.negatives is None else propagate_labels(examples.negatives, tree)
    return select_instances(
        examples.X,
        TreeModel(tree, layers, examples.X.n_cols, examples.Y.n_cols),
        positives=propagate_labels(pairs, tree),
        given=given,
        config=config,
        threads=threads,
    )


def _solve_range(
    examples: Examples,
    tree: LabelTree,
    levels: Sequence[Csr],
    instances: Csr | None,
    config: LearnConfig,
    chosen: Range,
    *,
    threads: int,
) -> SolvedParents:
    """Return the weights of a range of parents; with teacher forcing, `instances` are positives."""
    level, n = chosen.level, len(examples.X)
    if instances is None and level > 0:
        instances = levels[level - 1]
    elif instances is None:
        everything = np.arange(n, dtype=np.int32)
        instances = Csr(np.array([0, n]), everything, np.ones(n, dtype=np.float32), n)
    problem = LayerProblem(
        examples.X, instances, levels[level], tree.offsets[level], examples.instance_weights
    )
    seed = config.seed * 64 + level  # a tree is never that deep
    return solve(problem.take(chosen), config, seed=seed, threads=min(threads, chosen.threads))


def train_tree(
    step: Steps, examples: Examples, config: LearnConfig, precision: Precision
) -> TreePart:
    """Train a tree, and pack its weights: in one task, or in several by ranges of its parents."""
    solved = solve_tree(step, examples, config)
    n_features, n_labels, tree = examples.X.n_cols, examples.Y.n_cols, solved.tree
    pairs = list(zip(solved.ranges, solved.parts, strict=True))
    before = offsets_of([int(one.cost) for one in solved.ranges])
    cut = np.flatnonzero(np.diff(before[:-1] // step.cuts.pack_cost)) + 1
    chosen = [pairs[begin:end] for begin, end in pairwise([0, *cut.tolist(), len(pairs)])]
    task = partial(_pack_ranges, tree, n_features, precision)
    parts = step.map("pack", task, chosen, is_wide=True)
    packed = parts[0] if len(parts) == 1 else step("pack.join", join_packed, parts)
    n_weights = sum(solved.n_weights)
    return TreePart(
        PackedTree(tree.labels, *packed, tree.sizes, n_features, n_labels, n_weights, precision),
        solved.n_weights,
        sum(solved.n_unconverged),
    )


def _pack_ranges(
    tree: LabelTree,
    n_features: int,
    precision: Precision,
    chosen: Sequence[tuple[Range, SolvedParents]],
    *,
    threads: int,
) -> PackedArrays:
    """Pack some parents of a tree by themselves."""
    layers = []
    for level, pairs in groupby(chosen, key=lambda pair: pair[0].level):
        ranges, parts = zip(*pairs, strict=True)
        first = tree.offsets[level][ranges[0].begin : ranges[-1].end + 1]
        layers.append((first, [part.part for part in parts]))
    return pack_parents(layers, n_features, is_whole=False, precision=precision, threads=threads)
