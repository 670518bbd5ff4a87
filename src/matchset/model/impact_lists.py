"""Impact lists: in which documents does a term matter most?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.matrices import Csr, Floats, Ids, Offsets

LARGEST = 255  # impact


@dataclass(frozen=True, slots=True, eq=False)
class ImpactLists:
    """Rows of ids, each with an impact from 1 to 255. Arrays may be memory-mapped."""

    offsets: Offsets  # (n_rows + 1,)
    ids: Ids  # (n_entries,)
    impacts: NDArray[np.uint8]  # (n_entries,)

    def __post_init__(self) -> None:
        n = len(self.ids)
        if len(self.impacts) != n or len(self.offsets) == 0 or self.offsets[-1] != n:
            rule = "offsets must end with the number of ids and impacts"
            raise ValueError(f"{rule}; got {n} and {len(self.impacts)}")

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
