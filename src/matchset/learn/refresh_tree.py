"""Refreshing a tree: which leaves are solved again when pairs and products have changed?

The structure stays. A leaf is solved again where one of its products has come, gone, or has other
pairs than before; a product with its first pair goes to the leaf whose products are most like it. A
leaf that has grown to more than one and a half times its size is split, and the children of its
parent are solved again. Where more than one leaf in twenty is solved again, so are all layers above
the leaves; else they stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from matchset.config import LearnConfig
from matchset.learn.embeddings import embed_labels, normalize_rows
from matchset.learn.label_tree import build_tree, cut_labels
from matchset.learn.layers import (
    LayerProblem,
    Range,
    SolvedParents,
    join_parents,
    plan_ranges,
    solve,
)
from matchset.learn.negatives import propagate_labels, select_instances
from matchset.learn.training_data import Examples
from matchset.matrices import Csr, Ids, Offsets, from_scipy, offsets_of, take_entries
from matchset.model.packed import PackedTree, pack, unpack
from matchset.model.tree import LabelTree, LayerWeights, TreeModel

_LARGEST = 1.5  # leaves of more than this many times their size are split
_COMPARED = 1024  # products whose nearest leaves are looked for at once
_MOST_CHANGED = 0.05  # of the leaves, while the layers above them stay
_SOLVED = -1  # in place of the parent whose weights stay


@dataclass(frozen=True, slots=True, eq=False)
class RefreshedTree:
    """A tree, and how much of it was solved again."""

    tree: PackedTree
    n_leaves: int
    n_solved: int  # leaves
    n_split: int  # leaves that were too large
    is_solved_above: bool  # whether all layers above the leaves were solved again, too


@dataclass(frozen=True, slots=True, eq=False)
class _Shape:
    """A tree, and for each parent of each level the old one whose weights stay, or `_SOLVED`."""

    tree: LabelTree
    sources: tuple[Ids, ...]
    n_split: int = 0


def refresh_tree(
    packed: PackedTree,
    examples: Examples,
    is_changed: NDArray[np.bool_],
    config: LearnConfig,
    *,
    label_of: Ids,
    feature_of: Ids,
    threads: int,
) -> RefreshedTree:
    """Solve again what `is_changed` (n_labels,) and other products make necessary.

    `label_of` and `feature_of` give the new number of each old label, -1 if it is gone, and of each
    old feature; these ascend.
    """
    old = unpack(packed)
    by_label = examples.Y.transposed()
    shape = _place_labels(old.tree, examples.X, by_label, is_changed, label_of, config, threads)
    levels = propagate_labels(examples.Y, shape.tree)
    layers: list[LayerWeights] = []
    for level, sources in enumerate(shape.sources):
        solved: dict[int, list[SolvedParents]] = {}
        if (sources == _SOLVED).any():
            top = TreeModel(shape.tree, tuple(layers), examples.X.n_cols, examples.Y.n_cols)
            problem = _make_problem(examples, top, levels, config, threads)
            solved = _solve_again(problem, level, sources, config, threads)
        kept = _take_kept(old, level, sources, feature_of)
        runs = sorted({**kept, **solved}.items())
        layers.append(join_parents([part for _, run in runs for part in run]))
    model = TreeModel(shape.tree, tuple(layers), examples.X.n_cols, examples.Y.n_cols)
    last = shape.sources[-1]
    return RefreshedTree(
        pack(model, precision=packed.precision, threads=threads),
        len(last),
        int(np.count_nonzero(last == _SOLVED)),
        shape.n_split,
        is_solved_above=all((each == _SOLVED).all() for each in shape.sources[:-1]),
    )


def _place_labels(
    tree: LabelTree,
    X: Csr,
    by_label: Csr,
    is_changed: NDArray[np.bool_],
    label_of: Ids,
    config: LearnConfig,
    threads: int,
) -> _Shape:
    """Return the tree over the labels that have positives now."""
    has_positives = np.diff(by_label.indptr) > 0
    label, leaf = label_of[tree.labels], tree.parents(tree.depth - 1)
    stays = (label >= 0) & has_positives[label]
    is_solved = np.zeros(len(tree.offsets[-1]) - 1, dtype=np.bool_)
    is_solved[leaf[~stays]] = True
    label, leaf = label[stays], leaf[stays]
    is_solved[leaf[is_changed[label]]] = True
    is_new = has_positives.copy()
    is_new[label] = False
    new = np.flatnonzero(is_new).astype(np.int32)
    placed = np.concatenate([label, new])
    Z = embed_labels(X, by_label.take(placed), given=None, config=config, threads=threads)
    nearest = _find_leaves(Z, leaf, len(is_solved))
    is_solved[nearest] = True
    leaf = np.concatenate([leaf, nearest])
    if tree.depth == 1 and len(placed) > _LARGEST * config.max_leaf_size:
        whole = build_tree(
            Z,
            branching=config.branching,
            max_leaf_size=config.max_leaf_size,
            max_iter=config.kmeans_max_iter,
            seed=config.seed,
            threads=threads,
        )
        every = tuple(np.full(len(each) - 1, _SOLVED, np.int32) for each in whole.offsets)
        return _Shape(LabelTree(placed[whole.labels], whole.offsets), every, n_split=1)
    return _split_leaves(tree, Z, placed, leaf, is_solved, config, threads)


def _find_leaves(Z: Csr, leaf: Ids, n_leaves: int) -> Ids:
    """Return the leaf most like each of the last rows of Z; `leaf` has those of the first rows."""
    n_old, rows = len(leaf), Z.to_scipy()
    belongs = sp.csr_array((np.ones(n_old, np.float32), (leaf, np.arange(n_old))),
                           shape=(n_leaves, n_old))  # fmt: skip
    centers = normalize_rows(from_scipy(sp.csr_array(belongs @ rows[:n_old]))).to_scipy().T.tocsr()
    found = [np.empty(0, np.int32)]
    for begin in range(n_old, rows.shape[0], _COMPARED):
        cosines = (rows[begin : begin + _COMPARED] @ centers).toarray()
        found.append(cosines.argmax(axis=1).astype(np.int32))
    return np.concatenate(found)


def _split_leaves(
    tree: LabelTree,
    Z: Csr,
    placed: Ids,
    leaf: Ids,
    is_solved: NDArray[np.bool_],
    config: LearnConfig,
    threads: int,
) -> _Shape:
    """Split leaves that are too large, and leave out those that are empty."""
    order = np.argsort(leaf, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(leaf, minlength=len(is_solved)))[:-1])
    parts: list[NDArray[np.int64]] = []
    node, n_split = [], 0  # old leaf of each part
    for number, rows in enumerate(members):
        n_parts = 1
        if len(rows) > _LARGEST * config.max_leaf_size:
            n_parts = -(-len(rows) // config.max_leaf_size)
            split = cut_labels(
                Z.take(rows),
                (n_parts,),
                max_iter=config.kmeans_max_iter,
                seed=config.seed,
                threads=threads,
            )
            parts += np.split(rows[split.labels], split.offsets[-1][1:-1])
            is_solved[number], n_split = True, n_split + 1
        elif len(rows):
            parts.append(rows)
        node += [number] * (n_parts if len(rows) else 0)
    labels, sizes = placed[np.concatenate(parts)], [len(part) for part in parts]
    offsets, sources = _find_parents(tree, np.array(node, dtype=np.int32), is_solved)
    return _Shape(LabelTree(labels, (*offsets, offsets_of(sizes))), sources, n_split)


def _find_parents(
    tree: LabelTree, nodes: Ids, is_solved: NDArray[np.bool_]
) -> tuple[tuple[Offsets, ...], tuple[Ids, ...]]:
    """Return the levels above the leaves, given by their old numbers, and sources of all parents.

    A parent is solved again if its children are not those of before, or if many leaves are.
    """
    are_many = np.count_nonzero(is_solved[nodes]) > _MOST_CHANGED * len(nodes)
    offsets, sources = list[Offsets](), list[Ids]()
    for level in range(tree.depth - 1, 0, -1):
        sources.insert(0, np.where(is_solved[nodes], _SOLVED, nodes).astype(np.int32))
        parent_of, n_before = tree.parents(level - 1), np.diff(tree.offsets[level - 1])
        above, n_children = np.unique(parent_of[nodes], return_counts=True)
        n_distinct = np.bincount(parent_of[np.unique(nodes)], minlength=len(n_before))
        is_solved = are_many | (n_distinct != n_before)  # some are gone
        is_solved[above] |= n_children != n_before[above]  # some were split
        offsets.insert(0, offsets_of(n_children))
        nodes = above.astype(np.int32)
    sources.insert(0, np.where(is_solved[nodes], _SOLVED, nodes).astype(np.int32))
    return tuple(offsets), tuple(sources)


def _make_problem(
    examples: Examples, top: TreeModel, levels: list[Csr], config: LearnConfig, threads: int
) -> LayerProblem:
    """Return what the layer below those that are there is trained on."""
    level = len(top.layers)
    instances = select_instances(
        examples.X, top, positives=levels, given=None, config=config, threads=threads
    )
    positives, first_child = levels[level].transposed(), top.tree.offsets[level]
    return LayerProblem(examples.X, instances, positives, first_child, examples.instance_weights)


def _solve_again(
    problem: LayerProblem, level: int, sources: Ids, config: LearnConfig, threads: int
) -> dict[int, list[SolvedParents]]:
    """Return the parents without weights, in runs; by their first number."""
    seed, found = config.seed * 64 + level, {}
    with ThreadPoolExecutor(threads) as pool:
        for begin, end in _find_runs(sources == _SOLVED):
            run = problem.take(Range(level, begin, end))
            ranges = plan_ranges([(run.instances.indptr, run.first_child)])
            task = partial(_solve_range, run, config, seed, threads)
            found[begin] = list(pool.map(task, ranges))
    return found


def _solve_range(
    run: LayerProblem, config: LearnConfig, seed: int, threads: int, one: Range
) -> SolvedParents:
    return solve(run.take(one), config, seed=seed, threads=min(threads, one.threads))


def _find_runs(is_chosen: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Begin and end of what is chosen one after another."""
    edges = np.flatnonzero(np.diff(is_chosen, prepend=False, append=False))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _take_kept(
    old: TreeModel, level: int, sources: Ids, feature_of: Ids
) -> dict[int, list[SolvedParents]]:
    """Return the parents whose weights stay, in runs; by their first number."""
    found = {}
    for begin, end in _find_runs(sources != _SOLVED):  # none where the tree was built anew
        layer, first_child = old.layers[level], old.tree.offsets[level]
        found[begin] = [_take_parents(layer, first_child, sources[begin:end], feature_of)]
    return found


def _take_parents(
    layer: LayerWeights, first_child: Offsets, parents: Ids, feature_of: Ids
) -> SolvedParents:
    rows, row_offsets = take_entries(layer.row_offsets, parents)
    entries, entry_offsets = take_entries(layer.entry_offsets, rows)
    children, _ = take_entries(first_child, parents)
    return SolvedParents(
        np.diff(row_offsets),
        feature_of[layer.features[rows]],
        np.diff(entry_offsets).astype(np.int32),
        layer.children[entries],
        layer.weights[entries],
        layer.bias[children],
        0,
    )
