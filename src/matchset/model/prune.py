"""Pruning: which weights can a model do without?"""

from __future__ import annotations

import math

import numpy as np

from matchset.matrices import Offsets
from matchset.model.layers import LayerWeights, TreeModel
from matchset.model.packed import PackedTree, pack, unpack


def prune(model: TreeModel, threshold: float) -> TreeModel:
    """The model without weights of at most `threshold` in magnitude, as if trained with it."""
    if not (threshold >= 0 and math.isfinite(threshold)):
        raise ValueError(f"threshold must be zero or positive, and finite; got {threshold}")
    largest = max((float(np.abs(each.weights).max(initial=0)) for each in model.layers), default=0)
    if 0 < largest <= threshold:
        rule = f"threshold must be below the largest weight's magnitude, {largest:.4g}"
        raise ValueError(f"{rule}, or none is left; got {threshold}")
    layers = tuple(_prune_layer(layer, threshold) for layer in model.layers)
    return TreeModel(model.tree, layers, model.n_features, model.n_labels)


def prune_packed(packed: PackedTree, threshold: float, *, threads: int = 1) -> PackedTree:
    """A packed tree without its small weights, in the same precision."""
    return pack(prune(unpack(packed), threshold), precision=packed.precision, threads=threads)


def _prune_layer(layer: LayerWeights, threshold: float) -> LayerWeights:
    is_kept = np.abs(layer.weights) > threshold
    n_entries = np.diff(_starts(is_kept)[layer.entry_offsets])  # of each row
    has_entry = n_entries > 0
    return LayerWeights(
        _starts(has_entry)[layer.row_offsets],
        layer.features[has_entry],
        _starts(n_entries[has_entry]),
        layer.children[is_kept],
        layer.weights[is_kept],
        layer.bias,
    )


def _starts(counts: np.ndarray) -> Offsets:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
