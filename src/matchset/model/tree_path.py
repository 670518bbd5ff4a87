"""Tree path: which nodes lead to a label, and what of the query speaks for each of them?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from matchset.matrices import Floats, Ids
from matchset.model.packed import PackedTree
from matchset.model.search import search_rule

BLOCK = np.dtype(  # `Block` of native/packed.hpp
    [("offset", "<u4"), ("first_child", "<u4"), ("last_child", "u1"), ("bits", "u1"), ("_", "<u2")]
)


@dataclass(frozen=True, slots=True, eq=False)
class TreeStep:
    """One node on the path to a label: what contributed to its score, and its rank in the beam."""

    level: int
    node: int  # index among the nodes of its level
    bias: float
    score: float  # of this node alone
    features: Ids  # of the query with a weight here, the strongest first
    contributions: Floats  # weight times value of each
    rank: int | None  # among the candidates of its level, from 1; None where its parent was lost
    is_kept: bool  # it stayed in the beam, or in the answer


def follow_label(
    tree: PackedTree, ids: Ids, values: Floats, label: int, *, k: int = 100, beam: int = 10
) -> tuple[TreeStep, ...]:
    """Follow one label down the tree for the sparse vector (ids, values).

    The product of the steps' scores is what an exhaustive search would give.
    """
    positions = np.flatnonzero(tree.labels == label)
    if len(positions) == 0:
        raise ValueError(f"label must be in the tree; got {label}")
    order = np.argsort(ids)
    ids, values = ids[order], values[order]
    nodes = [int(positions[0])]
    for level in range(len(tree.sizes) - 1, 0, -1):
        nodes.insert(0, parent_of(tree, level, nodes[0]))
    kept = [beam] * (len(nodes) - 1) + [k]
    return tuple(
        _take_step(tree, level, node, ids, values, beam=beam, n_kept=kept[level])
        for level, node in enumerate(nodes)
    )


def parent_of(tree: PackedTree, level: int, node: int) -> int:
    """Return the parent of a node: its number in the level above, 0 for the root."""
    if not (0 <= level < len(tree.sizes) and 0 <= node < tree.sizes[level]):
        raise ValueError(f"node must be in the tree; got {node} of level {level}")
    first_block = _first_blocks(tree, level)
    blocks = tree.blocks.view(BLOCK)[first_block[0] : first_block[-1]]
    block = int(np.searchsorted(blocks["first_child"], node, side="right")) - 1 + first_block[0]
    return int(np.searchsorted(first_block, block, side="right")) - 1


def _first_blocks(tree: PackedTree, level: int) -> Ids:
    n_parents = (1, *tree.sizes[:-1])
    start = sum(n_parents[:level])
    return tree.first_block[start : start + n_parents[level] + 1].astype(np.int64)


def _take_step(
    tree: PackedTree, level: int, node: int, ids: Ids, values: Floats, *, beam: int, n_kept: int
) -> TreeStep:
    features, weights, bias = tree.native.node_weights(level, node, ids)
    contributions = values[np.searchsorted(ids, features)] * weights
    order = np.lexsort((features, -np.abs(contributions)))
    margin = bias + float(contributions.sum())
    rule = search_rule(tree.sizes[level], beam)
    nodes, _ = _cut_below(tree, level).search_row(ids, values, rule)
    at = np.flatnonzero(nodes == node)
    rank = int(at[0]) + 1 if len(at) else None
    return TreeStep(
        level=level,
        node=node,
        bias=bias,
        score=float(np.exp(-(max(0.0, 1 - margin) ** 3))),
        features=features[order],
        contributions=contributions[order],
        rank=rank,
        is_kept=rank is not None and rank <= n_kept,
    )


def _cut_below(tree: PackedTree, level: int) -> PackedTree:
    """Return the tree down to a level, with the nodes of that level as labels."""
    sizes = tree.sizes[: level + 1]
    n_blocks = int(_first_blocks(tree, level)[-1])
    return replace(
        tree,
        labels=np.arange(sizes[-1], dtype=np.int32),
        first_block=tree.first_block[: 2 + sum(sizes[:-1])],
        blocks=tree.blocks[: (n_blocks + 1) * BLOCK.itemsize],
        sizes=sizes,
        n_labels=sizes[-1],
    )
