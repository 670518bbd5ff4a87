"""Query neighbors: what answered the past queries that are most like this one?

Past queries are personal data. They are stored as numbers of n-grams and hashes: neither their
texts nor the names of n-grams are in a match set's file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from matchset import _native
from matchset.matrices import Csr, Floats, Ids, Offsets, from_scipy
from matchset.model.impact_lists import LARGEST, ImpactLists, invert
from matchset.strings import Strings


@dataclass(frozen=True, slots=True, eq=False)
class PastQueries:
    """Past queries by their n-grams and by their hash, and the products they led to."""

    queries_of: ImpactLists  # n-grams x past queries, the largest impacts first
    offsets: Offsets  # of each query's products, (n_queries + 1,)
    products: Ids  # (n_pairs,)
    counts: Floats  # logarithm of 1 + how often the query led there, (n_pairs,)
    hashes: NDArray[np.uint64]  # of the texts, ascending, (n_queries,)
    by_hash: Ids  # query of each hash, (n_queries,)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def count(self, normalized: str) -> float:
        """Return how often the very same query led to its products, by weighted events; 0: new."""
        wanted = Strings.of([normalized]).hashes()[0]
        at = int(np.searchsorted(self.hashes, wanted))
        if at == len(self) or self.hashes[at] != wanted:
            return 0.0
        query = int(self.by_hash[at])
        if not 0 <= query < len(self):  # a damaged file
            return 0.0
        counts = self.counts[self.offsets[query] : self.offsets[query + 1]]
        return float(np.expm1(counts.astype(np.float64)).sum())

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What kernels take."""
        answers = self.offsets, self.products, self.counts
        return self.queries_of.arrays, answers, self.hashes, self.by_hash

    @property
    def n_bytes(self) -> int:
        """Size of the arrays."""
        own = (self.offsets, self.products, self.counts, self.hashes, self.by_hash)
        return self.queries_of.n_bytes + sum(array.nbytes for array in own)

    def rows(self, n_products: int) -> tuple[Csr, Csr]:
        """Past queries x n-grams, as far as impacts tell, and queries x products with counts.

        Indexed again, they give the same impacts and counts.
        """
        lists, n = self.queries_of, len(self)
        for ids, offsets, most in (
            (lists.ids, lists.offsets, n),
            (self.products, self.offsets, n_products),
            (self.by_hash, [], n),
        ):
            if (
                min(ids.min(initial=0), np.diff(offsets).min(initial=0)) < 0
                or ids.max(initial=-1) >= most
            ):
                raise ValueError(f"past queries must name rows below {most:,}; got others")
        weights = (lists.impacts / np.float32(LARGEST)).astype(np.float32)
        by_ngram = sp.csr_array((weights, lists.ids, lists.offsets), shape=(len(lists), n))
        counts = np.round(np.expm1(self.counts.astype(np.float64)), 3).astype(np.float32)
        return from_scipy(by_ngram.T.tocsr()), Csr(self.offsets, self.products, counts, n_products)

    def hash_of_query(self) -> NDArray[np.uint64]:
        """Hash of each query's text, (n_queries,)."""
        hashes = np.empty_like(self.hashes)
        hashes[self.by_hash] = self.hashes
        return hashes


def remember_queries(
    hashes: NDArray[np.uint64],
    X: Csr,
    Y: Csr,
    *,
    n_known: int,
    frequency: NDArray[np.float64],
    most: int,
) -> PastQueries:
    """Index queries: hashes of their normalized texts, queries x features, queries x products.

    Features from `n_known` on stand for unknown n-grams, and are left out. Of more than `most`
    queries, the most frequent are remembered.
    """
    if len(hashes) > most:
        kept = np.sort(np.argsort(-frequency, kind="stable")[:most])
        hashes, X, Y = hashes[kept], X.take(kept), Y.take(kept)
    order = np.argsort(hashes, kind="stable")
    return PastQueries(
        invert(X, 1.0, n_terms=n_known),
        Y.indptr,
        Y.indices,
        _native.log_fixed(1 + Y.data.astype(np.float64)).astype(np.float32),
        hashes[order],
        order.astype(np.int32),
    )
