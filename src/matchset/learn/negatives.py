"""Negatives: which instances does a node learn from?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from matchset.config import LearnConfig
from matchset.matrices import Csr, from_scipy
from matchset.model.layers import LayerWeights
from matchset.model.search import search_nodes
from matchset.model.tree import LabelTree


def raise_labels(Y: Csr, tree: LabelTree) -> list[Csr]:
    """Y (over leaf positions) at every level: instances x nodes, values summed up the tree.

    The last item is Y itself, the one before it Y over leaf clusters, the first over the root's
    children. Their pattern is the paper's `binarize(Y C)`; the solver makes weights of the values.
    """
    levels = [Y]
    for level in range(tree.depth - 1, 0, -1):
        levels.insert(0, _merge(levels[0], tree.parents(level), int(tree.offsets[level - 1][-1])))
    return levels


def select_instances(
    level: int,
    X: Csr,
    *,
    positives: Sequence[Csr],
    given: Sequence[Csr] | None,
    tree: LabelTree,
    layers: Sequence[LayerWeights],
    config: LearnConfig,
    threads: int,
) -> Csr:
    """For each parent at `level` the instances that train its children: parents x instances.

    The positives of a parent are always among them. Teacher forcing adds nothing to them;
    matcher-aware negatives are the instances that the layers trained so far send to the parent.
    """
    if level == 0:
        everyone = np.arange(len(X), dtype=np.int32)
        return Csr(np.array([0, len(X)]), everyone, np.ones(len(X), dtype=np.float32), len(X))
    schemes = set(config.negatives.split("+"))
    chosen = positives[level - 1]
    if "given" in schemes and given is not None:
        chosen = _union(chosen, given[level - 1])
    if "man" in schemes:
        beam = config.man_beam
        found = search_nodes(tree.offsets[:level], layers, X, k=beam, beam=beam, threads=threads)
        chosen = _union(chosen, found)
    return chosen.transposed()


def _merge(rows: Csr, parents: np.ndarray, n_parents: int) -> Csr:
    """Columns summed into their parents; as columns ascend, equal parents are neighbours."""
    merged = parents[rows.columns]
    is_first = np.ones(len(merged), dtype=bool)
    is_first[1:] = merged[1:] != merged[:-1]
    is_first[rows.offsets[:-1][np.diff(rows.offsets) > 0]] = True
    starts = np.flatnonzero(is_first)
    offsets = np.concatenate([[0], np.cumsum(is_first, dtype=np.int64)])[rows.offsets]
    values = np.add.reduceat(rows.values, starts) if len(starts) else rows.values
    return Csr(offsets, merged[starts], values, n_parents)


def _union(a: Csr, b: Csr) -> Csr:
    """Where either has an entry; values do not matter to who trains."""
    total = sp.csr_array(abs(a.to_scipy()) + abs(b.to_scipy()))
    total.sum_duplicates()
    return from_scipy(total)
