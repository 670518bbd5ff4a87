"""Two-tower index: which products have titles that mean what a query means?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from matchset import _native
from matchset.matrices import Floats, Ids, Offsets
from matchset.model.inverted_lists import ByteVectors, InvertedLists, quantize


@dataclass(frozen=True, slots=True, eq=False)
class TowerIndex:
    """Embeddings of n-grams, and the products in inverted lists of their vectors."""

    row_of: Ids  # row of each feature in the table, -1 for none, (n_features,)
    table: ByteVectors  # embeddings
    lists: InvertedLists
    position_of: Ids  # of each product in the lists, -1 for none, (n_products,)

    @classmethod
    def of(cls, row_of: Ids, table: ByteVectors, lists: InvertedLists) -> TowerIndex:
        """With the position of each product."""
        position_of = np.full(lists.n_labels, -1, dtype=np.int32)
        position_of[lists.labels] = np.arange(len(lists.labels), dtype=np.int32)
        return cls(row_of, table, lists, position_of)

    @property
    def arrays(self) -> tuple[Any, ...]:
        """What kernels take."""
        lists = self.lists
        return (
            self.row_of,
            self.table.arrays,
            (lists.group_offsets, lists.list_offsets),
            (lists.groups.arrays, lists.clusters.arrays, lists.vectors.arrays),
            lists.labels,
            self.position_of,
            self.table.dimensions,
        )

    @property
    def n_bytes(self) -> int:
        """Size of the arrays."""
        lists = self.lists
        vectors = (self.table, lists.groups, lists.clusters, lists.vectors)
        n_bytes = sum(each.values.nbytes + each.scales.nbytes for each in vectors)
        ids = (self.row_of, self.position_of, lists.labels)
        offsets = (lists.group_offsets, lists.list_offsets)
        return n_bytes + sum(array.nbytes for array in (*ids, *offsets))


MORE_WEIGHT = 0.3  # of the vector of the text beside a title
_BLOCK = 1 << 16  # products whose vectors are floats at once


def encode_products(
    texts: Sequence[tuple[Offsets, Ids]], row_of: Ids, table: ByteVectors, *, threads: int
) -> ByteVectors:
    """Vectors of products: of their titles and, which counts less, of the text beside them.

    Block by block: as floats, they would take four times the memory of the result.
    """
    n = len(texts[0][0]) - 1
    values = np.empty((n, table.dimensions), dtype=np.int8)
    scales = np.empty(n, dtype=np.float32)
    for begin in range(0, n, _BLOCK):
        block = slice(begin, min(n, begin + _BLOCK))
        some = [_take(each, block) for each in texts]
        found = _encode_block(some, row_of, table, threads=threads)
        values[block], scales[block] = found.values, found.scales
    return ByteVectors(values, scales)


def _take(texts: tuple[Offsets, Ids], block: slice) -> tuple[Offsets, Ids]:
    offsets, ids = texts
    own = offsets[block.start : block.stop + 1]
    return own - own[0], ids[own[0] : own[-1]]


def _encode_block(
    texts: Sequence[tuple[Offsets, Ids]], row_of: Ids, table: ByteVectors, *, threads: int
) -> ByteVectors:
    vectors = [encode_texts(each, row_of, table, threads=threads) for each in texts]
    if len(vectors) == 1:
        return quantize(vectors[0])
    mixed = vectors[0] + np.float32(MORE_WEIGHT) * vectors[1]
    squares = np.zeros(len(mixed), dtype=np.float32)
    for values in mixed.T:  # in one order, for any number of products and on any machine
        squares += values * values
    mixed /= np.sqrt(np.where(squares > 0, squares, np.float32(1)))[:, None]
    return quantize(mixed)


def encode_texts(
    texts: tuple[Offsets, Ids], row_of: Ids, table: ByteVectors, *, threads: int
) -> Floats:
    """Return the mean embedding of each text's features, of length one; zero where none has one."""
    vectors: Floats = _native.encode_texts(
        texts, row_of, table.arrays, dimensions=table.dimensions, threads=threads
    )
    return vectors.reshape(-1, table.dimensions)
