"""Comparison: how do all contenders compare?"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from matchset.evaluate.calibration import score_answers
from matchset.evaluate.compare import Comparison, compare_evaluations
from matchset.evaluate.evaluation import Evaluation, Score
from matchset.evaluate.overlap import IncrementalRecall, incremental_recall
from matchset.evaluate.pair_segments import Bools
from matchset.evaluate.significance import bootstrap, mean
from matchset.lab.experiments.benchmark import Benchmark, digest_qrels
from matchset.lab.experiments.claims import CLAIMS
from matchset.lab.experiments.contender import Contender, choose_contenders
from matchset.lab.experiments.contenders import find_lexical, list_contenders
from matchset.lab.experiments.examples import choose_examples
from matchset.lab.experiments.findings import (
    OURS,
    ComparisonFindings,
    Cost,
    MatchSetFacts,
    Row,
    Setting,
)
from matchset.lab.experiments.runner import SILENT, Budget, ProgressListener, run_contenders
from matchset.lab.experiments.store import Measurement, Store, describe_machine, list_versions
from matchset.lab.experiments.vocabularies import choose_vocabularies
from matchset.matchers.match_set import MatchSet
from matchset.matchers.recorded_run import RecordedRun
from matchset.matchers.saved import load

BINS = 40  # of the histogram of latencies
LEFT_OUT = "left out, see --rows"
ZERO_RESULT = "zero-result query"  # a segment: queries to which the opponent answers nothing


def run_comparison(
    benchmark: Benchmark,
    out: Path,
    budget: Budget,
    *,
    names: Iterable[str] | None = None,
    runs: Mapping[str, RecordedRun] | None = None,
    encoder: Path | None = None,
    with_paper: bool = False,
    command: str = "",
    progress: ProgressListener = SILENT,
) -> ComparisonFindings:
    """Train and measure contenders, storing each result in the folder `out`.

    Results that are stored there, from the same data and configuration, are used again, also those
    of contenders not in `names`. A contender in `names` that cannot run here is an error. `runs`
    are what engines of the user's own answered, by name; `encoder` is the folder of a sentence
    encoder. Rows of the paper run only if they are in `names`, or `with_paper`.
    """
    vocabularies = choose_vocabularies(benchmark.pairs.queries, benchmark.config.vectorizer)
    contenders = list_contenders(benchmark, vocabularies, runs, encoder, is_quick=budget.is_quick)
    chosen = choose_contenders(contenders, names, with_paper=with_paper)
    if names is not None:
        _require_present(chosen)
    store = Store(out).prepare()
    results = run_contenders(chosen, benchmark, store, budget, progress=progress)
    results = _add_stored(results, contenders, benchmark, store, budget)
    opponent = _find_opponent(contenders, results)
    has_ours = OURS in results and store.model(OURS).exists()
    unanswered = None if opponent is None else results[opponent].evaluation.sizes == 0
    compared = compare_results(
        {name: r.evaluation for name, r in results.items()}, contenders, budget, opponent=opponent
    )
    return ComparisonFindings(
        setting=_describe_setting(benchmark, budget, command),
        data=benchmark.facts,
        vocabularies=vocabularies.to_dict(),
        rows=tuple(
            _describe_result(each, results.get(each.name), unanswered, budget)
            for each in contenders
        ),
        differences=compared.differences,
        opponent=opponent,
        adds=_measure_added(opponent, contenders, benchmark, store, budget) if has_ours else None,
        match_set=_describe_match_set(store, benchmark, budget) if has_ours else None,
        examples=choose_examples(benchmark, results, opponent),
    )


def compare_results(
    evaluations: Mapping[str, Evaluation],
    contenders: Sequence[Contender],
    budget: Budget,
    *,
    opponent: str | None,
) -> Comparison:
    """Test ours against all others, fusions against the opponent, and the paper's claims."""
    pairs = [(OURS, name) for name in evaluations if name != OURS and OURS in evaluations]
    pairs += [
        (each.name, opponent)
        for each in contenders
        if each.group == "fusion" and opponent in each.needs and each.name in evaluations
    ]
    pairs += [claim for claim in CLAIMS if set(claim) <= set(evaluations)]
    return compare_evaluations(
        evaluations,
        pairs=pairs,
        flips=budget.flips,
        resamples=budget.resamples,
        seed=budget.seed,
    )


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
    """Return results in the order of the table: those just made, and earlier ones of others."""
    ordered = {}
    for contender in contenders:
        name = contender.name
        result = results.get(name)
        if result is None:
            digest = contender.digest(benchmark, budget)
            result = store.load_result(name, digest, benchmark.qrels)
        if result is not None:
            ordered[name] = result
    return ordered


