"""Search rules: how many labels are searched, and how widely?"""

from __future__ import annotations

import sys
from functools import lru_cache

import numpy as np

from matchset import _native
from matchset.matrices import Csr
from matchset.model.packed import pack_layers
from matchset.model.tree import LabelTree, TreeModel


@lru_cache(maxsize=256)
def search_rule(k: int = 100, beam: int = 10) -> _native.SearchRule:
    """Return how to search: the k best, `beam` nodes per level.

    A node scores `exp(-max(0, 1 - w.x)^3)`, as in the paper; a label scores the product along its
    path.
    """
    for name, value in (("k", k), ("beam", beam)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1; got {value}")
    return _native.SearchRule(
        k=min(k, sys.maxsize),
        beam=min(beam, sys.maxsize),
        hinge_power=3,
        is_log=False,
        min_score=0.0,
    )


def search_nodes(model: TreeModel, X: Csr, *, k: int, beam: int, threads: int) -> Csr:
    """Return the k best nodes of the last layer; a model in training has only the upper layers."""
    n_nodes = len(model.layers[-1].bias)
    offsets = model.tree.offsets[: len(model.layers)]
    top = LabelTree(np.arange(n_nodes, dtype=np.int32), offsets)
    layers = [[layer.part] for layer in model.layers]
    packed = pack_layers(top, layers, X.n_cols, n_nodes, precision="float32", threads=threads)
    return packed.search_rows(X, search_rule(k, beam), threads=threads)
