"""Evaluation: how good is a matcher on a test?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import ExportColumn
from matchset.data.events import EventWeights
from matchset.data.frames import Tabular, to_columns
from matchset.data.log import Log
from matchset.data.positives import Positives
from matchset.data.split import DEFAULT_SAMPLE
from matchset.evaluate.judgments import BATCH, Judgments, Run, run_qrels
from matchset.evaluate.metrics import METRICS, NAMES, seen_limit
from matchset.evaluate.pair_segments import (
    ALL,
    SEGMENTS,
    Bools,
    SeenInTraining,
    choose_rule,
    find_seen_in_training,
    make_segments,
)
from matchset.evaluate.qrels import Qrels, make_qrels
from matchset.evaluate.significance import RESAMPLES, Values, bootstrap, mean
from matchset.matchers.base import Matcher, Retriever, check_k
from matchset.matchers.display import Grid, Headed, percent, with_margin
from matchset.matchers.recorded_run import Engine, as_retriever
from matchset.strings import Strings

KS = (10, 50, 100)
_NAN = float("nan")
_LARGEST = 2**31 - 1  # products that a catalog may have


@dataclass(frozen=True, slots=True)
class Score:
    """One number of an evaluation, from 0 to 1, NaN if unknown."""

    segment: str
    metric: str
    k: int
    queries: int  # number of queries in the mean
    value: float  # every query counts once
    low: float  # of its 95 % confidence interval
    high: float
    by_traffic: float  # every query counts as often as customers enter it
    by_traffic_low: float
    by_traffic_high: float
    seen_limit: float = _NAN  # of recall: the best possible with products seen in training only
    seen_limit_by_traffic: float = _NAN

    @property
    def name(self) -> str:
        """Display name, such as Recall@10."""
        return f"{NAMES[self.metric]}@{self.k}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evaluation(Headed, Tabular):
    """How good a matcher is: metrics at each k, over all test queries and by segment.

    Every recall comes with its `seen_limit`, the highest recall that products seen in training
    allow. It is a ceiling for matchers that do not use titles, because they cannot return a product
    that no training query led to. Other matchers can exceed it.
    """

    scores: tuple[Score, ...]
    ks: tuple[int, ...]
    queries: Strings  # the test queries, (n_queries,)
    traffic: Values  # how often customers enter each, (n_queries,)
    n_relevant: Values  # relevant products of each query, (n_queries,)
    recalls: Values  # of each query at each k, (n_queries, n_ks)
    sizes: NDArray[np.int64]  # products returned for each query at the largest k, (n_queries,)
    is_limited: bool = False  # whether the matcher returns only products seen in training

    def __len__(self) -> int:
        return len(self.queries)

    def score(self, metric: str = "recall", k: int | None = None, segment: str = ALL) -> Score:
        """Return one of the scores, by default at the largest k."""
        wanted = (segment, metric, max(self.ks) if k is None else k)
        for score in self.scores:
            if (score.segment, score.metric, score.k) == wanted:
                return score
        raise KeyError(f"a score needs a segment, metric and k of this evaluation; got {wanted}")

    def recall(self, k: int | None = None, segment: str = ALL) -> float:
        """Return the mean recall at k, by default the largest."""
        return self.score("recall", k, segment).value

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one dict per score, with the fields of `Score` as keys."""
        names = [field.name for field in fields(Score)]
        return [{name: getattr(score, name) for name in names} for score in self.scores]

    def _columns(self) -> list[ExportColumn]:
        return to_columns(self.to_dicts())

    def _grid(self) -> Grid:
        rows = []
        for segment in dict.fromkeys(score.segment for score in self.scores):
            recalls = [s for s in self.scores if (s.segment, s.metric) == (segment, "recall")]
            name = "Recall" if segment == ALL else f"  {segment}"
            rows.append([name, f"{recalls[0].queries:,}", *map(_format, recalls)])
            if segment == ALL:
                rows += self._rows_below(recalls)
        for metric in NAMES:
            others = [s for s in self.scores if s.segment == ALL and s.metric == metric]
            if metric != "recall" and others:
                rows.append([NAMES[metric], "", *map(_format, others)])
        n_pairs = int(self.n_relevant.sum())
        what = "in %, with 95 % margin"
        title = f"Evaluation({len(self):,} queries, {n_pairs:,} relevant products; {what})"
        return Grid(title, ["", "queries", *(f"@{k}" for k in self.ks)], rows, len(rows))

    def _rows_below(self, recalls: Sequence[Score]) -> Iterator[list[str]]:
        """Yield the recall by traffic and, where it is known, its limit."""
        margins = ((s.by_traffic, s.by_traffic_low, s.by_traffic_high) for s in recalls)
        yield ["  by traffic", "", *(with_margin(*margin) for margin in margins)]
        if not np.isnan(recalls[0].seen_limit):
            name = "  ceiling" if self.is_limited else "  seen in training"
            yield [name, "", *(percent(score.seen_limit) for score in recalls)]