def _find_opponent(
    contenders: Sequence[Contender], results: Mapping[str, Measurement]
) -> str | None:
    """Return what ours is shown beside: the first engine of the user's own, else lexical search."""
    ran = [contender for contender in contenders if contender.name in results]
    engine = next((contender for contender in ran if contender.group == "engine"), None)
    opponent = engine or find_lexical(ran)
    return None if opponent is None else opponent.name


def _describe_setting(benchmark: Benchmark, budget: Budget, command: str) -> Setting:
    return Setting(
        command=command,
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        machine=describe_machine(),
        versions=list_versions(),
        config=asdict(benchmark.config),
        ks=budget.ks,
        seed=benchmark.config.learn.seed,
        is_quick=budget.is_quick,
        qrels=digest_qrels(benchmark.qrels),
    )


def score_queries(
    evaluation: Evaluation, chosen: Bools, segment: str, budget: Budget
) -> tuple[Score, ...]:
    """Return recall at each k over some of the queries."""
    values = evaluation.recalls[chosen][:, None]
    weights = np.stack([np.ones(len(values)), evaluation.traffic[chosen]])
    low, high = bootstrap(values, weights, resamples=budget.resamples, seed=budget.seed)
    value = mean(values, weights)
    return tuple(
        Score(
            segment, "recall", k, len(values),
            *(float(part[0, 0, i]) for part in (value, low, high)),
            *(float(part[1, 0, i]) for part in (value, low, high)),
        )
        for i, k in enumerate(evaluation.ks)
    )  # fmt: skip


def _describe_result(
    contender: Contender,
    result: Measurement | None,
    unanswered: Bools | None,
    budget: Budget,
) -> Row:
    """Return a row; `unanswered` are the queries that make up the segment of zero results."""
    about = contender.name, contender.kind, contender.title, contender.group
    if result is None:
        return Row(*about, absent=contender.absent or LEFT_OUT)
    cost = None
    if len(result.timing.total):
        edges, counts = _count_latencies(result)
        cost = Cost(
            result.train_seconds,
            result.disk_bytes,
            result.timing.to_dict(),
            edges,
            counts,
        )
    scores = result.evaluation.scores
    if unanswered is not None and unanswered.any():
        scores += score_queries(result.evaluation, unanswered, ZERO_RESULT, budget)
    return Row(
        *about,
        note=contender.note,
        features=result.features,
        scores=scores,
        cost=cost,
    )


def _count_latencies(result: Measurement) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Return a histogram with logarithmic bins, without the slowest hundredth of the calls."""
    seconds = result.timing.total
    edges = np.geomspace(seconds.min() / 1.01, np.quantile(seconds, 0.99) * 1.01, BINS + 1)
    counts, _ = np.histogram(seconds, edges)
    return tuple(edges.tolist()), tuple(counts.tolist())


def _describe_match_set(store: Store, benchmark: Benchmark, budget: Budget) -> MatchSetFacts:
    matcher = MatchSet.load(store.model(OURS))
    answers = score_answers(matcher, benchmark.qrels, k=max(budget.ks))
    reranker = matcher.model.reranker
    return MatchSetFacts(
        matcher.model.part_bytes(),
        reranker.table(),
        reranker.facts,
        answers.reliability(),
        answers.cutoffs(),
    )


def _measure_added(
    opponent: str | None,
    contenders: Sequence[Contender],
    benchmark: Benchmark,
    store: Store,
    budget: Budget,
) -> IncrementalRecall | None:
    """Return what our match set adds to the opponent; None if one of the two models is missing."""
    titles = {each.name: each.title for each in contenders}
    if opponent is None or not store.model(opponent).exists():
        return None
    return incremental_recall(
        load(store.model(OURS)),
        load(store.model(opponent)),
        benchmark.qrels,
        k=max(budget.ks),
        names=(titles[OURS], titles[opponent]),
        resamples=budget.resamples,
        seed=budget.seed,
    )
