"""Two-tower index: which products have titles that mean what a query means?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from matchset.matrices import Ids
from matchset.model.inverted_lists import ByteVectors, InvertedLists
from matchset.storage.folders import Arrays
from matchset.storage.sections import Section


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
        return sum(array.nbytes for array in store_towers(self).arrays.values())


def store_towers(towers: TowerIndex) -> Section:
    """A two-tower index as a section."""
    lists = towers.lists
    arrays: Arrays = {
        "row_of": towers.row_of,
        "position_of": towers.position_of,
        "group_offsets": lists.group_offsets,
        "list_offsets": lists.list_offsets,
        "labels": lists.labels,
    }
    for name, vectors in _vectors_of(towers).items():
        arrays = {**arrays, f"{name}.values": vectors.arrays[0], f"{name}.scales": vectors.scales}
    return Section({"dimensions": towers.table.dimensions, "n_labels": lists.n_labels}, arrays)


def _vectors_of(towers: TowerIndex) -> dict[str, ByteVectors]:
    lists = towers.lists
    return {
        "table": towers.table,
        "groups": lists.groups,
        "clusters": lists.clusters,
        "vectors": lists.vectors,
    }


def read_towers(section: Section) -> TowerIndex:
    """A two-tower index from its section; offsets and sizes are checked by the kernel."""
    arrays, dimensions = section.arrays, int(section.header["dimensions"])
    types = {
        "row_of": np.int32,
        "position_of": np.int32,
        "group_offsets": np.int64,
        "list_offsets": np.int64,
        "labels": np.int32,
    }
    for name, dtype in types.items():
        if arrays[name].dtype != dtype or arrays[name].ndim != 1:
            raise TypeError(f"{name} must be {dtype.__name__}; got {arrays[name].dtype}")
    vectors = {name: _read_vectors(section, name, dimensions) for name in
               ("table", "groups", "clusters", "vectors")}  # fmt: skip
    lists = InvertedLists(
        arrays["group_offsets"],
        arrays["list_offsets"],
        vectors["groups"],
        vectors["clusters"],
        vectors["vectors"],
        arrays["labels"],
        int(section.header["n_labels"]),
    )
    return TowerIndex(arrays["row_of"], vectors["table"], lists, arrays["position_of"])


def _read_vectors(section: Section, name: str, dimensions: int) -> ByteVectors:
    found = section.within(name)
    values, scales = found["values"], found["scales"]
    if values.dtype != np.int8 or scales.dtype != np.float32:
        raise TypeError(f"{name} must be int8 and float32; got {values.dtype} and {scales.dtype}")
    if len(values) != len(scales) * dimensions:
        raise ValueError(f"{name} must have {dimensions} bytes a vector; got {len(values)}")
    return ByteVectors(values.reshape(-1, dimensions), scales)
