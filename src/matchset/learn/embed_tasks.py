"""Tasks of label vectors: who sums them, one machine or many?"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from matchset.config import LearnConfig
from matchset.learn.embeddings import embed_labels
from matchset.learn.tree_tasks import TreeSource
from matchset.work.results import join_rows
from matchset.work.tasks import Job, Results, Task, plan_parts

logger = logging.getLogger(__name__)

MOST_LABELS = 1 << 21  # whose vectors are summed by one task


def plan_sums(given: Mapping[str, Any], results: Results) -> list[Task]:
    """A task for every range of labels; none where there is a single one."""
    source, parts = given["source"], _cut_labels(results, given["source"])
    if len(parts) == 1:
        return []
    return [
        Task(_sums_name(source, labels), _embed_range, {**given, "labels": labels}, is_wide=True)
        for labels in parts
    ]


def plan_embedding(given: Mapping[str, Any], results: Results) -> list[Task]:
    """The task that embeds the labels, or joins their ranges: it is told how they were cut."""
    source = given["source"]
    arguments = {**given, "parts": _cut_labels(results, source)}
    return [Task(source.prefix + "embed", _embed, arguments, is_wide=True)]


def _cut_labels(results: Results, source: TreeSource) -> list[range]:
    return plan_parts(source.read(results).Y.n_cols, MOST_LABELS)


def _sums_name(source: TreeSource, labels: range) -> str:
    return f"{source.prefix}embed.sums/{labels.start}-{labels.stop}"


def _embed_range(
    job: Job, source: TreeSource, config: LearnConfig, labels: range
) -> Mapping[str, Any]:
    """The labels of a range that have positives, and their vectors."""
    examples = source.read(job.results)
    by_label = examples.Y.transposed_columns(labels)
    own = np.flatnonzero(np.diff(by_label.indptr)).astype(np.int32)
    if len(own) < len(by_label):
        by_label = by_label.take(own)
    placed = own + np.int32(labels.start)
    vectors = examples.label_vectors
    Z = embed_labels(
        examples.X,
        by_label,
        given=None if vectors is None else vectors.take(placed),
        config=config,
        threads=job.threads,
        n_labels=np.diff(examples.Y.indptr) if config.pifa_normalize else None,
    )
    return {"Z": Z, "placed": placed}


def _embed(
    job: Job, source: TreeSource, config: LearnConfig, parts: Sequence[range]
) -> Mapping[str, Any]:
    """The labels that have positives, and their vectors."""
    if len(parts) == 1:
        made = _embed_range(job, source, config, parts[0])
    else:
        names = [_sums_name(source, labels) for labels in parts]
        placed = np.concatenate([job.results.get(name, "placed") for name in names])
        made = {"Z": join_rows(job.results, names, "Z"), "placed": placed}
    logger.info("%d of %d labels have positives", len(made["placed"]), parts[-1].stop)
    return made
