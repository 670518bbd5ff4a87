"""Search: which labels fit a feature vector best?"""

from __future__ import annotations

from matchset import _native
from matchset.matrices import Csr
from matchset.model.layers import TreeModel


def search(model: TreeModel, X: Csr, *, k: int, beam: int, threads: int) -> Csr:
    """The k best labels of each row of X by beam search; entries of a row stand best first.

    A node scores `exp(-max(0, 1 - w.x)^3)` times its parent's score; equal scores go by position.
    """
    nodes = search_nodes(model, X, k=k, beam=beam, threads=threads)
    return Csr(nodes.offsets, model.tree.labels[nodes.columns], nodes.values, model.n_labels)


def search_nodes(model: TreeModel, X: Csr, *, k: int, beam: int, threads: int) -> Csr:
    """The k best nodes of the last layer there is; a model in training has the upper ones only."""
    layers = [
        (
            first_child,
            layer.row_offsets,
            layer.features,
            layer.entry_offsets,
            layer.children,
            layer.weights,
            layer.bias,
        )
        for first_child, layer in zip(model.tree.offsets, model.layers, strict=False)
    ]
    offsets, nodes, scores = _native.search(
        layers, X.arrays, X.width, beam=beam, k=k, threads=threads
    )
    return Csr(offsets, nodes, scores, len(model.layers[-1].bias))
