"""Negatives: which instances is a node trained on?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from matchset.config import LearnConfig
from matchset.matrices import Csr, from_scipy, offsets_of
from matchset.model.search import search_nodes
from matchset.model.tree import LabelTree, TreeModel


def propagate_labels(Y: Csr, tree: LabelTree) -> list[Csr]:
    """Return Y at every level of the tree: instances x nodes, summed over the labels below.

    The first item is for the root's children, the last but one for leaf clusters, the last for leaf
    positions. Their sparsity pattern is the paper's `binarize(Y C)`; `layers.weigh_positives` turns
    the values into weights. Pairs of labels outside the tree are dropped.
    """
    levels = [_to_positions(Y, tree)]
    for level in range(tree.depth - 1, 0, -1):
        levels.insert(0, _merge(levels[0], tree.parents(level), tree.sizes[level - 1]))
    return levels


def select_instances(
    X: Csr,
    model: TreeModel,
    *,
    positives: Sequence[Csr],
    given: Sequence[Csr] | None,
    config: LearnConfig,
    threads: int,
) -> Csr:
    """Return parents x instances: what the children of the next layer are trained on.

    A parent's positives are always included, and teacher forcing uses no others. Matcher-aware
    negatives are the instances for which the layers trained so far select the parent.
    """
    level = len(model.layers)
    if level == 0:
        everything = np.arange(len(X), dtype=np.int32)
        return Csr(np.array([0, len(X)]), everything, np.ones(len(X), dtype=np.float32), len(X))
    schemes = config.negatives.split("+")
    chosen = positives[level - 1]
    if "given" in schemes and given is not None:
        chosen = _union(chosen, given[level - 1])
    if "man" in schemes:
        beam = config.man_beam
        chosen = _union(chosen, search_nodes(model, X, k=beam, beam=beam, threads=threads))
    return chosen.transposed()


def _to_positions(pairs: Csr, tree: LabelTree) -> Csr:
    """Return instances x leaf positions."""
    position = np.full(pairs.n_cols, -1, dtype=np.int32)
    position[tree.labels] = np.arange(len(tree.labels), dtype=np.int32)
    indices = position[pairs.indices]
    is_placed = indices >= 0
    indptr = offsets_of(is_placed)[pairs.indptr]
    kept = Csr(indptr, indices[is_placed], pairs.data[is_placed], len(tree.labels)).to_scipy()
    kept.sort_indices()
    return from_scipy(kept)


def _merge(rows: Csr, parents: np.ndarray, n_parents: int) -> Csr:
    """Sum columns by parent; columns ascend, so those of one parent are adjacent."""
    merged = parents[rows.indices]
    is_first = np.ones(len(merged), dtype=bool)
    is_first[1:] = merged[1:] != merged[:-1]
    is_first[rows.indptr[:-1][np.diff(rows.indptr) > 0]] = True
    starts = np.flatnonzero(is_first)
    indptr = offsets_of(is_first)[rows.indptr]
    data = np.add.reduceat(rows.data, starts) if len(starts) else rows.data
    return Csr(indptr, merged[starts], data, n_parents)


def _union(a: Csr, b: Csr) -> Csr:
    """Unite the entries; only the sparsity pattern of the result matters."""
    total = sp.csr_array(abs(a.to_scipy()) + abs(b.to_scipy()))
    total.sum_duplicates()
    return from_scipy(total)
