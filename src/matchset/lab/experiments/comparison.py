"""Comparison: how do all contenders compare, and does the paper's order hold on this data?

The paper's claims are tested pair by pair, with all p-values corrected together, never assumed.
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
from matchset.evaluate.significance import ALPHA, Values
from matchset.lab.experiments.benchmark import Benchmark, digest_qrels
from matchset.lab.experiments.contenders import (
    GRAPH,
    LEXICAL,
    OURS,
    Contender,
    choose_contenders,
    list_contenders,
)
from matchset.lab.experiments.examples import choose_examples
from matchset.lab.experiments.runner import SILENT, Budget, ProgressListener, run_contenders
from matchset.lab.experiments.store import Measurement, Store, describe_machine, list_versions
from matchset.lab.experiments.vocabularies import (
    BIGRAMS,
    MORE_BIGRAMS,
    TRIGRAMS,
    UNIGRAMS,
    choose_vocabularies,
)
from matchset.matchers.registry import find_kind, load

COMPARISON = "comparison"
BINS = 40  # of the histogram of latencies
# The paper's order, better first; its XR-Linear is the variant with trigrams.
CLAIMS = (
    (TRIGRAMS, BIGRAMS),
    (TRIGRAMS, MORE_BIGRAMS),
    (BIGRAMS, UNIGRAMS),
    (MORE_BIGRAMS, UNIGRAMS),
    (TRIGRAMS, GRAPH),
    (GRAPH, LEXICAL),
    (TRIGRAMS, LEXICAL),
)
CONFIRMED, REVERSED, UNCLEAR, UNKNOWN = "confirmed", "reversed", "not significant", "not measured"


def run_comparison(
    benchmark: Benchmark,
    out: Path,
    budget: Budget,
    *,
    names: Iterable[str] | None = None,
    price_per_hour: float | None = None,
    command: str = "",
    progress: ProgressListener = SILENT,
) -> dict[str, Any]:
    """Train and measure contenders, and store the findings in the folder `out`.

    Results that are stored there, from the same data and configuration, are used again, also those
    of contenders not in `names`. A contender in `names` that cannot run here is an error.
    """
    if price_per_hour is not None and not 0 <= price_per_hour < float("inf"):
        raise ValueError(f"price_per_hour must be at least 0, and finite; got {price_per_hour}")
    vocabularies = choose_vocabularies(benchmark.pairs.queries, benchmark.config.vectorizer)
    contenders = list_contenders(benchmark, vocabularies, is_quick=budget.is_quick)
    chosen = choose_contenders(contenders, names)
    if names is not None:
        _require_present(chosen)
    store = Store(out).prepare()
    results = run_contenders(chosen, benchmark, store, budget, progress=progress)
    results = _add_stored(results, contenders, benchmark, store, budget)
    differences = compare_results({name: r.recalls for name, r in results.items()}, budget)
    findings = {
        **_describe_setting(benchmark, budget, command),
        "vocabularies": vocabularies.to_dict(),
        "rows": [
            _describe_result(contender, results.get(contender.name), differences, price_per_hour)
            for contender in contenders
        ],
        "ordering": check_claims(differences, max(budget.ks)),
        "adds": _measure_added(results, benchmark, store, budget),
        "examples": choose_examples(benchmark, results),
    }
    store.save_findings(COMPARISON, findings)
    return findings


def compare_results(recalls: Mapping[str, Values], budget: Budget) -> tuple[Difference, ...]:
    """Test our recipe against all others, and the paper's claims, all corrected together."""
    pairs = [(OURS, name) for name in recalls if name != OURS and OURS in recalls]
    pairs += [claim for claim in CLAIMS if set(claim) <= set(recalls)]
    if not pairs:
        return ()
    return compare_recalls(
        recalls, pairs, budget.ks, flips=budget.flips, resamples=budget.resamples, seed=budget.seed
    )


def check_claims(differences: Iterable[Difference], k: int) -> list[dict[str, Any]]:
    """Each of the paper's claims with the verdict on this data."""
    found = {(d.first, d.second): d for d in differences if d.k == k}
    return [_check(claim, found.get(claim)) for claim in CLAIMS]