def evaluate(
    matcher: Retriever | Engine,
    test: Log | Positives | Qrels,
    *,
    train: Log | Positives | None = None,
    ks: Iterable[int] = KS,
    events: EventWeights | None = None,
    min_count: float | None = None,
    sample: int | None = DEFAULT_SAMPLE,
    seed: int = 0,
    segments: Sequence[str] = SEGMENTS,
    graded: bool = False,
    resamples: int = RESAMPLES,
    batch: int = BATCH,
) -> Evaluation:
    """Match the queries of a test set, and measure how many of their relevant products are found.

    The matcher may also be a callable, `lambda queries, k: ...`, that returns the product ids of
    each query, best first. `Positives` and `Qrels` are relevant as they are. For a log, `relevance`
    decides (with `events` and `min_count`). A log without purchases and clicks is tested by the
    events and the `min_count` of the training.

    Which queries and products were seen in training is looked up in `train`, or else in what the
    matcher remembers. A training log counts by its default positives. If training used other
    options, pass its `Positives`. Segments and limits that need an unknown training set are left
    out.
    """
    depths, retriever = check_ks(ks), as_retriever(matcher)
    if isinstance(test, Log):
        rule = choose_rule(retriever, test, events=events, min_count=min_count)
        events, min_count = rule.weights, rule.min_count
    least = 1.0 if min_count is None else min_count
    qrels = make_qrels(
        test, events=events, min_count=least, sample=sample, seed=seed, graded=graded
    )
    seen = find_seen_in_training(qrels, train, retriever)
    run = run_qrels(retriever, qrels, depths, head=seen.head, batch=batch)
    parts = make_segments(qrels, seen, segments)
    return Evaluation(
        (
            *_score_queries(run, qrels, seen, parts, ks=depths, resamples=resamples, seed=seed),
            *_score_lists(run, len(qrels), depths, has_tail=seen.head is not None),
        ),
        depths,
        qrels.queries,
        qrels.traffic,
        run.judgments.count(),
        np.column_stack([METRICS["recall"](run.judgments, k) for k in depths]),
        run.sizes,
        is_limited=_knows_no_titles(retriever),
    )


def _knows_no_titles(matcher: Retriever) -> bool:
    """Return whether a trained matcher knows products of its log alone."""
    if not isinstance(matcher, Matcher) or matcher.training is None:
        return False
    return matcher.products.titles is None


def _format(score: Score) -> str:
    return with_margin(score.value, score.low, score.high)


def check_ks(ks: Iterable[int]) -> tuple[int, ...]:
    """Return the distinct ks in ascending order; raise a ValueError unless all are positive."""
    depths = tuple(sorted({check_k(k) for k in ks}))
    if not depths:
        raise ValueError("ks must hold at least one k; got none")
    if depths[-1] > _LARGEST:
        raise ValueError(f"ks must be at most {_LARGEST}; got {depths[-1]}")
    return depths


def _score_queries(
    run: Run,
    qrels: Qrels,
    seen: SeenInTraining,
    parts: Mapping[str, Bools],
    *,
    ks: tuple[int, ...],
    resamples: int,
    seed: int,
) -> Iterator[Score]:
    """Yield every metric of a run as a mean over all queries, and over those of each segment."""
    judgments = [run.judgments.select(pairs) for pairs in parts.values()]
    columns = [(metric, k) for metric in METRICS for k in ks]
    values = np.stack(
        [np.column_stack([METRICS[m](part, k) for m, k in columns]) for part in judgments], axis=1
    )  # (n_queries, n_segments, n_columns)
    weights = np.stack([np.ones(len(qrels)), qrels.traffic])
    low, high = bootstrap(values, weights, resamples=resamples, seed=seed)
    plain, weighted = mean(values, weights)
    of_recall = [columns.index(("recall", k)) for k in ks]  # only recall has a limit
    limits = np.full((2, *plain.shape), np.nan)
    limits[:, :, of_recall] = mean(_find_limits(parts, judgments, seen, ks), weights)
    numbers = [plain, low[0], high[0], weighted, low[1], high[1], *limits]
    table = np.stack(numbers)  # (n_numbers, n_segments, n_columns)
    for s, segment in enumerate(parts):
        n_queries = int(np.count_nonzero(judgments[s].count()))
        for c, (metric, k) in enumerate(columns):
            yield Score(segment, metric, k, n_queries, *table[:, s, c].tolist())


def _find_limits(
    parts: Mapping[str, Bools],
    judgments: Sequence[Judgments],
    seen: SeenInTraining,
    ks: tuple[int, ...],
) -> Values:
    """Return the seen limits of recall, NaN if unknown, (n_queries, n_segments, n_ks)."""
    best = np.full((judgments[0].n_queries, len(parts), len(ks)), np.nan)
    if seen.is_warm is not None:
        for s, (pairs, part) in enumerate(zip(parts.values(), judgments, strict=True)):
            is_warm = seen.is_warm[pairs]
            best[:, s] = np.column_stack([seen_limit(part, is_warm, k) for k in ks])
    return best


def _score_lists(run: Run, n_queries: int, ks: tuple[int, ...], *, has_tail: bool) -> list[Score]:
    """Return scores that are not means over queries: coverage, and the share of the long tail."""
    n_products = 0 if run.products is None else len(run.products)
    shares = [("coverage", k, run.n_distinct[k], n_products) for k in ks]
    shares += [("long_tail", k, run.n_tail[k], run.n_returned[k]) for k in ks if has_tail]
    return [
        Score(ALL, metric, k, n_queries, n / total if total else _NAN, *[_NAN] * 5)
        for metric, k, n, total in shares
    ]
