"""Sweeps: what do pruning and the beam cost, and what do they gain?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from matchset.config import count_threads
from matchset.evaluate.evaluation import evaluate
from matchset.evaluate.overlap import Share
from matchset.evaluate.qrels import Qrels
from matchset.lab.experiments.benchmark import Benchmark, digest_qrels
from matchset.lab.experiments.contender import choose_contenders
from matchset.lab.experiments.contenders import list_contenders
from matchset.lab.experiments.findings import OURS, Setting, SweepFindings, SweepRow
from matchset.lab.experiments.runner import SILENT, Budget, ProgressListener, run_contenders
from matchset.lab.experiments.store import Store, describe_machine, list_versions, measure_disk
from matchset.lab.experiments.timing import measure_throughput, time_queries
from matchset.lab.experiments.vocabularies import choose_vocabularies
from matchset.matchers.base import Matcher
from matchset.matchers.match_set import MatchSet
from matchset.matchers.registry import find_kind
from matchset.matchers.train import train
from matchset.matchers.xr_linear import XRLinearMatcher
from matchset.model.packed import PackedTree, prune_packed
from matchset.strings import Strings

THRESHOLDS = (0.1, 0.2, 0.3, 0.35, 0.4, 0.45)
BEAMS = (1, 5, 10, 15, 20, 25, 30, 50, 75, 100)
BATCH = 10_000  # queries in the batch for throughput

Swept: TypeAlias = XRLinearMatcher | MatchSet


def run_sweep(
    matcher: Swept,
    qrels: Qrels,
    out: Path,
    budget: Budget,
    *,
    command: str = "",
    origin: str = "a log",
    progress: ProgressListener = SILENT,
) -> SweepFindings:
    """Sweep threshold and beam of a tree around the model's own; `origin` is the test data's."""
    Store(out).prepare()
    thresholds = sweep_thresholds(matcher, qrels, budget, folder=out, progress=progress)
    beams = sweep_beams(matcher, qrels, budget, progress=progress)
    return SweepFindings(
        setting=Setting(
            command=command,
            date=time.strftime("%Y-%m-%d", time.gmtime()),
            machine=describe_machine(),
            versions=list_versions(),
            config=asdict(matcher.config),
            ks=budget.ks,
            seed=matcher.config.learn.seed,
            is_quick=budget.is_quick,
            qrels=digest_qrels(qrels),
        ),
        origin=origin,
        n_queries=len(qrels),
        title=find_kind(matcher.kind).label,
        kind=matcher.kind,
        own_threshold=matcher.config.learn.threshold,
        own_beam=_beam_of(matcher),
        thresholds=tuple(thresholds),
        beams=tuple(beams),
    )


def sweep_thresholds(
    matcher: Swept,
    qrels: Qrels,
    budget: Budget,
    *,
    folder: Path,
    thresholds: Sequence[float] = THRESHOLDS,
    progress: ProgressListener = SILENT,
) -> list[SweepRow]:
    """Measure recall, weights, disk, memory and latency at the model's own threshold and above."""
    rows = []
    own = matcher.config.learn.threshold
    for threshold in (own, *(value for value in thresholds if value > own)):
        pruned = _prune(matcher, threshold)
        tree = _tree_of(pruned)
        measured = measure(pruned, qrels, budget)
        disk_bytes = measure_disk(pruned, folder)
        row = SweepRow(
            threshold,
            *measured,
            weights=tree.n_weights,
            disk_bytes=disk_bytes,
            memory_bytes=tree.n_bytes,
        )
        rows.append(row)
        size = f"{disk_bytes / 1e6:.1f} MB"
        progress.done(f"threshold {threshold:g}: {_summarize(row, budget)}, {size}")
    return rows


def sweep_beams(
    matcher: Swept,
    qrels: Qrels,
    budget: Budget,
    *,
    beams: Sequence[int] = BEAMS,
    progress: ProgressListener = SILENT,
) -> list[SweepRow]:
    """Measure recall, latency and throughput of each beam, the model's own among them."""
    rows = []
    for beam in sorted({*beams, _beam_of(matcher)}):
        widened = _widen(matcher, beam)
        speed = measure_throughput(widened, choose_batch(qrels, budget))
        row = SweepRow(beam, *measure(widened, qrels, budget), queries_per_second=speed)
        rows.append(row)
        progress.done(f"beam {beam}: {_summarize(row, budget)}, {speed:,.0f} queries/s")
    return rows


def _tree_of(matcher: Swept) -> PackedTree:
    tree = matcher.tree if isinstance(matcher, XRLinearMatcher) else matcher.model.tree
    if tree is None:
        raise ValueError(f"a sweep varies the tree, so a model must have one; got {matcher!r}")
    return tree


def _beam_of(matcher: Swept) -> int:
    if isinstance(matcher, XRLinearMatcher):
        return matcher.beam
    return matcher.model.bounds.tree_beam


def _widen(matcher: Swept, beam: int) -> Swept:
    """Return the same model with another beam."""
    if isinstance(matcher, XRLinearMatcher):
        return matcher.with_beam(beam)
    return matcher.with_bounds(replace(matcher.model.bounds, tree_beam=beam))


def _prune(matcher: Swept, threshold: float) -> Swept:
    """Return the same model with fewer weights in its tree; the re-ranker stays."""
    if threshold <= matcher.config.learn.threshold:
        return matcher
    if isinstance(matcher, XRLinearMatcher):
        return matcher.prune(threshold)
    tree = prune_packed(_tree_of(matcher), threshold, threads=count_threads(None))
    return replace(matcher, model=replace(matcher.model, tree=tree))


def take_model(
    benchmark: Benchmark, out: Path, budget: Budget, *, progress: ProgressListener = SILENT
) -> Swept:
    """Return our model, from a stored comparison of the same data or newly trained.

    With parts=("tree",) it is the tree alone.
    """
    if benchmark.config.parts == ("tree",):
        return train(benchmark.train, benchmark.catalog, benchmark.config)
    vocabularies = choose_vocabularies(benchmark.pairs.queries, benchmark.config.vectorizer)
    contenders = list_contenders(benchmark, vocabularies, is_quick=budget.is_quick)
    store = Store(out).prepare()
    run_contenders(
        choose_contenders(contenders, [OURS]), benchmark, store, budget, progress=progress
    )
    return MatchSet.load(store.model(OURS))


def measure(
    matcher: Matcher, qrels: Qrels, budget: Budget
) -> tuple[tuple[Share, ...], dict[str, float]]:
    """Return recall with its interval at each k, and the latency of single queries."""
    evaluation = evaluate(
        matcher, qrels, ks=budget.ks, seed=budget.seed, segments=(), resamples=budget.resamples
    )
    scores = [evaluation.score("recall", k) for k in budget.ks]
    recall = tuple(Share(score.value, score.low, score.high) for score in scores)
    timing = time_queries(matcher, qrels.queries, sample=budget.singles, seed=budget.seed)
    return recall, timing.to_dict()


def choose_batch(qrels: Qrels, budget: Budget) -> Strings:
    """Return test queries in random order, for throughput: their own order is sorted."""
    order = np.random.default_rng(budget.seed).permutation(len(qrels))
    return qrels.queries.take(order[:BATCH])


def _summarize(row: SweepRow, budget: Budget) -> str:
    recall, latency = row.recall[-1].value, row.latency["total_p50"]
    return f"Recall@{budget.ks[-1]} {100 * recall:.1f} %, p50 {1e3 * latency:.3f} ms"
