"""Runner: how is every contender trained, tested, timed and stored?"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from matchset.evaluate.evaluation import KS, evaluate
from matchset.evaluate.significance import FLIPS, RESAMPLES
from matchset.lab.experiments.benchmark import Benchmark
from matchset.lab.experiments.contender import Contender
from matchset.lab.experiments.store import Measurement, Store, measure_disk
from matchset.lab.experiments.timing import time_queries
from matchset.matchers.base import Matcher

SHOWN = 10  # products of each contender that the report shows for an example


class ProgressListener(NamedTuple):
    """Called with a line of text when a step starts or is finished."""

    done: Callable[[str], None] = lambda _: None
    begun: Callable[[str], None] = lambda _: None


SILENT = ProgressListener()


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How thoroughly to measure."""

    ks: tuple[int, ...] = KS
    resamples: int = RESAMPLES
    flips: int = FLIPS
    singles: int = 1_000  # queries for latency, one by one
    is_quick: bool = False
    seed: int = 0


QUICK = Budget(resamples=200, singles=300, is_quick=True)


def run_contenders(
    contenders: Sequence[Contender],
    benchmark: Benchmark,
    store: Store,
    budget: Budget,
    *,
    progress: ProgressListener = SILENT,
) -> dict[str, Measurement]:
    """Run all that are not absent, and return results by name; stored ones are used again.

    Each contender is run after those that it is made of.
    """
    results: dict[str, Measurement] = {}
    for contender in sorted(contenders, key=lambda each: each.depth):
        name, title = contender.name, contender.title
        if contender.absent:
            progress.done(f"{title}: absent; {contender.absent}")
            continue
        digest = contender.digest(benchmark, budget)
        result = store.load_result(name, digest, benchmark.qrels)
        if result is None or (contender.is_stored and not store.model(name).exists()):
            progress.begun(title)
            store.remove_result(name)
            needed = [results[name] for name in contender.needs]
            result = _run(contender, benchmark, store, budget, digest=digest, needed=needed)
            store.save_result(name, result)
            progress.done(f"{title}: {_summarize(contender, result, budget)}")
        else:
            progress.done(f"{title}: {_summarize(contender, result, budget)} (stored)")
        results[name] = result
    return results


def _run(
    contender: Contender,
    benchmark: Benchmark,
    store: Store,
    budget: Budget,
    *,
    digest: str,
    needed: Sequence[Measurement],
) -> Measurement:
    """Train and measure one contender, which may be made of those that it `needed`."""
    started = time.perf_counter()
    matcher = contender.train(store.path / "models")
    spent = time.perf_counter() - started
    disk_bytes = sum(each.disk_bytes for each in needed)
    if contender.is_stored or not needed:
        store_at = store.model(contender.name) if contender.is_stored else None
        disk_bytes = measure_disk(matcher, store.path, store_at=store_at)
    qrels = benchmark.qrels
    evaluation = evaluate(
        matcher,
        qrels,
        train=benchmark.pairs,
        ks=budget.ks,
        resamples=budget.resamples,
        seed=budget.seed,
    )
    vectorizer = getattr(matcher, "vectorizer", None)
    return Measurement(
        digest=digest,
        features=None if vectorizer is None else vectorizer.vocabulary.n_known,
        train_seconds=spent + sum(each.train_seconds for each in needed),
        disk_bytes=disk_bytes,
        answers=_match_examples(matcher, benchmark),
        evaluation=evaluation,
        timing=time_queries(
            matcher,
            qrels.queries,
            sample=budget.singles if contender.is_timed else 0,
            seed=budget.seed,
        ),
    )


def _match_examples(matcher: Matcher, benchmark: Benchmark) -> list[list[str]]:
    """Return the best products of each example."""
    indices = benchmark.examples()
    if len(indices) == 0:
        return []
    matches = matcher.match(benchmark.qrels.queries.take(indices), SHOWN)
    return [list(match.ids) for match in matches]


def _summarize(contender: Contender, result: Measurement, budget: Budget) -> str:
    recalls = " / ".join(f"{100 * result.evaluation.recall(k):.1f}" for k in budget.ks)
    summary = f"Recall@{'/'.join(map(str, budget.ks))} {recalls} %"
    if len(result.timing.total) == 0:
        return summary
    latency = f"p50 {1e3 * result.timing.to_dict()['total_p50']:.3f} ms"
    if contender.group in ("part", "ablation"):  # trained with the whole
        return f"{summary}, {latency}"
    size = f"{result.disk_bytes / 1e6:.1f} MB"
    return f"{summary}, trained in {result.train_seconds:.1f} s, {size}, {latency}"
