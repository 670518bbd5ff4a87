"""Sweeps: what do pruning, the beam and the search of a graph cost, and what do they gain?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from matchset.evaluate.evaluation import evaluate_qrels
from matchset.evaluate.qrels import Qrels
from matchset.lab.dssm.hnsw import DSSMWithHNSW
from matchset.lab.experiments.benchmark import Benchmark, digest_qrels
from matchset.lab.experiments.comparison import COMPARISON
from matchset.lab.experiments.contenders import (
    GRAPH,
    OURS,
    choose_contenders,
    list_contenders,
    why_no_dssm,
)
from matchset.lab.experiments.runner import SILENT, Budget, ProgressListener, run_contenders
from matchset.lab.experiments.store import Store, describe_machine, list_versions, measure_disk
from matchset.lab.experiments.timing import measure_throughput, time_queries
from matchset.lab.experiments.vocabularies import choose_vocabularies
from matchset.matchers.base import DEFAULT_BEAM, Matcher
from matchset.matchers.xr_linear import XRLinearMatcher
from matchset.strings import Strings

SWEEP = "sweep"
THRESHOLDS = (0.1, 0.2, 0.3, 0.35, 0.4, 0.45)
BEAMS = (1, 5, 10, 15, 20, 25, 30, 50, 75, 100)
EXPANSIONS = (10, 50, 100, 250, 500, 1000)
SERVED = 0.35  # the threshold at which the paper varies the beam
BATCH = 10_000  # queries in the batch for throughput


def run_sweep(
    matcher: XRLinearMatcher,
    qrels: Qrels,
    out: Path,
    budget: Budget,
    *,
    command: str = "",
    origin: str = "a log",
    graph: DSSMWithHNSW | None = None,
    no_graph: str = "",
    progress: ProgressListener = SILENT,
) -> dict[str, Any]:
    """Sweep thresholds, beams and the graph of a DSSM, and store the findings in `out`.

    `origin` describes the test data. If there is no `graph`, `no_graph` is the reason.
    """
    store = Store(out).prepare()
    findings = {
        "command": command,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": describe_machine(),
        "versions": list_versions(),
        "config": asdict(matcher.config),
        "budget": asdict(budget),
        "ks": list(budget.ks),
        "origin": origin,
        "n_queries": len(qrels),
        "qrels": digest_qrels(qrels),
        "thresholds": sweep_thresholds(matcher, qrels, budget, folder=out, progress=progress),
        "beams": sweep_beams(matcher, qrels, budget, progress=progress),
        "graphs": [] if graph is None else sweep_graph(graph, qrels, budget, progress=progress),
        "no_graphs": no_graph,
    }
    store.save_findings(SWEEP, findings)
    return findings


def sweep_thresholds(
    matcher: XRLinearMatcher,
    qrels: Qrels,
    budget: Budget,
    *,
    folder: Path,
    thresholds: Sequence[float] = THRESHOLDS,
    beam: int = DEFAULT_BEAM,
    progress: ProgressListener = SILENT,
) -> list[dict[str, Any]]:
    """Recall, weights, disk, memory and latency at each threshold.

    Thresholds below the one that the model was trained with are left out: they change nothing.
    """
    rows = []
    own = matcher.config.learn.threshold
    for threshold in [value for value in thresholds if value >= own] or [own]:
        pruned = matcher.prune(threshold).with_beam(beam)
        row = {
            "threshold": threshold,
            "beam": beam,
            "weights": pruned.tree.n_weights,
            "disk_bytes": measure_disk(pruned, folder),
            "memory_bytes": pruned.tree.n_bytes,
            **measure(pruned, qrels, budget),
        }
        rows.append(row)
        size = f"{row['disk_bytes'] / 1e6:.1f} MB"
        progress.done(f"threshold {threshold:g}: {_summarize(row)}, {size}")
    return rows


def sweep_beams(
    matcher: XRLinearMatcher,
    qrels: Qrels,
    budget: Budget,
    *,
    beams: Sequence[int] = BEAMS,
    threshold: float = SERVED,
    progress: ProgressListener = SILENT,
) -> list[dict[str, Any]]:
    """Recall, latency and throughput of each beam, with the model pruned to a threshold."""
    least = max(threshold, matcher.config.learn.threshold)
    pruned = matcher.prune(least)
    rows = []
    for beam in beams:
        widened = pruned.with_beam(beam)
        row = {
            "beam": beam,
            "threshold": least,
            **measure(widened, qrels, budget),
            "queries_per_second": measure_throughput(widened, choose_batch(qrels, budget)),
        }
        rows.append(row)
        speed = f"{row['queries_per_second']:,.0f} queries/s"
        progress.done(f"beam {beam} at threshold {least:g}: {_summarize(row)}, {speed}")
    return rows


def sweep_graph(
    matcher: DSSMWithHNSW,
    qrels: Qrels,
    budget: Budget,
    *,
    expansions: Sequence[int] = EXPANSIONS,
    progress: ProgressListener = SILENT,
) -> list[dict[str, Any]]:
    """Recall, latency and throughput of DSSM + HNSW by the number of candidates it keeps."""
    rows = []
    for expansion in expansions:
        expanded = matcher.with_expansion(expansion)
        row = {
            "expansion_search": expansion,
            **measure(expanded, qrels, budget),
            "queries_per_second": measure_throughput(expanded, choose_batch(qrels, budget)),
        }
        rows.append(row)
        progress.done(f"expansion_search {expansion}: {_summarize(row)}")
    return rows


def take_models(
    benchmark: Benchmark, out: Path, budget: Budget, *, progress: ProgressListener = SILENT
) -> tuple[XRLinearMatcher, DSSMWithHNSW | None, str]:
    """Our model and DSSM's, from a stored comparison of the same data or newly trained.

    If DSSM cannot run, the reason is returned instead.
    """
    vocabularies = choose_vocabularies(benchmark.pairs.queries, benchmark.config.vectorizer)
    contenders = list_contenders(benchmark, vocabularies, is_quick=budget.is_quick)
    store = Store(out).prepare()
    chosen = choose_contenders(contenders, [OURS, GRAPH])
    run_contenders(chosen, benchmark, store, budget, progress=progress)
    ours, reason = XRLinearMatcher.load(store.model(OURS)), why_no_dssm(benchmark)
    return ours, None if reason else DSSMWithHNSW.load(store.model(GRAPH)), reason


def find_graph(qrels: Qrels, out: Path) -> tuple[DSSMWithHNSW | None, str]:
    """The DSSM of a stored comparison with the same test, or the reason why there is none."""
    store = Store(out)
    compared = store.load_findings(COMPARISON)
    if compared is None or compared["qrels"] != digest_qrels(qrels):
        return None, "run `matchset compare` with the same test and the same --out first."
    row = next(row for row in compared["rows"] if row["name"] == GRAPH)
    if row["absent"] is not None:
        return None, row["absent"]
    if not store.model(GRAPH).exists():
        return None, "its model is gone; `matchset compare` with the same --out makes it again."
    return DSSMWithHNSW.load(store.model(GRAPH)), ""


def measure(matcher: Matcher, qrels: Qrels, budget: Budget) -> dict[str, Any]:
    """Recall with its interval at each k, and the latency of single queries."""
    found = evaluate_qrels(
        matcher, qrels, ks=budget.ks, seed=budget.seed, segments=(), resamples=budget.resamples
    )
    scores = {k: found.score("recall", k) for k in budget.ks}
    recall = {str(k): {"value": s.value, "low": s.low, "high": s.high} for k, s in scores.items()}
    timing = time_queries(matcher, qrels.queries, sample=budget.singles, seed=budget.seed)
    return {"recall": recall, "latency": timing.to_dict()}


def choose_batch(qrels: Qrels, budget: Budget) -> Strings:
    """Test queries in random order, for throughput: their own order is sorted."""
    order = np.random.default_rng(budget.seed).permutation(len(qrels))
    return qrels.queries.take(order[:BATCH])


def _summarize(row: dict[str, Any]) -> str:
    deepest = max(row["recall"], key=int)
    recall, latency = row["recall"][deepest]["value"], row["latency"]["total_p50"]
    return f"Recall@{deepest} {100 * recall:.1f} %, p50 {1e3 * latency:.3f} ms"
