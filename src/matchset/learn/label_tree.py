"""Tree building: which labels go into the same cluster?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from matchset import _native
from matchset.matrices import Csr, Ids, Offsets, offsets_of, positions_of
from matchset.model.tree import LabelTree


def build_tree(
    Z: Csr, *, branching: int, max_leaf_size: int, max_iter: int, seed: int, threads: int
) -> LabelTree:
    """Split the labels (unit rows of Z) top-down and evenly, down to leaves of `max_leaf_size`.

    Each split is a sequence of balanced two-way cuts by spherical 2-means.
    """
    splits = plan_splits(len(Z), branching, max_leaf_size)
    return cut_labels(Z, splits, max_iter=max_iter, seed=seed, threads=threads)


def cut_labels(
    Z: Csr, splits: tuple[int, ...], *, max_iter: int, seed: int, threads: int
) -> LabelTree:
    """Split the labels into so many even parts at each level."""
    labels = _native.order_labels(
        Z.arrays,
        Z.n_cols,
        np.array(splits, dtype=np.int32),
        max_iter=max_iter,
        seed=seed,
        threads=threads,
    )
    return LabelTree(labels, plan_offsets(len(Z), splits))


@dataclass(frozen=True, slots=True)
class Subtree:
    """Labels that lie together in the order of the tree, and are still to be cut."""

    begin: int  # position of the first label
    end: int
    level: int  # of the node that is cut
    n_parts: int  # that it is cut into, of the labels here


def cut_top(
    Z: Csr,
    splits: tuple[int, ...],
    *,
    most: int,
    n_sampled: int,
    max_iter: int,
    seed: int,
    threads: int,
) -> tuple[Ids, list[Subtree]]:
    """Cut the top of a large tree; return the order of labels, and subtrees of up to `most`.

    The 2-means of a cut sees at most `n_sampled` labels, one of each of so many even ranges of the
    node's; all of them then take their sides by their scores. Data and seed decide the sample.
    """
    order, found = _native.cut_top(
        Z.arrays,
        Z.n_cols,
        np.array(splits, dtype=np.int32),
        most=most,
        n_sampled=n_sampled,
        max_iter=max_iter,
        seed=seed,
        threads=threads,
    )
    ends = [begin for begin, _, _ in found[1:]] + [len(Z)]
    return order, [Subtree(begin, end, *of) for (begin, *of), end in zip(found, ends, strict=True)]


def order_subtree(
    Z: Csr, splits: tuple[int, ...], subtree: Subtree, *, max_iter: int, seed: int, threads: int
) -> Ids:
    """Return the labels of a subtree (rows of Z) in the order of the whole tree."""
    return _native.order_labels(
        Z.arrays,
        Z.n_cols,
        np.array(splits, dtype=np.int32),
        subtree=(subtree.begin, subtree.level, subtree.n_parts),
        max_iter=max_iter,
        seed=seed,
        threads=threads,
    )


def plan_splits(n_labels: int, branching: int, max_leaf_size: int) -> tuple[int, ...]:
    """Return the number of children of each node, for every level above the leaf clusters.

    The number of levels brings the splits closest to `branching`. They are about equal, and never
    more than twice `branching`; if one cluster is enough, there are none.
    """
    needed = -(-n_labels // max_leaf_size)
    if needed <= 1:
        return ()
    levels = max(1, round(math.log(n_labels / max_leaf_size) / math.log(branching)))
    while _ceil_root(needed, levels) > 2 * branching:
        levels += 1
    splits = []
    for left in range(levels, 0, -1):
        splits.append(_ceil_root(needed, left))
        needed = -(-needed // splits[-1])
    return tuple(splits)


def plan_offsets(n_labels: int, splits: tuple[int, ...]) -> tuple[Offsets, ...]:
    """Return where each node's children start, per level; siblings differ by at most one."""
    sizes = np.array([n_labels], dtype=np.int64)  # labels under each node of the level
    offsets: list[Offsets] = []
    for split in splits:
        n_parts = np.minimum(sizes, split)
        offsets.append(offsets_of(n_parts))
        sibling = positions_of(offsets[-1])
        sizes = np.repeat(sizes // n_parts, n_parts) + (
            sibling < np.repeat(sizes % n_parts, n_parts)
        )
    return (*offsets, offsets_of(sizes))


def _ceil_root(n: int, degree: int) -> int:
    """Return the smallest integer whose `degree`-th power is at least n."""
    root: int = max(1, math.floor(n ** (1 / degree)) - 1)
    while pow(root, degree) < n:
        root += 1
    return root
