"""Heirs: which products lend their places in the tree to those without a past query?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.matrices import Ids, rows_of
from matchset.model.inverted_lists import ByteVectors
from matchset.model.towers import TowerIndex

LENDERS = 3  # of a product, at most
_BLOCK = 1 << 16  # products whose vectors are floats at once


@dataclass(frozen=True, slots=True, eq=False)
class Heirs:
    """Products without a past query, and those with the most similar titles that have one.

    The tree proposes an heir where it proposes a lender, with the best of their scores.
    """

    labels: Ids  # of the heirs, ascending, (n_heirs,)
    lenders: Ids  # the most similar first, -1 for none, (n_heirs, LENDERS)

    def __post_init__(self) -> None:
        shape = (len(self.labels), LENDERS)
        if self.lenders.shape != shape or {self.labels.dtype, self.lenders.dtype} != {
            np.dtype(np.int32)
        }:
            raise ValueError(f"lenders must be {shape} of int32; got {self.lenders.shape}")

    def join(self, first_label: int, lenders: Ids) -> Heirs:
        """Append products that were added, under labels from `first_label` on."""
        labels = np.arange(first_label, first_label + len(lenders), dtype=np.int32)
        return Heirs(np.concatenate([self.labels, labels]), np.concatenate([self.lenders, lenders]))

    def of_label(self, label: int) -> Ids:
        """Return the labels of a product's lenders, the most similar first."""
        found: Ids = self.lenders[self.labels == label].reshape(-1)
        return found[found >= 0]

    @property
    def arrays(self) -> tuple[Ids, Ids]:
        """What kernels take."""
        is_lent = self.lenders >= 0
        return np.repeat(self.labels, is_lent.sum(axis=1)), self.lenders[is_lent]


def find_heirs(towers: TowerIndex, is_warm: NDArray[np.bool_], *, threads: int) -> Heirs:
    """Find lenders for each trained product that is not warm."""
    labels = np.flatnonzero(~is_warm & (towers.position_of >= 0)).astype(np.int32)
    vectors = towers.lists.vectors.take(towers.position_of[labels])
    return Heirs(labels, find_lenders(vectors, towers, is_warm, threads=threads))


def find_lenders(
    vectors: ByteVectors, towers: TowerIndex, is_warm: NDArray[np.bool_], *, threads: int
) -> Ids:
    """Find the warm products that lie nearest to each vector, (n, LENDERS); -1 for none."""
    lenders = np.full((len(vectors), LENDERS), -1, dtype=np.int32)
    for begin in range(0, len(vectors), _BLOCK):
        block = vectors.take(np.arange(begin, min(len(vectors), begin + _BLOCK)))
        near = towers.lists.search(block.to_floats(), LENDERS, allowed=is_warm, threads=threads)
        lenders[begin + rows_of(near.indptr), near.position_in_row] = near.indices
    return lenders
