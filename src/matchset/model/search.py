"""Search: which labels fit a feature vector best?"""

from __future__ import annotations

from collections.abc import Sequence

from matchset import _native
from matchset.matrices import Csr, Offsets
from matchset.model.layers import LayerWeights, TreeModel


def search(model: TreeModel, X: Csr, *, k: int, beam: int, threads: int) -> Csr:
    """The k best labels of each row of X by beam search; entries of a row stand best first.

    A node scores `exp(-max(0, 1 - w.x)^3)` times its parent's score; equal scores go by position.
    """
    nodes = search_nodes(model.tree.offsets, model.layers, X, k=k, beam=beam, threads=threads)
    return Csr(nodes.offsets, model.tree.labels[nodes.columns], nodes.values, model.n_labels)


def search_nodes(
    offsets: Sequence[Offsets],
    layers: Sequence[LayerWeights],
    X: Csr,
    *,
    k: int,
    beam: int,
    threads: int,
) -> Csr:
    """The k best nodes at the end of the given levels, which may be the top of a tree only."""
    views = [
        (
            first_child,
            layer.row_offsets,
            layer.features,
            layer.entry_offsets,
            layer.children,
            layer.weights,
            layer.bias,
        )
        for first_child, layer in zip(offsets, layers, strict=True)
    ]
    found, nodes, scores = _native.search(views, X.arrays, X.width, beam=beam, k=k, threads=threads)
    return Csr(found, nodes, scores, len(layers[-1].bias))
