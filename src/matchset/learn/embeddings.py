"""Label vectors: which labels are alike?"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from matchset import _native
from matchset.config import LearnConfig
from matchset.matrices import Csr, to_csr


def embed_labels(
    X: Csr,
    by_label: Csr,
    *,
    given: Csr | None,
    config: LearnConfig,
    threads: int,
    n_labels: NDArray[np.integer] | None = None,
) -> Csr:
    """Return unit vectors of labels, from their positive instances (`by_label`, a row each).

    `given` has one row per label too. `n_labels` tells how many labels each instance is positive
    for, where `by_label` has only some of them.
    """
    sums = partial(sum_positives, X, by_label, config, threads=threads, n_labels=n_labels)
    if config.embeddings == "pifa":
        return sums()
    if given is None:
        raise ValueError(f"embeddings {config.embeddings!r} needs label vectors; got none")
    if config.embeddings == "given":
        return normalize_rows(given)
    return join(sums(), given, config.given_share)


def sum_positives(
    X: Csr,
    by_label: Csr,
    config: LearnConfig,
    *,
    threads: int,
    n_labels: NDArray[np.integer] | None = None,
) -> Csr:
    """Sum the positive instances of each label (PIFA), and keep the largest entries of the sum.

    With `pifa_normalize`, an instance that is positive for m labels counts 1 / sqrt(m) in each of
    them, as in PECOS; otherwise it counts one, as in the paper.
    """
    instances = by_label.indices
    counts = np.ones(len(instances), dtype=np.float32)
    if config.pifa_normalize:
        if n_labels is None:
            n_labels = np.bincount(instances, minlength=len(X))
        counts = (1 / np.sqrt(n_labels[instances])).astype(np.float32)
    indptr, indices, data = _native.sum_instances(
        X.arrays,
        X.n_cols,
        (by_label.indptr, instances, counts),
        max_entries=X.n_cols if config.pifa_max_entries is None else config.pifa_max_entries,
        threads=threads,
    )
    return Csr(indptr, indices, data, X.n_cols)


def join(first: Csr, second: Csr, share: float) -> Csr:
    """Concatenate vectors; `share` is the second part's share in the cosine of two results."""
    parts = [
        normalize_rows(first).to_scipy() * math.sqrt(1 - share),
        normalize_rows(second).to_scipy() * math.sqrt(share),
    ]
    return normalize_rows(to_csr(sp.hstack(parts, format="csr"), "label vectors"))


def normalize_rows(rows: Csr) -> Csr:
    """Divide each row by its length; rows of zeros stay as they are."""
    squares = rows.to_scipy().power(2).sum(axis=1)
    lengths = np.sqrt(np.where(squares > 0, squares, 1)).astype(np.float32)
    values = rows.data / np.repeat(lengths, np.diff(rows.indptr))
    return Csr(rows.indptr, rows.indices, values.astype(np.float32), rows.n_cols)
