"""Label tree: which labels are scored together?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matchset.matrices import Ids, Offsets


@dataclass(frozen=True, slots=True, eq=False)
class LabelTree:
    """Siblings are contiguous, so the whole tree is one offsets array per level.

    Level 0 is the root alone. The children of the last level are the labels, at *leaf positions*;
    `labels` says which label stands at each. Labels that were not placed are in no leaf.
    """

    labels: Ids  # label at each leaf position, (n_placed,)
    offsets: tuple[Offsets, ...]  # per level, place of each node's first child, (n_nodes + 1,)

    @property
    def depth(self) -> int:
        """How many choices lead from the root to a label."""
        return len(self.offsets)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Nodes below the root per level; the last are the labels."""
        return tuple(int(offsets[-1]) for offsets in self.offsets)

    def parents(self, level: int) -> Ids:
        """Node of `level` above each node of the level below, (n_nodes below,)."""
        sizes = np.diff(self.offsets[level])
        return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
