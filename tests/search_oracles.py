"""Small random trees, and search in them by the definition, in NumPy."""

import numpy as np

from matchset.matrices import Csr, to_csr
from matchset.model.tree import LabelTree, LayerWeights, TreeModel


def starts(counts):
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])


def random_layer(rng, first_child, n_features, density):
    """Weights in steps of 1/8, so that their sums are exact in any order."""
    rows, features, n_entries, children = [], [], [], []
    for n_children in np.diff(first_child):
        chance = rng.choice([0.02, density, 0.6, 1.0], p=[0.4, 0.4, 0.1, 0.1], size=n_features)
        has = rng.random((n_features, n_children)) < chance[:, None] * (rng.random() < 0.95)
        found = np.flatnonzero(has.any(axis=1))
        rows.append(len(found))
        features.append(found)
        n_entries.append(has[found].sum(axis=1))
        children.append(np.nonzero(has[found])[1])
    children = np.concatenate(children).astype(np.uint16)
    steps = rng.integers(1, 24, len(children)) * rng.choice([-1, 1], len(children), p=[0.3, 0.7])
    return LayerWeights(
        starts(rows),
        np.concatenate(features).astype(np.int32),
        starts(np.concatenate(n_entries)),
        children,
        (steps / 8).astype(np.float32),
        (rng.integers(-8, 8, first_child[-1]) / 8).astype(np.float32),
    )


def random_model(seed=0, *, splits=(5, 7, 9), n_features=40, density=0.2, n_labels=None):
    """A tree with about this many children per node and level; some labels are not in it."""
    rng = np.random.default_rng(seed)
    offsets, layers, n_nodes = [], [], 1
    for split in splits:
        offsets.append(starts(rng.integers(max(1, split // 2), split + 1, n_nodes)))
        layers.append(random_layer(rng, offsets[-1], n_features, density))
        n_nodes = int(offsets[-1][-1])
    n_labels = n_labels or n_nodes + 3
    labels = rng.permutation(n_labels)[:n_nodes].astype(np.int32)
    return TreeModel(LabelTree(labels, tuple(offsets)), tuple(layers), n_features, n_labels)


def random_rows(seed=0, *, n=20, n_features=40, density=0.2):
    rng = np.random.default_rng(seed)
    dense = (rng.random((n, n_features)) < density) * rng.integers(1, 5, (n, n_features)) / 4
    dense[0] = 0
    return to_csr(dense.astype(np.float32), "X")


def margins(model, level, x):
    """w.x with the bias, of every node of a level."""
    layer, first = model.layers[level], model.tree.offsets[level]
    parent = np.repeat(np.arange(len(first) - 1), np.diff(layer.row_offsets))
    row = np.repeat(np.arange(len(layer.features)), np.diff(layer.entry_offsets))
    node = first[parent[row]] + layer.children
    total = layer.bias.astype(np.float64).copy()
    np.add.at(total, node, layer.weights.astype(np.float64) * x[layer.features[row]])
    return total.astype(np.float32)


def costs(margin, scores="l3-hinge"):
    if scores == "sigmoid":
        return np.log1p(np.exp(-margin.astype(np.float64))).astype(np.float32)
    miss = np.maximum(np.float32(0), 1 - margin)
    cost = miss.copy()
    for _ in range(int(scores[1]) - 1):
        cost = cost * miss
    return cost


def beam_search(model, x, *, k, beam, scores="l3-hinge", allowed=None):
    """Labels and scores of one dense vector; `allowed` is a boolean per label."""
    nothing = np.empty(0, np.int32), np.empty(0, np.float32)
    if not x.any():
        return nothing
    below = None if allowed is None else count_allowed(model.tree, allowed)
    nodes, found = np.array([0]), np.zeros(1, np.float32)
    for level in range(model.tree.depth):
        first, is_last = model.tree.offsets[level], level == model.tree.depth - 1
        children = np.concatenate([np.arange(first[n], first[n + 1]) for n in nodes])
        cost = costs(margins(model, level, x), scores)[children]
        found = np.repeat(found, np.diff(first)[nodes]) + cost
        if below is not None:
            has = below[level][children] > 0
            children, found = children[has], found[has]
        order = np.lexsort((children, found))
        n_kept = k if is_last else beam
        if below is not None and not is_last:
            n_before = starts(below[level][children[order]])
            total = int(below[-1].sum())
            least = max(k, 100)  # fewer are the first of more
            wanted = total if total // 4 <= least else 2 * least
            n_kept = max(beam, int(np.searchsorted(n_before, min(wanted, n_before[-1]))))
        nodes, found = children[order[:n_kept]], found[order[:n_kept]]
        if len(nodes) == 0:
            return nothing
    return model.tree.labels[nodes], np.exp(-found)


def count_allowed(tree, allowed):
    """Allowed labels below each node, per level."""
    counts = [allowed[tree.labels].astype(np.int64)]
    for first in reversed(tree.offsets[1:]):
        counts.insert(0, np.diff(starts(counts[0])[first]))
    return counts


def exhaustive(model, x, *, k, allowed=None):
    everything = sum(model.tree.sizes)
    return beam_search(model, x, k=k, beam=everything, allowed=allowed)


def row(X: Csr, i):
    return X.indices[X.indptr[i] : X.indptr[i + 1]], X.data[X.indptr[i] : X.indptr[i + 1]]
