"""What the learning kernels must give, in a few lines of NumPy."""

import numpy as np
import scipy.sparse as sp

from matchset import _native
from matchset.learn.clusters import cluster_vectors
from matchset.matrices import to_csr
from matchset.work.steps import open_steps


def cluster(vectors, *, threads=1, **rule):
    """Inverted lists of vectors, all made in this process."""
    with open_steps(threads=threads) as step:
        return cluster_vectors(step, vectors, **rule)


def solve_one_parent(X, Y, *, threshold=0.0, max_weights=2**60, weights=None, **rule):
    """Weights (children x features) and biases of one parent whose instances are all of X."""
    x, positives = to_csr(X, "X"), to_csr(Y, "Y").transposed()
    n = len(x)
    rule = {"positive_cost": 1.0, "negative_cost": 1.0, "bias": 1.0, "tol": 1e-9} | rule
    rule = {"max_iter": 3000, "seed": 0} | rule
    n_rows, features, n_entries, children, values, bias, unfinished = _native.solve_parents(
        x.arrays,
        x.n_cols,
        (np.array([0, n]), np.arange(n, dtype=np.int32)),
        (
            positives.indptr,
            positives.indices,
            np.zeros(0, np.float32) if weights is None else weights,
        ),
        np.array([0, len(positives)]),
        _native.SolverRule(**rule),
        _native.PruneRule(threshold=threshold, max_weights=max_weights),
        first_parent=0,
        threads=2,
    )
    assert n_rows[0] == len(features)
    W = np.zeros((len(positives), x.n_cols))
    W[children, np.repeat(features, n_entries)] = values
    return W, bias, unfinished


def coordinate_descent(X, y, costs, *, bias=1.0, passes=4000):
    """Plain dual coordinate descent in double precision: weights and bias of one binary problem."""
    x = np.hstack([X, np.full((len(X), 1), bias)]).astype(float)
    alpha, w = np.zeros(len(y)), np.zeros(x.shape[1])
    diagonal = (x**2).sum(axis=1) + 0.5 / costs
    for _ in range(passes):
        largest = 0.0
        for i in range(len(y)):
            gradient = y[i] * (w @ x[i]) - 1 + alpha[i] * 0.5 / costs[i]
            new = max(0.0, alpha[i] - gradient / diagonal[i])
            largest = max(largest, abs(new - alpha[i]))
            w += (new - alpha[i]) * y[i] * x[i]
            alpha[i] = new
        if largest < 1e-10:
            break
    return w[:-1], w[-1] * bias


def duality_gap(X, y, costs, w, intercept, bias):
    """Primal minus dual value at w, with the dual point that belongs to its margins."""
    x = np.hstack([X, np.full((len(X), 1), bias)]).astype(float)
    w = np.append(w, intercept / bias)
    miss = np.maximum(0, 1 - y * (x @ w))
    primal = 0.5 * w @ w + (costs * miss**2).sum()
    alpha = 2 * costs * miss
    dual = (
        alpha.sum() - 0.5 * ((alpha * y) @ x @ ((alpha * y) @ x)) - (alpha**2 / (4 * costs)).sum()
    )
    return primal - dual, primal


def dense_layer(tree, layer, level, n_features):
    """A layer's weights as a dense matrix, children x features."""
    parent = np.repeat(np.arange(len(layer.row_offsets) - 1), np.diff(layer.row_offsets))
    row = np.repeat(np.arange(len(layer.features)), np.diff(layer.entry_offsets))
    child = tree.offsets[level][parent[row]] + layer.children
    W = np.zeros((len(layer.bias), n_features), dtype=np.float32)
    W[child, layer.features[row]] = layer.weights
    return W


def beam_search(model, x, *, k, beam):
    """The k best labels of a dense vector and their scores, by the definition."""
    nodes, scores = np.array([0]), np.array([0.0])  # logarithms
    for level, layer in enumerate(model.layers):
        first = model.tree.offsets[level]
        margins = dense_layer(model.tree, layer, level, model.n_features) @ x + layer.bias
        children = np.concatenate([np.arange(first[n], first[n + 1]) for n in nodes])
        parents = np.repeat(scores, np.diff(first)[nodes])
        scores = parents - np.maximum(0, 1 - margins[children]) ** 3
        kept = np.lexsort((children, -scores))[: k if level == model.tree.depth - 1 else beam]
        nodes, scores = children[kept], scores[kept]
    return model.tree.labels[nodes], np.exp(scores)


def make_problem(n=200, d=60, n_labels=40, seed=0, density=0.1):
    """Instances whose labels depend on their features, some rows and labels empty."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=density, rng=rng, dtype=np.float32, format="csr")
    X.data = (X.data + 0.5).astype(np.float32)
    taste = rng.normal(size=(d, n_labels)).astype(np.float32)
    score = X @ taste
    Y = sp.csr_array((score > np.quantile(score, 0.95)).astype(np.float32))
    return X, Y
