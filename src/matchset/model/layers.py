"""Layers: which features speak for which child of a node, and how strongly?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.matrices import Floats, Ids, Offsets
from matchset.model.tree import LabelTree


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
