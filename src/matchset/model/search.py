"""Search rules: how many labels are searched, how widely, and with which scores?"""

from __future__ import annotations

import math
import re
import sys
from functools import lru_cache

import numpy as np

from matchset import _native
from matchset.matrices import Csr
from matchset.model.packed import pack_layers
from matchset.model.tree import LabelTree, TreeModel

DEFAULT_SCORES = "l3-hinge"  # as in the paper
SCORES = "l1-hinge to l6-hinge or sigmoid, perhaps with the prefix log-"


@lru_cache(maxsize=256)
def search_rule(
    k: int = 100, beam: int = 10, scores: str = DEFAULT_SCORES, min_score: float | None = None
) -> _native.SearchRule:
    """How to search: the k best, `beam` nodes per level, and what a node scores.

    "l3-hinge" is `exp(-max(0, 1 - w.x)^3)`, "sigmoid" is `1 / (1 + exp(-w.x))`; a label scores the
    product along its path. The prefix "log-" gives the logarithm, in the same order. Labels below
    `min_score` are left out.
    """
    for name, value in (("k", k), ("beam", beam)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1; got {value}")
    found = re.fullmatch(r"(log-)?(?:l([1-6])-hinge|sigmoid)", scores)
    if not found:
        raise ValueError(f"scores must be {SCORES}; got {scores!r}")
    least = (-math.inf if found[1] else 0.0) if min_score is None else min_score
    if math.isnan(least):
        raise ValueError("min_score must be a number; got nan")
    return _native.SearchRule(
        k=min(k, sys.maxsize),
        beam=min(beam, sys.maxsize),
        hinge_power=int(found[2] or 0),
        is_log=bool(found[1]),
        min_score=least,
    )


def search_nodes(model: TreeModel, X: Csr, *, k: int, beam: int, threads: int) -> Csr:
    """The k best nodes of the last layer; a model in training has only the upper layers."""
    n_nodes = len(model.layers[-1].bias)
    offsets = model.tree.offsets[: len(model.layers)]
    top = LabelTree(np.arange(n_nodes, dtype=np.int32), offsets)
    layers = [[layer.part] for layer in model.layers]
    packed = pack_layers(top, layers, X.n_cols, n_nodes, precision="float32", threads=threads)
    return packed.search_rows(X, search_rule(k, beam), threads=threads)
