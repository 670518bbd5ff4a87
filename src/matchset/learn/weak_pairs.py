"""Weak pairs: where did a query lead, though not often enough to be an answer?"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from matchset.data.events import EventRule
from matchset.data.log import Log
from matchset.data.positives import is_enough, sum_pairs
from matchset.matrices import Csr, from_scipy, offsets_of
from matchset.model.products import Products

MOST = 100  # of a query; a frequent one may have led to any product


def find_weak(log: Log, rule: EventRule, products: Products) -> Csr:
    """Weighted counts above zero that make no positive, (queries of the log, n_products)."""
    starts, sums = sum_pairs(log, rule)
    label = products.index_of(log.products)[log.product[starts]]
    is_weak = (sums > 0) & ~is_enough(sums, rule) & (label >= 0)
    places = log.query[starts[is_weak]], label[is_weak]
    shape = (len(log.queries), len(products))
    return from_scipy(sp.csr_array((sums[is_weak].astype(np.float32), places), shape=shape))


def keep_strongest(weak: Csr) -> Csr:
    """At most a hundred pairs of each query; ties go to the smaller product."""
    is_kept = np.ones(len(weak.indices), dtype=np.bool_)
    for row in np.flatnonzero(np.diff(weak.indptr) > MOST):
        begin, end = weak.indptr[row : row + 2]
        is_kept[begin + np.argsort(-weak.data[begin:end], kind="stable")[MOST:]] = False
    indptr = offsets_of(is_kept)[weak.indptr]
    return Csr(indptr, weak.indices[is_kept], weak.data[is_kept], weak.n_cols)
