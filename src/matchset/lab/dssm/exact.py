"""DSSM: which products have the largest cosine with a query's vector?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from matchset.filters.filter import Filter
from matchset.lab.dssm.hnsw import DSSMWithHNSW
from matchset.lab.dssm.int8 import DSSMWithInt8, round_space
from matchset.lab.dssm.space import Space, SpaceMatcher, find_nearest
from matchset.matrices import Csr, Floats


@dataclass(frozen=True, eq=False, repr=False)
class DSSM(SpaceMatcher):
    """Two-tower retrieval after "Semantic Product Search" (Nigam et al., 2019), by exact search.

    Queries and titles go through one network, `space.tower`. A product's score is the cosine of the
    two vectors. Every product with a title is scored. `train_dssm` makes it. Opening a saved one
    needs neither PyTorch nor usearch.
    """

    kind: ClassVar[str] = "dssm"
    space: Space

    def search(self, vectors: Floats, k: int, *, where: Filter | None = None) -> Csr:
        """Return labels and cosines of the k nearest products of each vector, best first.

        Vectors are what `encode` gives; one of zeros gets nothing.
        """
        return find_nearest(self.space.vectors, vectors, k, labels=self.space.allow(where))

    def with_hnsw(self, *, threads: int | None = 1) -> DSSMWithHNSW:
        """Search the same space through a graph of neighbors (usearch, the extra `dssm`).

        The graph has the settings of the XR-Linear paper. With one thread the same vectors give
        the same graph; more threads build it faster, but not reproducibly.
        """
        matcher = DSSMWithHNSW(self.space, threads)
        matcher.graph  # noqa: B018  # built now, not by the first query
        return matcher

    def with_int8(self, dimensions: int | None = None) -> DSSMWithInt8:
        """Scan the same space whole, with a byte per dimension, perhaps in fewer dimensions."""
        return round_space(self.space, dimensions)
