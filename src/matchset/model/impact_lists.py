"""Impact lists: in which documents does a term matter most?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.matrices import Csr, Floats, Ids, Offsets
from matchset.storage.folders import Arrays
from matchset.storage.sections import Section

LARGEST = 255  # impact


@dataclass(frozen=True, slots=True, eq=False)
class ImpactLists:
    """Rows of ids, each with an impact from 1 to 255. Arrays may be memory-mapped."""

    offsets: Offsets  # (n_rows + 1,)
    ids: Ids  # (n_entries,)
    impacts: NDArray[np.uint8]  # (n_entries,)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def arrays(self) -> tuple[Offsets, Ids, NDArray[np.uint8]]:
        """What kernels take."""
        return self.offsets, self.ids, self.impacts

    @property
    def n_bytes(self) -> int:
        """Size of the arrays."""
        return self.offsets.nbytes + self.ids.nbytes + self.impacts.nbytes


def round_impacts(weights: Floats, largest: float) -> NDArray[np.uint8]:
    """Positive weights as shares of the largest in 255 steps, at least one step each."""
    steps = np.rint(weights.astype(np.float64) * (LARGEST / largest))
    return np.clip(steps, 1, LARGEST).astype(np.uint8)


def invert(
    documents: Csr, largest: float, *, n_terms: int | None = None, threads: int = 1
) -> ImpactLists:
    """For each column of documents x terms its documents, the largest impacts first.

    With `n_terms`, of the first columns alone; impacts are those of `round_impacts`.
    """
    n_cols = documents.n_cols
    n_terms = n_cols if n_terms is None else n_terms
    return ImpactLists(*_native.invert(documents.arrays, n_cols, n_terms, largest, threads))


def store_impacts(name: str, lists: ImpactLists) -> Arrays:
    """The arrays of impact lists, each with the prefix `name.`."""
    return {
        f"{name}.offsets": lists.offsets,
        f"{name}.ids": lists.ids,
        f"{name}.impacts": lists.impacts,
    }


def read_impacts(section: Section, name: str) -> ImpactLists:
    """Impact lists from the arrays of a section; rows are checked as they are read."""
    found = section.within(name)
    types = {"offsets": np.int64, "ids": np.int32, "impacts": np.uint8}
    for key, dtype in types.items():
        if found[key].dtype != dtype or found[key].ndim != 1:
            raise TypeError(f"{name}.{key} must be {dtype.__name__}; got {found[key].dtype}")
    offsets, ids, impacts = (found[key] for key in types)
    if len(ids) != len(impacts) or len(offsets) == 0 or offsets[-1] != len(ids):
        raise ValueError(
            f"offsets of {name} must end with the number of ids and impacts; "
            f"got {len(ids)} and {len(impacts)}"
        )
    return ImpactLists(offsets, ids, impacts)
