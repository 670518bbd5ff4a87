"""Inverted lists: which products lie near a query's vector?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.matrices import Csr, Floats, Ids, Offsets

NEAR_GROUPS = 8  # in which a vector's nearest cluster is looked for
NEAR_LISTS = 64  # clusters near its own that a vector is compared with, where there are many


@dataclass(frozen=True, slots=True, eq=False)
class ByteVectors:
    """Vectors rounded to a byte per dimension, each with a scale: `values * scales[:, None]`.

    The largest value of a vector is 127 or -127. Arrays may be memory-mapped.
    """

    values: NDArray[np.int8]  # (n, dimensions)
    scales: Floats  # (n,); zero for a vector of zeros

    def __post_init__(self) -> None:
        if self.values.ndim != 2 or self.values.shape[:1] != self.scales.shape:
            found = f"{self.values.shape} and {self.scales.shape}"
            raise ValueError(f"vectors must be rows, each with a scale; got {found}")

    def __len__(self) -> int:
        return len(self.scales)

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return int(self.values.shape[1])

    @property
    def arrays(self) -> tuple[NDArray[np.int8], Floats]:
        """What kernels take."""
        return self.values.reshape(-1), self.scales

    def to_floats(self) -> Floats:
        """Return the vectors as they are after rounding, (n, dimensions)."""
        return self.values * self.scales[:, None]

    def take(self, rows: NDArray[np.integer]) -> ByteVectors:
        """Some of the vectors."""
        return ByteVectors(self.values[rows], self.scales[rows])

    def join(self, more: ByteVectors) -> ByteVectors:
        """These vectors, then others."""
        values = np.concatenate([self.values, more.values])
        return ByteVectors(values, np.concatenate([self.scales, more.scales]))


def quantize(vectors: Floats) -> ByteVectors:
    """Round vectors of a multiple of 16 dimensions to bytes."""
    n, dimensions = vectors.shape
    flat = np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1)
    values, scales = _native.quantize(flat, dimensions=dimensions)
    return ByteVectors(values.reshape(n, dimensions), scales)


@dataclass(frozen=True, slots=True, eq=False)
class InvertedLists:
    """Products in clusters of almost equal size, clusters in groups; both have a centroid.

    Products lie in the order of their clusters, so that a cluster is one run of memory. Those
    whose vector is zero are in none.
    """

    group_offsets: Offsets  # first cluster of each group, (n_groups + 1,)
    list_offsets: Offsets  # first product of each cluster, (n_lists + 1,)
    groups: ByteVectors  # centroids, (n_groups, dimensions)
    clusters: ByteVectors  # centroids, (n_lists, dimensions)
    vectors: ByteVectors  # of products, in the order of `labels`
    labels: Ids  # (n_placed,)
    n_labels: int

    @property
    def n_lists(self) -> int:
        """How many clusters there are."""
        return len(self.list_offsets) - 1

    @property
    def n_groups(self) -> int:
        """How many groups of clusters there are."""
        return len(self.group_offsets) - 1

    def search(
        self,
        queries: Floats,
        k: int,
        *,
        allowed: NDArray[np.bool_] | None = None,
        n_lists: int = 10,
        n_groups: int = 16,
        threads: int = 1,
    ) -> Csr:
        """Return the k nearest products in the clusters nearest to each query.

        `n_lists` clusters are read, found in the `n_groups` nearest groups. Labels and
        cosines, best first, equal ones by label; a query of zeros gets none. Labels that are not
        `allowed` are left out.
        """
        offsets, labels, cosines = _native.search_lists(
            (self.group_offsets, self.list_offsets),
            (self.groups.arrays, self.clusters.arrays, self.vectors.arrays),
            self.labels,
            np.ascontiguousarray(queries, dtype=np.float32).reshape(-1),
            dimensions=self.vectors.dimensions,
            allowed=np.empty(0, np.uint8) if allowed is None else allowed.view(np.uint8),
            n_groups=n_groups,
            n_lists=n_lists,
            k=k,
            threads=threads,
        )
        return Csr(offsets, labels, cosines, self.n_labels)


def assign_clusters(vectors: ByteVectors, lists: InvertedLists, *, threads: int) -> Ids:
    """Return the nearest cluster of each vector, (n,)."""
    return _native.assign_clusters(
        vectors.arrays,
        lists.group_offsets,
        lists.groups.arrays,
        lists.clusters.arrays,
        dimensions=vectors.dimensions,
        n_groups=NEAR_GROUPS,
        threads=threads,
    )


def move_to_nearest(
    lists: InvertedLists, chosen: range, *, is_near: bool = False, threads: int
) -> Ids:
    """Return the nearest cluster of each product in a range of clusters.

    With `is_near`, it is looked for among the `NEAR_LISTS` clusters nearest to its own.
    """
    begin, end = (int(lists.list_offsets[i]) for i in (chosen.start, chosen.stop))
    vectors = ByteVectors(lists.vectors.values[begin:end], lists.vectors.scales[begin:end])
    if not is_near:
        return assign_clusters(vectors, lists, threads=threads)
    return _native.assign_near(
        vectors.arrays,
        lists.list_offsets[chosen.start : chosen.stop + 1] - begin,
        chosen.start,
        lists.group_offsets,
        lists.groups.arrays,
        lists.clusters.arrays,
        dimensions=vectors.dimensions,
        n_groups=NEAR_GROUPS,
        n_near=NEAR_LISTS,
        threads=threads,
    )
