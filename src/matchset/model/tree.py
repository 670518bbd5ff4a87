"""Label tree: which labels are scored together?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.matrices import Floats, Ids, Offsets, rows_of


@dataclass(frozen=True, slots=True, eq=False)
class LabelTree:
    """Siblings are contiguous, so the whole tree is one offsets array per level.

    Level 0 is the root alone. The children of the last level are the labels, at *leaf positions*;
    `labels` says which label stands at each. Labels that were not placed are in no leaf.
    """

    labels: Ids  # label at each leaf position, (n_placed,)
    offsets: tuple[Offsets, ...]  # per level, place of each node's first child, (n_nodes + 1,)

    @property
    def depth(self) -> int:
        """How many choices lead from the root to a label."""
        return len(self.offsets)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Nodes below the root per level; the last are the labels."""
        return tuple(int(offsets[-1]) for offsets in self.offsets)

    def parents(self, level: int) -> Ids:
        """Node of `level` above each node of the level below, (n_nodes below,)."""
        return rows_of(self.offsets[level])


@dataclass(frozen=True, slots=True, eq=False)
class LayerWeights:
    """Weights of one level by parent, feature and child: what one beam step reads together.

    Parent p owns the feature rows from `row_offsets[p]` on; row r is a feature of p that has a
    weight in at least one child, and owns the entries from `entry_offsets[r]` on.
    """

    row_offsets: Offsets  # of each parent, (n_parents + 1,)
    features: Ids  # ascending within a parent, (n_rows,)
    entry_offsets: Offsets  # of each row, (n_rows + 1,)
    children: NDArray[np.uint16]  # number among its siblings, ascending within a row, (n_entries,)
    weights: Floats  # (n_entries,)
    bias: Floats  # of each child: what is added to w.x, (n_children,)


@dataclass(frozen=True, slots=True, eq=False)
class TreeModel:
    """A trained matcher over feature vectors."""

    tree: LabelTree
    layers: tuple[LayerWeights, ...]  # one per level of the tree
    n_features: int
    n_labels: int  # columns of Y; the tree may hold fewer

    @property
    def n_weights(self) -> int:
        """Weights kept, biases not counted."""
        return sum(len(layer.weights) for layer in self.layers)
