"""Explanation: why was a label found, or where was it lost?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.matrices import Floats, Ids
from matchset.model.packed import PackedTree
from matchset.model.search import search_rule

BLOCK = np.dtype(  # `Block` of native/packed.hpp
    [("offset", "<u4"), ("first_child", "<u4"), ("last_child", "u1"), ("bits", "u1"), ("_", "<u2")]
)


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One node on the path to a label: what contributed to its score, and its rank in the beam."""

    level: int
    node: int  # index among the nodes of its level
    bias: float
    margin: float  # w.x with the bias
    score: float  # of this node alone
    features: Ids  # of the query with a weight here, the strongest first
    contributions: Floats  # weight times value of each
    rank: int | None  # among the candidates of its level, from 1; None where its parent was lost
    is_kept: bool  # it stayed in the beam, or in the answer


@dataclass(frozen=True, slots=True, eq=False)
class LabelPath:
    """The path of a label from the root."""

    label: int
    steps: tuple[Step, ...]
    score: float  # product over the steps: what an exhaustive search would give

    @property
    def lost_at(self) -> int | None:
        """Level at which the label left the beam or the answer; None where it was found."""
        return next((step.level for step in self.steps if not step.is_kept), None)


def follow_label(
    tree: PackedTree,
    ids: Ids,
    values: Floats,
    label: int,
    *,
    k: int = 100,
    beam: int = 10,
    scores: str = "l3-hinge",
) -> LabelPath:
    """Follow one label down the tree for the sparse vector (ids, values)."""
    positions = np.flatnonzero(tree.labels == label)
    if len(positions) == 0:
        raise ValueError(f"label must be in the tree; got {label}")
    order = np.argsort(ids)
    ids, values = ids[order], values[order]
    path = [int(positions[0])]
    for level in range(len(tree.sizes) - 1, 0, -1):
        path.insert(0, parent_of(tree, level, path[0]))
    steps: list[Step] = []
    for level, node in enumerate(path):
        is_last = level + 1 == len(path)
        rank = _rank(tree, level, node, ids, values, beam=beam, scores=scores)
        is_kept = rank is not None and rank <= (k if is_last else beam)
        steps.append(_step(tree, level, node, ids, values, scores=scores, rank=rank, kept=is_kept))
    return LabelPath(label, tuple(steps), float(np.prod([step.score for step in steps])))


def node_weights(tree: PackedTree, level: int, node: int) -> tuple[Ids, Floats, float]:
    """Features of a node, ascending, their weights, and its bias."""
    _check_node(tree, level, node)
    return tree.native.node_weights(level, node)


def strongest(tree: PackedTree, level: int, node: int, n: int = 5) -> Ids:
    """The features with the largest weights of a node: what it is about."""
    _check_node(tree, level, node)
    return tree.native.strongest(level, node, n)


def parent_of(tree: PackedTree, level: int, node: int) -> int:
    """Parent of a node: number among the nodes of the level above, 0 for the root."""
    _check_node(tree, level, node)
    first_block = _first_blocks(tree, level)
    blocks = tree.blocks.view(BLOCK)[first_block[0] : first_block[-1]]
    block = int(np.searchsorted(blocks["first_child"], node, side="right")) - 1 + first_block[0]
    return int(np.searchsorted(first_block, block, side="right")) - 1


def _first_blocks(tree: PackedTree, level: int) -> NDArray[np.int64]:
    parents = (1, *tree.sizes[:-1])
    start = sum(parents[:level])
    return tree.first_block[start : start + parents[level] + 1].astype(np.int64)


def _check_node(tree: PackedTree, level: int, node: int) -> None:
    if not (0 <= level < len(tree.sizes) and 0 <= node < tree.sizes[level]):
        raise ValueError(f"node must be in the tree; got {node} of level {level}")


def _top(tree: PackedTree, level: int) -> PackedTree:
    """The tree down to a level, with the nodes of that level as labels."""
    n_blocks = int(_first_blocks(tree, level)[-1])
    sizes = tree.sizes[: level + 1]
    return PackedTree(
        labels=np.arange(sizes[-1], dtype=np.int32),
        first_block=tree.first_block[: 2 + sum(sizes[:-1])],
        blocks=tree.blocks[: (n_blocks + 1) * BLOCK.itemsize],
        data=tree.data,
        sizes=sizes,
        n_features=tree.n_features,
        n_labels=sizes[-1],
        n_weights=tree.n_weights,
        precision=tree.precision,
    )


def _rank(
    tree: PackedTree, level: int, node: int, ids: Ids, values: Floats, *, beam: int, scores: str
) -> int | None:
    rule = search_rule(tree.sizes[level], beam, scores)
    found, _ = _top(tree, level).search_row(ids, values, rule)
    positions = np.flatnonzero(found == node)
    return int(positions[0]) + 1 if len(positions) else None


def _step(
    tree: PackedTree,
    level: int,
    node: int,
    ids: Ids,
    values: Floats,
    *,
    scores: str,
    rank: int | None,
    kept: bool,
) -> Step:
    common, weights, bias = tree.native.node_weights(level, node, ids)
    contributions = values[np.searchsorted(ids, common)] * weights
    order = np.lexsort((common, -np.abs(contributions)))
    margin = bias + float(contributions.sum())
    return Step(
        level=level,
        node=node,
        bias=bias,
        margin=margin,
        score=node_score(margin, scores),
        features=common[order],
        contributions=contributions[order],
        rank=rank,
        is_kept=kept,
    )


def node_score(margin: float, scores: str = "l3-hinge") -> float:
    """The score of a margin, see `search_rule`; the prefix "log-" is ignored."""
    plain = scores.removeprefix("log-")
    if plain == "sigmoid":
        return float(1 / (1 + np.exp(-margin)))
    return float(np.exp(-(max(0.0, 1 - margin) ** int(plain[1]))))
