"""Tasks of the inverted lists: how do many machines put products into their nearest lists?

Up to `LISTS_PER_TASK` lists, one task does everything. If there are more, products move to their
nearest lists in ranges, one task each; the steps between are single tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from matchset.config import TrainConfig
from matchset.learn.clusters import (
    LIST_SIZE,
    PASSES,
    build_inverted_lists,
    cut_lists,
    find_nearest,
    regroup,
)
from matchset.learn.match_set_tasks import PartSource, read_data, titles_of
from matchset.matrices import Ids
from matchset.model.inverted_lists import ByteVectors, InvertedLists
from matchset.model.towers import TowerIndex, encode_products
from matchset.work.tasks import Job, Results, Stage, Task, plan_parts

LISTS_PER_TASK = 16_384  # of about 64 products each


def encode_stages(source: PartSource, config: TrainConfig) -> list[Stage]:
    """The stages that end with the inverted lists of the two towers."""
    p, given = source.prefix, {"source": source, "config": config}
    stages: list[Stage] = []
    needs: tuple[str, ...] = ()
    for number in range(PASSES):
        lists, nearest = _name(source, number), _name(source, number) + ".nearest"
        made_of = (p + "fit", source.data, *needs)
        stages.append(Stage(lists, partial(_plan_lists, given, number), made_of))
        stages.append(Stage(nearest, partial(_plan_moving, source, number), (p + "fit", lists)))
        needs = (lists, nearest)
    made_of = (p + "fit", source.data, *needs)
    return [*stages, Stage(p + "encode", partial(_plan_last, given), made_of)]


def _plan_lists(given: Mapping[str, Any], number: int, results: Results) -> list[Task]:
    """The task that makes the lists before a pass, if there are several ranges."""
    source: PartSource = given["source"]
    if not _is_cut(results, source):
        return []
    ranges = _plan_ranges(results, source, number - 1) if number else []
    arguments = {**given, "number": number, "ranges": ranges}
    return [Task(_name(source, number), _make_lists, arguments, is_wide=True)]


def _plan_moving(source: PartSource, number: int, results: Results) -> list[Task]:
    """A task for each range of lists, whose products move to their nearest lists."""
    if not _is_cut(results, source):
        return []
    given = {"source": source, "number": number}
    return [
        Task(_name(source, number, chosen), _move, {**given, "chosen": chosen}, is_wide=True)
        for chosen in _plan_ranges(results, source, number)
    ]


def _plan_last(given: Mapping[str, Any], results: Results) -> list[Task]:
    """The task that makes the last lists; it is told how those before were cut."""
    source: PartSource = given["source"]
    ranges = _plan_ranges(results, source, PASSES - 1) if _is_cut(results, source) else []
    task = Task(source.prefix + "encode", _encode, {**given, "ranges": ranges}, is_wide=True)
    return [task]


def _is_cut(results: Results, source: PartSource) -> bool:
    """Whether there are several ranges; the number of products decides."""
    n_products = len(results.get(source.prefix + "fit", "vectors"))
    return n_products > LIST_SIZE * LISTS_PER_TASK


def _plan_ranges(results: Results, source: PartSource, number: int) -> list[range]:
    return plan_parts(results.get(_name(source, number), "lists").n_lists, LISTS_PER_TASK)


def _name(source: PartSource, number: int, chosen: range | None = None) -> str:
    """The task that makes the lists of a pass, or one that moves products of some lists."""
    name = f"{source.prefix}encode.{number}"
    return name if chosen is None else f"{name}.nearest/{chosen.start}-{chosen.stop}"


def _make_lists(
    job: Job, source: PartSource, config: TrainConfig, number: int, ranges: Sequence[range]
) -> Mapping[str, Any]:
    """The lists before a pass of k-means."""
    rule = {"seed": config.learn.seed, "threads": job.threads}
    if number == 0:
        return {"lists": cut_lists(_read_vectors(job, source), **rule)}
    lists, nearest = _read_pass(job.results, source, number - 1, ranges)
    return {"lists": regroup(lists, nearest, list_size=None, **rule)}


def _move(job: Job, source: PartSource, number: int, chosen: range) -> Mapping[str, Any]:
    """The nearest list of each product in a range of lists."""
    lists = job.results.get(_name(source, number), "lists")
    return {"nearest": find_nearest(lists, chosen, number, threads=job.threads)}


def _encode(
    job: Job, source: PartSource, config: TrainConfig, ranges: Sequence[range]
) -> Mapping[str, Any]:
    """The inverted lists of the two towers."""
    row_of, table, n_sampled = (
        job.results.get(source.prefix + "fit", name) for name in ("row_of", "table", "n_sampled")
    )
    rule = {"seed": config.learn.seed, "threads": job.threads}
    if ranges:
        moved, nearest = _read_pass(job.results, source, PASSES - 1, ranges)
        lists = regroup(moved, nearest, **rule)
    else:
        lists = build_inverted_lists(_read_vectors(job, source), **rule)
    return {"towers": TowerIndex.of(row_of, table, lists), "n_sampled": n_sampled}


def _read_pass(
    results: Results, source: PartSource, number: int, ranges: Sequence[range]
) -> tuple[InvertedLists, Ids]:
    """Lists, and the nearest one of each of their products."""
    parts = [results.get(_name(source, number, chosen), "nearest") for chosen in ranges]
    return results.get(_name(source, number), "lists"), np.concatenate(parts)


def _read_vectors(job: Job, source: PartSource) -> ByteVectors:
    """The vectors of the products, by all of their texts."""
    row_of, table, vectors = (
        job.results.get(source.prefix + "fit", name) for name in ("row_of", "table", "vectors")
    )
    data = read_data(job.results, source)
    if data.X_more is not None:
        texts = [(X.indptr, X.indices) for X in (titles_of(data), data.X_more)]
        vectors = encode_products(texts, row_of, table, threads=job.threads)
    found: ByteVectors = vectors
    return found
