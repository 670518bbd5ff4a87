"""Label tree: which labels are scored together?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.matrices import Floats, Ids, Offsets, rows_of

# Weights of some parents of a level: features of each parent, features, entries of each feature,
# children, weights, bias of each child.
LayerPart = tuple[Offsets, Ids, Ids, NDArray[np.uint16], Floats, Floats]


@dataclass(frozen=True, slots=True, eq=False)
class LabelTree:
    """Siblings are contiguous, so the whole tree is one offsets array per level.

    Level 0 is the root. The children of the last level are the labels, at *leaf positions*;
    `labels` has the label at each. A label without a position is in no leaf.
    """

    labels: Ids  # label at each leaf position, (n_positions,)
    offsets: tuple[Offsets, ...]  # per level, index of the first child of each node, (n_nodes + 1,)

    @property
    def depth(self) -> int:
        """Number of steps from the root to a label."""
        return len(self.offsets)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Nodes below the root per level; the last are the labels."""
        return tuple(int(offsets[-1]) for offsets in self.offsets)

    def parents(self, level: int) -> Ids:
        """Parent in `level` of each node of the next level, (n_children,)."""
        return rows_of(self.offsets[level])


@dataclass(frozen=True, slots=True, eq=False)
class LayerWeights:
    """Weights of one level by parent, feature and child: what a beam search step reads together.

    Parent p owns the feature rows from `row_offsets[p]` on; row r is a feature of p that has a
    weight in at least one child, and owns the entries from `entry_offsets[r]` on.
    """

    row_offsets: Offsets  # of each parent, (n_parents + 1,)
    features: Ids  # ascending within a parent, (n_rows,)
    entry_offsets: Offsets  # of each row, (n_rows + 1,)
    children: NDArray[np.uint16]  # number among its siblings, ascending within a row, (n_entries,)
    weights: Floats  # (n_entries,)
    bias: Floats  # of each child: what is added to w.x, (n_children,)

    @property
    def part(self) -> LayerPart:
        """All of it as one part."""
        for name in ("row_offsets", "entry_offsets"):
            if (first := getattr(self, name)[:1]).any():
                raise ValueError(f"{name} must begin with 0; got {first[0]}")
        n_rows, n_entries = np.diff(self.row_offsets), np.diff(self.entry_offsets)
        n_entries = n_entries.astype(np.int32)
        return n_rows, self.features, n_entries, self.children, self.weights, self.bias


@dataclass(frozen=True, slots=True, eq=False)
class TreeModel:
    """A trained model over feature vectors."""

    tree: LabelTree
    layers: tuple[LayerWeights, ...]  # one per level of the tree
    n_features: int
    n_labels: int  # columns of Y; the tree may hold fewer

    @property
    def n_weights(self) -> int:
        """Number of weights, without biases."""
        return sum(len(layer.weights) for layer in self.layers)
