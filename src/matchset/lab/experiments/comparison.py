"""Ordering: is the paper's order of matchers the order on this data?

It is checked, pair by pair and with every difference corrected for their number, never assumed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from matchset.evaluate.compare import Difference, compare_recalls
from matchset.evaluate.overlap import IncrementalRecall, Share, measure_overlap
from matchset.evaluate.significance import Values
from matchset.lab.experiments.benchmark import Problem, digest_questions
from matchset.lab.experiments.contenders import LEXICAL, OURS, Row, choose_rows, list_rows
from matchset.lab.experiments.examples import choose_examples
from matchset.lab.experiments.runner import NOBODY, Effort, Following, run_rows
from matchset.lab.experiments.store import Measured, Store, describe_machine, list_versions
from matchset.lab.experiments.vocabularies import choose_vocabularies

ALPHA = 0.05
# Better first, as the paper has it; its XR-Linear is our row with trigrams.
CLAIMS = (
    ("trigrams", "bigrams"),
    ("trigrams", "more-bigrams"),
    ("bigrams", "unigrams"),
    ("more-bigrams", "unigrams"),
    ("trigrams", "dssm-hnsw"),
    ("dssm-hnsw", "bm25"),
    ("trigrams", "bm25"),
)
SHOWN, REVERSED, UNCLEAR, UNKNOWN = (
    "shown",
    "not shown: the other way round",
    "not shown: may be luck",
    "not measured",
)


def compare_rows(recalls: Mapping[str, Values], effort: Effort) -> tuple[Difference, ...]:
    """Our recipe against every other row, and the paper's claims, all corrected together."""
    pairs = [(OURS, name) for name in recalls if name != OURS and OURS in recalls]
    pairs += [claim for claim in CLAIMS if set(claim) <= set(recalls)]
    if not pairs:
        return ()
    return compare_recalls(
        recalls, pairs, effort.ks, flips=effort.flips, resamples=effort.resamples, seed=effort.seed
    )


def check_claims(differences: Iterable[Difference], k: int) -> list[dict[str, Any]]:
    """Each of the paper's claims with what the data says of it."""
    found = {(d.first, d.second): d for d in differences if d.k == k}
    return [_check(claim, found.get(claim)) for claim in CLAIMS]


def judge_difference(difference: Difference) -> str:
    """Whether the first is better, the second is, or neither can be told."""
    if difference.p_holm >= ALPHA or difference.low <= 0 <= difference.high:
        return UNCLEAR
    return SHOWN if difference.value > 0 else REVERSED


def _check(claim: Sequence[str], difference: Difference | None) -> dict[str, Any]:
    better, worse = claim
    checked: dict[str, Any] = {"better": better, "worse": worse, "verdict": UNKNOWN}
    if difference is not None:
        checked |= {
            "verdict": judge_difference(difference),
            "value": difference.value,
            "low": difference.low,
            "high": difference.high,
            "p_holm": difference.p_holm,
        }
    return checked


COMPARISON = "comparison"
BINS = 40  # of the histogram of latencies


def run_comparison(
    problem: Problem,
    out: Path,
    effort: Effort,
    *,
    names: Iterable[str] | None = None,
    price_per_hour: float | None = None,
    command: str = "",
    follow: Following = NOBODY,
) -> dict[str, Any]:
    """Make, ask and measure every row, and keep what was found in the folder `out`.

    Rows that are kept there already, of the same data and configuration, are taken as they are; of
    rows that `names` leaves out only those are told. One that it names must be able to run.
    """
    if price_per_hour is not None and not 0 <= price_per_hour < float("inf"):
        raise ValueError(f"price_per_hour must be at least 0, and finite; got {price_per_hour}")
    vocabularies = choose_vocabularies(problem.pairs.queries, problem.config.vectorizer)
    rows = list_rows(problem, vocabularies, is_quick=effort.is_quick)
    chosen = choose_rows(rows, names)
    if names is not None:
        _refuse_absent(chosen)
    store = Store(out).prepare()
    run_rows(chosen, problem, store, effort, follow=follow)
    done = _find_all(rows, problem, store, effort)
    differences = compare_rows({name: row.recalls for name, row in done.items()}, effort)
    findings = {
        **_tell_setting(problem, effort, command),
        "vocabularies": vocabularies.to_dict(),
        "rows": [_tell_row(row, done.get(row.name), differences, price_per_hour) for row in rows],
        "ordering": check_claims(differences, max(effort.ks)),
        "adds": _tell_addition(rows, done, problem, store, effort),
        "examples": choose_examples(problem, done),
    }
    store.keep_findings(COMPARISON, findings)
    return findings


