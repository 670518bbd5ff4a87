"""DSSM by int8 scan: which products are near a query, when every dimension is one byte?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from matchset.config import count_threads
from matchset.filters.filter import Filter
from matchset.lab.dssm.space import Space, SpaceMatcher
from matchset.matrices import Csr, Floats
from matchset.model.inverted_lists import ByteVectors, InvertedLists, quantize

_LANES = 16  # dimensions that the kernel multiplies at once


@dataclass(frozen=True, eq=False, repr=False)
class DSSMWithInt8(SpaceMatcher):
    """DSSM by a scan of all products, whose vectors are rounded to one byte per dimension.

    Unlike a graph, the scan skips no product. It is the scan of our own two-tower index. With fewer
    dimensions than the tower has, queries and products are projected onto the principal axes of the
    products. Scores are cosines, as exact as the rounding and the projection allow.
    `DSSM.with_int8` makes it. Its file keeps the unrounded vectors too.
    """

    kind: ClassVar[str] = "dssm_int8"
    space: Space
    rounded: ByteVectors  # of the products that have a vector, in the order of `space.placed`
    axes: Floats | None = None  # (tower's dimensions, fewer); None: all of them

    def __post_init__(self) -> None:
        tower, rounded = self.space.tower.dimensions, self.rounded
        if self.axes is not None and (self.axes.ndim != 2 or len(self.axes) != tower):
            raise ValueError(f"axes must have {tower} rows; got {self.axes.shape}")
        wanted = (len(self.space.placed), _pad(self.dimensions))
        if (found := rounded.values.shape) != wanted or rounded.scales.shape != wanted[:1]:
            raise ValueError(f"vectors must be of {wanted}; got {found}")

    @property
    def dimensions(self) -> int:
        """Dimensions that are compared."""
        return self.space.tower.dimensions if self.axes is None else self.axes.shape[1]

    def search(self, vectors: Floats, k: int, *, where: Filter | None = None) -> Csr:
        """Return labels and cosines of the k nearest products of each vector, best first.

        Vectors are what `encode` gives; one of zeros gets nothing.
        """
        space, rounded, labels = self.space, self.rounded, self.space.placed
        if where is not None:
            rows = np.flatnonzero(where.allowed[labels])
            rounded, labels = rounded.take(rows), labels[rows]
        center = ByteVectors(np.zeros((1, rounded.dimensions), np.int8), np.zeros(1, np.float32))
        one, ends = np.array([0, 1], dtype=np.int64), np.array([0, len(labels)], dtype=np.int64)
        lists = InvertedLists(one, ends, center, center, rounded, labels, len(space.products))
        threads = 1 if len(vectors) == 1 else count_threads(None)
        queries = _project(vectors, self.axes)
        return lists.search(queries, k, n_lists=1, n_groups=1, threads=threads)


def round_space(space: Space, dimensions: int | None) -> DSSMWithInt8:
    """Round the vectors of a space, perhaps in fewer dimensions."""
    most = space.tower.dimensions
    if dimensions is not None and not 1 <= dimensions <= most:
        raise ValueError(f"dimensions must be from 1 to {most}; got {dimensions}")
    vectors = space.vectors[space.placed]
    axes = None if dimensions in (None, most) else find_axes(vectors, dimensions or most)
    return DSSMWithInt8(space, quantize(_project(vectors, axes)), axes)


def find_axes(vectors: Floats, n: int) -> Floats:
    """Return the n principal axes of vectors, as columns: directions in which they are longest."""
    _, axes = np.linalg.eigh(vectors.T.astype(np.float64) @ vectors)  # ascending
    return np.ascontiguousarray(axes[:, ::-1][:, :n], dtype=np.float32)


def _project(vectors: Floats, axes: Floats | None) -> Floats:
    """Project vectors on the axes, with zeros up to a multiple of what the kernel takes."""
    # Added pair by pair: the sums of a matrix product depend on the size of the batch.
    chosen = vectors if axes is None else np.einsum("ij,jk->ik", vectors, axes)
    missing = _pad(chosen.shape[1]) - chosen.shape[1]
    return np.pad(chosen, [(0, 0), (0, missing)]) if missing else chosen


def _pad(dimensions: int) -> int:
    return -(-dimensions // _LANES) * _LANES
