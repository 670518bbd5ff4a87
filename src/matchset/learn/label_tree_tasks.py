"""Tasks of a label tree: how do many machines cut the labels of a large one?

A tree of up to `LABELS_PER_TASK` labels is cut by one task. In a larger one, a task cuts the top,
and others the subtrees below it. Cuts are seeded by their place, so a subtree is cut as it would be
inside the whole tree; a node at the top is cut by a sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from matchset.config import LearnConfig
from matchset.learn.label_tree import (
    Subtree,
    build_tree,
    cut_top,
    order_subtree,
    plan_offsets,
    plan_splits,
)
from matchset.learn.tree_tasks import TreeSource
from matchset.model.tree import LabelTree
from matchset.work.tasks import Job, Results, Task

LABELS_PER_TASK = 2_000_000
SAMPLED_LABELS = 500_000  # of a node at the top, by which it is cut


def plan_top(given: Mapping[str, Any], results: Results) -> list[Task]:
    """The task that cuts the top of a large tree."""
    prefix = given["source"].prefix
    if not _is_cut(results, prefix):
        return []
    arguments = {**given, "most": LABELS_PER_TASK, "n_sampled": SAMPLED_LABELS}
    return [Task(prefix + "tree.top", _cut_top, arguments, is_wide=True)]


def plan_subtrees(given: Mapping[str, Any], results: Results) -> list[Task]:
    """A task for each subtree below the top of a large tree."""
    prefix = given["source"].prefix
    return [
        Task(_subtree_name(prefix, one), _cut_subtree, {**given, "subtree": one}, is_wide=True)
        for one in _read_subtrees(results, prefix)
    ]


def plan_tree(given: Mapping[str, Any], results: Results) -> list[Task]:
    """The task that makes the tree; it is told how the labels were cut."""
    prefix = given["source"].prefix
    arguments = {**given, "subtrees": _read_subtrees(results, prefix)}
    return [Task(prefix + "tree", _build, arguments, is_wide=True)]


def _build(
    job: Job, source: TreeSource, config: LearnConfig, subtrees: Sequence[Subtree]
) -> Mapping[str, Any]:
    """The tree over the labels that have positives."""
    placed = job.results.get(source.prefix + "embed", "placed")
    if subtrees:
        names = [_subtree_name(source.prefix, one) for one in subtrees]
        order = np.concatenate([job.results.get(name, "labels") for name in names])
        offsets = plan_offsets(len(placed), _plan_splits(len(placed), config))
        return {"tree": LabelTree(placed[order], offsets)}
    tree = build_tree(
        job.results.get(source.prefix + "embed", "Z"),
        branching=config.branching,
        max_leaf_size=config.max_leaf_size,
        **_cut_rule(job, config),
    )
    return {"tree": LabelTree(placed[tree.labels], tree.offsets)}


def _cut_top(
    job: Job, source: TreeSource, config: LearnConfig, most: int, n_sampled: int
) -> Mapping[str, Any]:
    """The labels in the order of the subtrees, and these."""
    Z = job.results.get(source.prefix + "embed", "Z")
    splits, rule = _plan_splits(len(Z), config), _cut_rule(job, config)
    order, subtrees = cut_top(Z, splits, most=most, n_sampled=n_sampled, **rule)
    return {"order": order, "subtrees": subtrees}


def _cut_subtree(
    job: Job, source: TreeSource, config: LearnConfig, subtree: Subtree
) -> Mapping[str, Any]:
    """The labels of a subtree, in the order of the whole tree."""
    Z = job.results.get(source.prefix + "embed", "Z")
    order = job.results.get(source.prefix + "tree.top", "order")
    labels = order[subtree.begin : subtree.end]
    splits = _plan_splits(len(Z), config)
    found = order_subtree(Z.take(labels), splits, subtree, **_cut_rule(job, config))
    return {"labels": labels[found]}


def _plan_splits(n_labels: int, config: LearnConfig) -> tuple[int, ...]:
    return plan_splits(n_labels, config.branching, config.max_leaf_size)


def _cut_rule(job: Job, config: LearnConfig) -> dict[str, int]:
    return {
        "max_iter": config.kmeans_max_iter, "seed": config.seed, "threads": job.threads,
    }  # fmt: skip


def _is_cut(results: Results, prefix: str) -> bool:
    """Whether the tree is large; the number of labels decides, not which results can be seen."""
    return len(results.get(prefix + "embed", "placed")) > LABELS_PER_TASK


def _read_subtrees(results: Results, prefix: str) -> list[Subtree]:
    """The subtrees of a large tree; none if one task cuts it."""
    found: list[Subtree] = []
    if _is_cut(results, prefix):
        found = results.get(prefix + "tree.top", "subtrees")
    return found


def _subtree_name(prefix: str, subtree: Subtree) -> str:
    return f"{prefix}tree.part/{subtree.begin}-{subtree.end}"