def _refuse_absent(rows: Sequence[Row]) -> None:
    for row in rows:
        if row.absent:
            raise ValueError(f"rows must be such as can run here; got {row.name!r}: {row.absent}")


def _find_all(
    rows: Sequence[Row], problem: Problem, store: Store, effort: Effort
) -> dict[str, Measured]:
    found = {row.name: store.find_row(row.name, row.digest(problem, effort)) for row in rows}
    return {name: row for name, row in found.items() if row is not None}


def _tell_setting(problem: Problem, effort: Effort, command: str) -> dict[str, Any]:
    return {
        "command": command,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": describe_machine(),
        "versions": list_versions(),
        "seed": problem.config.learn.seed,
        "config": asdict(problem.config),
        "effort": asdict(effort),
        "ks": list(effort.ks),
        "data": {**problem.facts, "asked": len(problem.questions)},
        "questions": digest_questions(problem.questions),
    }


def _tell_row(
    row: Row, found: Measured | None, differences: Sequence[Difference], price: float | None
) -> dict[str, Any]:
    told: dict[str, Any] = {"name": row.name, "title": row.title}
    if found is None:
        return told | {"absent": row.absent or f"not run: --rows {row.name}"}
    against = {
        str(d.k): {"value": -d.value, "low": -d.high, "high": -d.low, "p_holm": d.p_holm}
        for d in differences
        if (d.first, d.second) == (OURS, row.name)
    }
    hours = found.train_seconds / 3600
    return told | {
        "absent": None,
        "features": found.features,
        "train_seconds": found.train_seconds,
        "cost": None if price is None else hours * price,
        "disk_bytes": found.disk_bytes,
        "latency": found.timing.to_dict(),
        "histogram": _count_latencies(found),
        "against_ours": against,
        "scores": list(found.scores),
    }


def _count_latencies(found: Measured) -> dict[str, list[float]]:
    """Calls by the time they took, without the slowest hundredth; edges even in the logarithm."""
    seconds = found.timing.total
    edges = np.geomspace(seconds.min() / 1.01, np.quantile(seconds, 0.99) * 1.01, BINS + 1)
    counts, _ = np.histogram(seconds, edges)
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def _tell_addition(
    rows: Sequence[Row],
    done: Mapping[str, Measured],
    problem: Problem,
    store: Store,
    effort: Effort,
) -> dict[str, Any] | None:
    """What our recipe adds to lexical search; None where one of them is missing."""
    pair = [row for row in rows if row.name in (OURS, LEXICAL) and row.name in done]
    kept = [row for row in pair if store.model(row.name).exists()]
    matchers = [row.load(store.model(row.name)) for row in kept if row.load]
    if len(matchers) < 2:
        return None
    added = measure_overlap(
        matchers[0],
        matchers[1],
        problem.questions,
        k=max(effort.ks),
        names=("matchset", "BM25"),
        resamples=effort.resamples,
        seed=effort.seed,
    )
    return {"k": added.k, "names": list(added.names), "queries": added.queries} | _shares(added)


def _shares(added: IncrementalRecall) -> dict[str, dict[str, float]]:
    values = {field.name: getattr(added, field.name) for field in fields(added)}
    return {name: v._asdict() for name, v in values.items() if isinstance(v, Share)}