def find_verdict(difference: Difference) -> str:
    """Whether the first is significantly better, the second is, or neither."""
    if difference.p_holm >= ALPHA or difference.low <= 0 <= difference.high:
        return UNCLEAR
    return CONFIRMED if difference.value > 0 else REVERSED


def _check(claim: Sequence[str], difference: Difference | None) -> dict[str, Any]:
    better, worse = claim
    checked: dict[str, Any] = {"better": better, "worse": worse, "verdict": UNKNOWN}
    if difference is not None:
        checked |= {
            "verdict": find_verdict(difference),
            "value": difference.value,
            "low": difference.low,
            "high": difference.high,
            "p_holm": difference.p_holm,
        }
    return checked


def _require_present(contenders: Sequence[Contender]) -> None:
    for contender in contenders:
        if contender.absent:
            raise ValueError(
                f"rows must be able to run here; got {contender.name!r}: {contender.absent}"
            )


def _add_stored(
    results: Mapping[str, Measurement],
    contenders: Sequence[Contender],
    benchmark: Benchmark,
    store: Store,
    budget: Budget,
) -> dict[str, Measurement]:
    """All results in the order of the table: those just made, and earlier ones of the others."""
    found = {}
    for contender in contenders:
        name = contender.name
        result = results.get(name)
        if result is None:
            result = store.load_result(name, contender.digest(benchmark, budget))
        if result is not None:
            found[name] = result
    return found


def _describe_setting(benchmark: Benchmark, budget: Budget, command: str) -> dict[str, Any]:
    return {
        "command": command,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": describe_machine(),
        "versions": list_versions(),
        "seed": benchmark.config.learn.seed,
        "config": asdict(benchmark.config),
        "budget": asdict(budget),
        "ks": list(budget.ks),
        "data": {**benchmark.facts, "n_queries": len(benchmark.qrels)},
        "qrels": digest_qrels(benchmark.qrels),
    }


def _describe_result(
    contender: Contender,
    result: Measurement | None,
    differences: Sequence[Difference],
    price: float | None,
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": contender.name,
        "kind": contender.kind,
        "title": contender.title,
    }
    if result is None:
        return row | {"absent": contender.absent or f"not run: --rows {contender.name}"}
    against = {
        str(d.k): {"value": -d.value, "low": -d.high, "high": -d.low, "p_holm": d.p_holm}
        for d in differences
        if (d.first, d.second) == (OURS, contender.name)
    }
    hours = result.train_seconds / 3600
    return row | {
        "absent": None,
        "features": result.features,
        "train_seconds": result.train_seconds,
        "cost": None if price is None else hours * price,
        "disk_bytes": result.disk_bytes,
        "latency": result.timing.to_dict(),
        "histogram": _count_latencies(result),
        "against_ours": against,
        "scores": list(result.scores),
    }


def _count_latencies(result: Measurement) -> dict[str, list[float]]:
    """A histogram with logarithmic bins, without the slowest hundredth of the calls."""
    seconds = result.timing.total
    edges = np.geomspace(seconds.min() / 1.01, np.quantile(seconds, 0.99) * 1.01, BINS + 1)
    counts, _ = np.histogram(seconds, edges)
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def _measure_added(
    results: Mapping[str, Measurement], benchmark: Benchmark, store: Store, budget: Budget
) -> dict[str, Any] | None:
    """What our recipe adds to lexical search; None if one of the two models is missing."""
    if not all(name in results and store.model(name).exists() for name in (OURS, LEXICAL)):
        return None
    added = measure_overlap(
        load(store.model(OURS)),
        load(store.model(LEXICAL)),
        benchmark.qrels,
        k=max(budget.ks),
        names=(find_kind(OURS).label, find_kind(LEXICAL).label),
        resamples=budget.resamples,
        seed=budget.seed,
    )
    return {"k": added.k, "names": list(added.names), "queries": added.queries} | _shares(added)


def _shares(added: IncrementalRecall) -> dict[str, dict[str, float]]:
    values = {field.name: getattr(added, field.name) for field in fields(added)}
    return {name: v._asdict() for name, v in values.items() if isinstance(v, Share)}
