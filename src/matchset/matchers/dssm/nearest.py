"""Nearest: which products have the largest cosine with a query's vector?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from matchset.matrices import Csr, Floats, Ids

_SCORES_AT_ONCE = 2**24  # of one block of queries against all products
_ROUNDING = 1e-4  # more than two ways of adding up the same cosine can differ by


def find_nearest(vectors: Floats, queries: Floats, k: int, *, labels: Ids) -> Csr:
    """The k largest cosines of each query with the vectors at `labels`, ties by label.

    Vectors have unit length; a query of zeros gets nothing. A block of queries is multiplied with
    all vectors at once; its best are then scored pair by pair, because the sums of a matrix
    product depend on the size of the block, and a query's answer must not.
    """
    n_products = len(vectors)
    # To multiply with all and leave some out costs less than a copy of most of the vectors.
    is_most = 4 * len(labels) > n_products
    chosen = vectors if is_most else vectors[labels]
    found: list[tuple[Ids, Floats]] = []
    step = max(1, _SCORES_AT_ONCE // max(1, len(chosen)))
    for first in range(0, len(queries), step):
        block = queries[first : first + step]
        scores = block @ chosen.T
        if is_most and len(labels) < n_products:
            scores = scores[:, labels]
        for query, each in zip(block, scores, strict=True):
            found.append(_take_best(vectors, query, each, k, labels=labels))
    return join_rows(found, n_products)


def _take_best(
    vectors: Floats, query: Floats, scores: Floats, k: int, *, labels: Ids
) -> tuple[Ids, Floats]:
    if not query.any():
        return labels[:0], scores[:0]
    places: NDArray[np.int64]
    if k < len(scores):
        kth = np.partition(scores, len(scores) - k)[len(scores) - k]
        places = np.flatnonzero(scores >= kth - _ROUNDING)
    else:
        places = np.arange(len(scores))
    exact = np.einsum("ij,j->i", vectors[labels[places]], query)
    best = np.lexsort([places, -exact])[:k]
    return labels[places[best]], exact[best]


def join_rows(found: list[tuple[Ids, Floats]], width: int) -> Csr:
    """Labels and scores of each query as one matrix."""
    offsets = np.zeros(len(found) + 1, dtype=np.int64)
    np.cumsum([len(labels) for labels, _ in found], out=offsets[1:])
    nothing = (np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32))
    labels, scores = zip(*(found or [nothing]), strict=True)
    return Csr(offsets, np.concatenate(labels), np.concatenate(scores), width)
