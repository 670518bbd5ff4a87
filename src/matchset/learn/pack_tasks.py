"""Tasks of packing: how do many machines pack the weights of a large tree?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any

import numpy as np

from matchset.config import Precision
from matchset.learn.layers import Range
from matchset.learn.tree_tasks import TreeSource, list_ranges, read_parts
from matchset.matrices import offsets_of
from matchset.model.packed import PackedTree, join_packed, pack_parents
from matchset.work.tasks import Job, Results, Task

# What a task packs, counted as the cost of a `Range`: its memory is about 30 bytes for each.
PACKED_COST = 100_000_000


def plan_packing(given: Mapping[str, Any], results: Results) -> list[Task]:
    """A task for each part of a large tree that is packed by itself."""
    source: TreeSource = given["source"]
    parts = _plan_packed_parts(list_ranges(results, source))
    if len(parts) == 1:
        return []
    return [
        Task(_packed_name(source, part), _pack_part, {**given, "ranges": part}, is_wide=True)
        for part in parts
    ]


def plan_joining(given: Mapping[str, Any], results: Results) -> list[Task]:
    """The task that makes the packed tree; it is told how the layers were cut."""
    source: TreeSource = given["source"]
    arguments = {**given, "parts": _plan_packed_parts(list_ranges(results, source))}
    return [Task(source.prefix + "pack", _pack, arguments, is_wide=True)]


def _plan_packed_parts(ranges: Sequence[Range]) -> list[list[Range]]:
    """Ranges that follow one another and cost about the same in all; the data alone decides."""
    ordered = sorted(ranges)
    before = offsets_of([int(one.cost) for one in ordered])
    number = before[:-1] // PACKED_COST
    cuts = np.flatnonzero(np.diff(number)) + 1
    bounds = [0, *cuts.tolist(), len(ordered)]
    return [ordered[begin:end] for begin, end in pairwise(bounds)]


def _packed_name(source: TreeSource, part: Sequence[Range]) -> str:
    return f"{source.prefix}pack.part/{part[0].name}"


def _pack_part(
    job: Job, *, source: TreeSource, precision: Precision, ranges: Sequence[Range]
) -> Mapping[str, Any]:
    """Some parents of a tree, packed by themselves."""
    tree = job.results.get(source.prefix + "tree", "tree")
    layers = []
    for level, own in groupby(ranges, key=attrgetter("level")):
        chosen = list(own)
        solved = read_parts(job.results, source, level, chosen)
        first = tree.offsets[level][chosen[0].begin : chosen[-1].end + 1]
        layers.append((first, [part.part for part in solved]))
    packed = pack_parents(
        layers,
        source.read(job.results).X.n_cols,
        is_whole=False,
        precision=precision,
        threads=job.threads,
    )
    return {"packed": packed}


def _pack(
    job: Job, *, source: TreeSource, precision: Precision, parts: Sequence[Sequence[Range]]
) -> Mapping[str, Any]:
    """The packed tree, and what the summary tells of it."""
    examples, tree = source.read(job.results), job.results.get(source.prefix + "tree", "tree")
    if len(parts) > 1:
        names = [_packed_name(source, part) for part in parts]
        packed = join_packed([job.results.get(name, "packed") for name in names])
    else:
        made = _pack_part(job, source=source, precision=precision, ranges=parts[0])
        packed = made["packed"]
    ranges = [one for part in parts for one in part]
    layers = [read_parts(job.results, source, level, ranges) for level in range(tree.depth)]
    n_weights = tuple(sum(len(part.weights) for part in own) for own in layers)
    n_features, n_labels = examples.X.n_cols, examples.Y.n_cols
    return {
        "tree": PackedTree(
            tree.labels, *packed, tree.sizes, n_features, n_labels, sum(n_weights), precision
        ),
        "n_weights": n_weights,
        "n_unconverged": tuple(sum(part.n_unconverged for part in own) for own in layers),
    }
