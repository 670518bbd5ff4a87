"""Postings: which documents share features with a query, and how strongly?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import count_threads
from matchset.matrices import Csr

_SMALL_BATCH = 32  # queries that are not worth more than one thread


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """An inverted index: a row per feature, with the documents that have it and its weight there.

    The documents of a row are in any order. The arrays may be memory-mapped, and are checked as
    they are read.
    """

    lists: Csr  # (n_features, n_documents)

    @classmethod
    def of(cls, documents: Csr) -> Postings:
        """Return the index of documents x features."""
        return cls(documents.transposed())

    @property
    def n_documents(self) -> int:
        """Number of documents."""
        return self.lists.n_cols

    def require(self, n_features: int, n_documents: int) -> Postings:
        """Return itself, or raise a ValueError if its shape is another."""
        found, wanted = (len(self.lists), self.n_documents), (n_features, n_documents)
        if found != wanted:
            raise ValueError(f"an index must have the shape {wanted}; got {found}")
        return self

    def rank(
        self,
        X: Csr,
        k: int,
        *,
        allowed: NDArray[np.bool_] | None = None,
        threads: int | None = None,
    ) -> Csr:
        """Return the k documents with the largest positive dot product with each row of X.

        Best first, ties by index; only `allowed` ones, (n_documents,), if given.
        """
        if X.n_cols != len(self.lists):
            raise ValueError(f"X must have {len(self.lists)} columns; got {X.n_cols}")
        n_threads = 1 if len(X) <= _SMALL_BATCH else count_threads(threads)
        mask = None if allowed is None else allowed.view(np.uint8)
        found = _native.rank_documents(
            self.lists.arrays, self.n_documents, X.arrays, mask, k=k, threads=n_threads
        )
        return Csr(*found, self.n_documents)
