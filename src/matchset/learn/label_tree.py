"""Tree building: into which clusters do the labels go?"""

from __future__ import annotations

import math

import numpy as np

from matchset import _native
from matchset.matrices import Csr, Offsets, offsets_of, positions_of
from matchset.model.tree import LabelTree


def build_tree(
    Z: Csr, *, branching: int, max_leaf: int, passes: int, seed: int, threads: int
) -> LabelTree:
    """Split labels (rows of Z, of length one) top-down and evenly, until leaves hold `max_leaf`.

    Each split is made of balanced two-way cuts by spherical 2-means.
    """
    splits = plan_splits(len(Z), branching, max_leaf)
    labels = _native.order_labels(
        Z.arrays,
        Z.n_cols,
        np.array(splits, dtype=np.int32),
        max_passes=passes,
        seed=seed,
        threads=threads,
    )
    return LabelTree(labels, plan_offsets(len(Z), splits))


def plan_splits(n_labels: int, branching: int, max_leaf: int) -> tuple[int, ...]:
    """Children of each node per level above the leaf clusters, so that no level is wasted.

    As many levels as bring the split nearest to `branching`, each near the even root of the number
    of leaf clusters needed and none above twice `branching`; none at all where one cluster will do.
    """
    needed = -(-n_labels // max_leaf)
    if needed <= 1:
        return ()
    levels = max(1, round(math.log(n_labels / max_leaf) / math.log(branching)))
    while _ceil_root(needed, levels) > 2 * branching:
        levels += 1
    splits = []
    for left in range(levels, 0, -1):
        splits.append(_ceil_root(needed, left))
        needed = -(-needed // splits[-1])
    return tuple(splits)


def plan_offsets(n_labels: int, splits: tuple[int, ...]) -> tuple[Offsets, ...]:
    """Where each node's children start, per level: sizes of siblings differ by one at most."""
    sizes = np.array([n_labels], dtype=np.int64)  # labels under each node of the level
    offsets: list[Offsets] = []
    for split in splits:
        n_parts = np.minimum(sizes, split)
        offsets.append(offsets_of(n_parts))
        number = positions_of(offsets[-1])
        sizes = np.repeat(sizes // n_parts, n_parts) + (
            number < np.repeat(sizes % n_parts, n_parts)
        )
    return (*offsets, offsets_of(sizes))


def _ceil_root(n: int, degree: int) -> int:
    """Smallest integer whose `degree`-th power is at least n."""
    root: int = max(1, math.floor(n ** (1 / degree)) - 1)
    while pow(root, degree) < n:
        root += 1
    return root
