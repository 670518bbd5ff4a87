"""Label vectors: which labels are alike?"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from matchset import _native
from matchset.config import LearnConfig
from matchset.matrices import Csr, to_csr


def embed_labels(
    X: Csr, by_label: Csr, *, given: Csr | None, config: LearnConfig, threads: int
) -> Csr:
    """Vectors of length one for the labels whose positive instances `by_label` lists.

    `given` has a row per row of `by_label`.
    """
    if config.embeddings == "pifa":
        return sum_positives(X, by_label, config, threads=threads)
    if given is None:
        raise ValueError(f"embeddings {config.embeddings!r} needs label vectors; got none")
    if config.embeddings == "given":
        return to_length_one(given)
    return join(sum_positives(X, by_label, config, threads=threads), given, config.given_share)


def sum_positives(X: Csr, by_label: Csr, config: LearnConfig, *, threads: int) -> Csr:
    """PIFA: the sum of each label's positive instances, cut to its largest entries.

    With `pifa_rows="normalized"` an instance that is positive for m labels counts 1 / sqrt(m) in
    each of them, as in PECOS; with "sum" it counts one, as in the paper.
    """
    instances = by_label.indices
    counts = np.ones(len(instances), dtype=np.float32)
    if config.pifa_rows == "normalized":
        n_labels = np.bincount(instances, minlength=len(X))
        counts = (1 / np.sqrt(n_labels[instances])).astype(np.float32)
    offsets, columns, values = _native.sum_instances(
        X.arrays,
        X.n_cols,
        (by_label.indptr, instances, counts),
        max_entries=X.n_cols if config.pifa_entries is None else config.pifa_entries,
        threads=threads,
    )
    return Csr(offsets, columns, values, X.n_cols)


def join(first: Csr, second: Csr, share: float) -> Csr:
    """Both vectors side by side; the cosine of two joined ones gives `share` to the second part."""
    parts = [
        to_length_one(first).to_scipy() * math.sqrt(1 - share),
        to_length_one(second).to_scipy() * math.sqrt(share),
    ]
    return to_length_one(to_csr(sp.hstack(parts, format="csr"), "label vectors"))


def to_length_one(rows: Csr) -> Csr:
    """Each row divided by its length; rows of zeros stay."""
    squares = rows.to_scipy().power(2).sum(axis=1)
    lengths = np.sqrt(np.where(squares > 0, squares, 1)).astype(np.float32)
    values = rows.data / np.repeat(lengths, np.diff(rows.indptr))
    return Csr(rows.indptr, rows.indices, values.astype(np.float32), rows.n_cols)
