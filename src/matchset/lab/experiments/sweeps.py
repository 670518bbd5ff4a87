"""Beamed: how does a tree matcher answer with another beam than the usual one?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from matchset.evaluate.evaluation import evaluate_questions
from matchset.evaluate.qrels import Questions
from matchset.lab.dssm.hnsw import DSSMWithHNSW
from matchset.lab.experiments.benchmark import Problem, digest_questions
from matchset.lab.experiments.comparison import COMPARISON
from matchset.lab.experiments.contenders import GRAPH, OURS, choose_rows, find_reason, list_rows
from matchset.lab.experiments.runner import NOBODY, Effort, Following, run_rows
from matchset.lab.experiments.store import Store, describe_machine, list_versions, measure_disk
from matchset.lab.experiments.timing import time_batch, time_queries
from matchset.lab.experiments.vocabularies import choose_vocabularies
from matchset.matchers.base import DEFAULT_BEAM, Matcher
from matchset.matchers.xr_linear import XRLinearMatcher

SWEEP = "sweep"
THRESHOLDS = (0.1, 0.2, 0.3, 0.35, 0.4, 0.45)
BEAMS = (1, 5, 10, 15, 20, 25, 30, 50, 75, 100)
EXPANSIONS = (10, 50, 100, 250, 500, 1000)
SERVED = 0.35  # the threshold at which the paper widens the beam
BATCH = 10_000  # queries that are asked together to take the throughput, on one core


def sweep_thresholds(
    matcher: XRLinearMatcher,
    questions: Questions,
    effort: Effort,
    *,
    folder: Path,
    thresholds: Sequence[float] = THRESHOLDS,
    beam: int = DEFAULT_BEAM,
    follow: Following = NOBODY,
) -> list[dict[str, Any]]:
    """Recall, weights, disk, memory and latency at each threshold that the model can be pruned to.

    A model that was trained with a larger threshold has no smaller weights: those are left out.
    """
    rows = []
    own = matcher.config.learn.threshold
    for threshold in [value for value in thresholds if value >= own] or [own]:
        pruned = matcher.prune(threshold)
        row = {
            "threshold": threshold,
            "beam": beam,
            "weights": pruned.tree.n_weights,
            "disk_bytes": measure_disk(pruned, folder),
            "memory_bytes": pruned.tree.n_bytes,
            **measure(pruned.with_beam(beam), questions, effort),
        }
        rows.append(row)
        follow.done(f"threshold {threshold:g}: {_sum_up(row)}, {row['disk_bytes'] / 1e6:.1f} MB")
    return rows


def sweep_beams(
    matcher: XRLinearMatcher,
    questions: Questions,
    effort: Effort,
    *,
    beams: Sequence[int] = BEAMS,
    threshold: float = SERVED,
    follow: Following = NOBODY,
) -> list[dict[str, Any]]:
    """Recall, latency and throughput of each beam, of the model pruned to a threshold."""
    least = max(threshold, matcher.config.learn.threshold)
    pruned = matcher.prune(least)
    rows = []
    for beam in beams:
        row = {
            "beam": beam,
            "threshold": least,
            **measure(pruned.with_beam(beam), questions, effort),
            "queries_per_second": measure_throughput(pruned.with_beam(beam), questions, effort),
        }
        rows.append(row)
        speed = f"{row['queries_per_second']:,.0f} queries/s"
        follow.done(f"beam {beam} at threshold {least:g}: {_sum_up(row)}, {speed}")
    return rows


def run_sweep(
    matcher: XRLinearMatcher,
    questions: Questions,
    out: Path,
    effort: Effort,
    *,
    command: str = "",
    origin: str = "a log",
    graph: DSSMWithHNSW | None = None,
    no_graph: str = "",
    follow: Following = NOBODY,
) -> dict[str, Any]:
    """Both sweeps and, beside the beams, a DSSM's graph; kept in the folder `out`.

    `origin` tells what the questions are of. Where there is no `graph`, `no_graph` says why.
    """
    store = Store(out).prepare()
    findings = {
        "command": command,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": describe_machine(),
        "versions": list_versions(),
        "config": asdict(matcher.config),
        "effort": asdict(effort),
        "ks": list(effort.ks),
        "origin": origin,
        "asked": len(questions),
        "questions": digest_questions(questions),
        "thresholds": sweep_thresholds(matcher, questions, effort, folder=out, follow=follow),
        "beams": sweep_beams(matcher, questions, effort, follow=follow),
        "graphs": [] if graph is None else sweep_graph(graph, questions, effort, follow=follow),
        "no_graphs": no_graph,
    }
    store.keep_findings(SWEEP, findings)
    return findings


def take_models(
    problem: Problem, out: Path, effort: Effort, *, follow: Following = NOBODY
) -> tuple[XRLinearMatcher, DSSMWithHNSW | None, str]:
    """Our recipe's model and DSSM's, as a comparison of the same data kept them, or else made.

    Where there can be no DSSM, the reason comes instead.
    """
    vocabularies = choose_vocabularies(problem.pairs.queries, problem.config.vectorizer)
    rows = list_rows(problem, vocabularies, is_quick=effort.is_quick)
    store = Store(out).prepare()
    run_rows(choose_rows(rows, [OURS, GRAPH]), problem, store, effort, follow=follow)
    ours, reason = XRLinearMatcher.load(store.model(OURS)), find_reason(problem)
    return ours, None if reason else DSSMWithHNSW.load(store.model(GRAPH)), reason


def find_graph(questions: Questions, out: Path) -> tuple[DSSMWithHNSW | None, str]:
    """The DSSM that a comparison kept, if it was asked the same; else the reason why not."""
    store = Store(out)
    compared = store.find_findings(COMPARISON)
    if compared is None or compared["questions"] != digest_questions(questions):
        return None, "run `matchset compare` with the same test and the same --out before."
    told = next(row for row in compared["rows"] if row["name"] == GRAPH)
    if told["absent"] is not None:
        return None, told["absent"]
    if not store.model(GRAPH).exists():
        return None, "its model is gone; `matchset compare` with the same --out makes it again."
    return DSSMWithHNSW.load(store.model(GRAPH)), ""


def sweep_graph(
    matcher: DSSMWithHNSW,
    questions: Questions,
    effort: Effort,
    *,
    expansions: Sequence[int] = EXPANSIONS,
    follow: Following = NOBODY,
) -> list[dict[str, Any]]:
    """Recall, latency and throughput of DSSM + HNSW, the more candidates it looks at."""
    rows = []
    for expansion in expansions:
        expanded = matcher.with_expansion(expansion)
        row = {
            "expansion_search": expansion,
            **measure(expanded, questions, effort),
            "queries_per_second": measure_throughput(expanded, questions, effort),
        }
        rows.append(row)
        follow.done(f"expansion_search {expansion}: {_sum_up(row)}")
    return rows


def measure(matcher: Matcher, questions: Questions, effort: Effort) -> dict[str, Any]:
    """Recall with its interval at each k, and the latency of single queries."""
    found = evaluate_questions(
        matcher,
        questions,
        ks=effort.ks,
        seed=effort.seed,
        segments=(),
        resamples=effort.resamples,
    )
    scores = {k: found.score("recall", k) for k in effort.ks}
    recall = {str(k): {"value": s.value, "low": s.low, "high": s.high} for k, s in scores.items()}
    timing = time_queries(matcher, questions.queries, sample=effort.singles, seed=effort.seed)
    return {"recall": recall, "latency": timing.to_dict()}


def measure_throughput(matcher: Matcher, questions: Questions, effort: Effort) -> float:
    """Queries per second of a batch, in an order by chance: the questions' own is sorted."""
    order = np.random.default_rng(effort.seed).permutation(len(questions))
    return time_batch(matcher.match, questions.queries.take(order[:BATCH]))


def _sum_up(row: dict[str, Any]) -> str:
    deepest = max(row["recall"], key=int)
    recall, latency = row["recall"][deepest]["value"], row["latency"]["total_p50"]
    return f"Recall@{deepest} {100 * recall:.1f} %, p50 {1e3 * latency:.3f} ms"
