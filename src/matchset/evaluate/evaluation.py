"""Evaluation: how good is a matcher on a test?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from matchset.data.arrow import ExportColumn
from matchset.data.events import EventWeights
from matchset.data.log import Log
from matchset.data.positives import Positives
from matchset.evaluate.judgments import BATCH, Answers, judge
from matchset.evaluate.metrics import METRICS, Judged, Values, ceiling
from matchset.evaluate.qrels import Questions, make_questions
from matchset.evaluate.segments import (
    ALL,
    SEGMENTS,
    Bools,
    Training,
    make_segments,
    recall_training,
)
from matchset.evaluate.significance import RESAMPLES, bootstrap, mean
from matchset.matchers.base import Retriever, check_k
from matchset.matchers.display import Grid, Headed, percent, with_margin
from matchset.matchers.frames import Tabular
from matchset.strings import Strings

KS = (10, 50, 100)
SAMPLE = 100_000
NAMES = {
    "recall": "Recall",
    "precision": "Precision",
    "ndcg": "nDCG",
    "mrr": "MRR",
    "hit_rate": "Hit rate",
    "coverage": "Coverage",
    "long_tail": "Long tail",
}
_NAN = float("nan")
_LARGEST = 2**31 - 1  # products that a catalogue may have


@dataclass(frozen=True, slots=True)
class Score:
    """One number of an evaluation, from 0 to 1, NaN where it is not known."""

    segment: str
    metric: str
    k: int
    queries: int  # that it is the mean of
    value: float  # every query counts the same
    low: float  # of its 95 % confidence interval
    high: float
    by_traffic: float  # every query counts as often as it is asked
    by_traffic_low: float
    by_traffic_high: float
    ceiling: float = _NAN  # of recall: the best of a matcher that knows only training products
    ceiling_by_traffic: float = _NAN

    @property
    def name(self) -> str:
        """As people call it: Recall@10."""
        return f"{NAMES[self.metric]}@{self.k}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Evaluation(Headed, Tabular):
    """How good a matcher is: metrics at each k, over all test queries and by segment.

    Beside every recall stands its ceiling. It binds only matchers that know no titles: these cannot
    give a product that no training query led to.
    """

    scores: tuple[Score, ...]
    ks: tuple[int, ...]
    queries: Strings  # that were asked, (n_queries,)
    traffic: Values  # how often customers ask each, (n_queries,)
    n_relevant: Values  # relevant products of each, (n_queries,)
    recalls: Values  # of each query at each k, (n_queries, n_ks)

    def __len__(self) -> int:
        return len(self.queries)

    def score(self, metric: str = "recall", k: int | None = None, segment: str = ALL) -> Score:
        """One of the scores; at the largest k, unless told."""
        wanted = (segment, metric, max(self.ks) if k is None else k)
        for score in self.scores:
            if (score.segment, score.metric, score.k) == wanted:
                return score
        raise KeyError(f"a score must be of segment, metric and k that were asked; got {wanted}")

    def recall(self, k: int | None = None, segment: str = ALL) -> float:
        """Mean recall at k, the largest unless told."""
        return self.score("recall", k, segment).value

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict per score: segment, metric, k, queries, value, bounds, by_traffic, ceiling."""
        names = [field.name for field in fields(Score)]
        return [{name: getattr(score, name) for name in names} for score in self.scores]

    def _columns(self) -> list[ExportColumn]:
        columns = []
        for field in fields(Score):
            values = [getattr(score, field.name) for score in self.scores]
            if field.name in ("segment", "metric"):
                columns.append(ExportColumn(field.name, texts=Strings.of(values)))
            else:
                dtype = np.int32 if field.name in ("k", "queries") else np.float64
                columns.append(ExportColumn(field.name, np.array(values, dtype=dtype)))
        return columns

    def _grid(self) -> Grid:
        recalls = [score for score in self.scores if score.metric == "recall"]
        rows = []
        for segment in dict.fromkeys(score.segment for score in recalls):
            of_segment = [score for score in recalls if score.segment == segment]
            name = "Recall" if segment == ALL else f"  {segment}"
            rows.append([name, f"{of_segment[0].queries:,}", *map(_show_recall, of_segment)])
            if segment == ALL:
                rows.append(["  by traffic", "", *map(_show_by_traffic, of_segment)])
        for metric in NAMES:
            others = [s for s in self.scores if s.segment == ALL and s.metric == metric]
            if metric != "recall" and others:
                cells = [with_margin(score.value, score.low, score.high) for score in others]
                rows.append([NAMES[metric], "", *cells])
        n_pairs = int(self.n_relevant.sum())
        what = "in %, with 95 % margin / ceiling"
        title = f"Evaluation({len(self):,} queries, {n_pairs:,} relevant products; {what})"
        return Grid(title, ["", "queries", *(f"@{k}" for k in self.ks)], rows, len(rows))


def evaluate(
    matcher: Retriever,
    test: Log | Positives,
    *,
    train: Log | Positives | None = None,
    ks: Iterable[int] = KS,
    events: EventWeights | None = None,
    min_count: float = 1.0,
    sample: int | None = SAMPLE,
    seed: int = 0,
    segments: Sequence[str] = SEGMENTS,
    graded: bool = False,
    resamples: int = RESAMPLES,
    batch: int = BATCH,
) -> Evaluation:
    """Ask the queries of a test, and measure how many of their relevant products come back.

    What is relevant: see `data.positives.relevance` (with `events` and `min_count`), or the pairs
    of `Positives`. Which queries and products were seen in training is told by `train`, or else by
    the `training` record of a matcher; of a log its usual positives count, so where training had
    other options, give its `Positives`. Without either, segments and ceiling that need it are
    missing.
    """
    questions = make_questions(
        test, events=events, min_count=min_count, sample=sample, seed=seed, graded=graded
    )
    return evaluate_questions(
        matcher,
        questions,
        train=train,
        ks=ks,
        seed=seed,
        segments=segments,
        resamples=resamples,
        batch=batch,
    )


def evaluate_questions(
    matcher: Retriever,
    questions: Questions,
    *,
    train: Log | Positives | None = None,
    ks: Iterable[int] = KS,
    seed: int = 0,
    segments: Sequence[str] = SEGMENTS,
    resamples: int = RESAMPLES,
    batch: int = BATCH,
) -> Evaluation:
    """`evaluate`, of questions that were made before."""
    depths = check_ks(ks)
    training = recall_training(questions, train, matcher)
    answers = judge(matcher, questions, depths, head=training.head, batch=batch)
    return score_answers(
        answers, questions, training, depths, segments=segments, resamples=resamples, seed=seed
    )


def check_ks(ks: Iterable[int]) -> tuple[int, ...]:
    """Distinct ascending ks, if they are positive."""
    depths = tuple(sorted({check_k(k) for k in ks}))
    if not depths:
        raise ValueError("ks must hold at least one k; got none")
    if depths[-1] > _LARGEST:
        raise ValueError(f"ks must be at most {_LARGEST}; got {depths[-1]}")
    return depths


def score_answers(
    answers: Answers,
    questions: Questions,
    training: Training,
    ks: tuple[int, ...],
    *,
    segments: Sequence[str] = SEGMENTS,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Evaluation:
    """Compute every metric of answers that were judged."""
    parts = make_segments(questions, training, segments)
    judged = [answers.judged.select(pairs) for pairs in parts.values()]
    names = [(metric, k) for metric in METRICS for k in ks]
    # (n_queries, n_segments, n_metrics), recall first
    values = np.stack(
        [np.column_stack([METRICS[m](j, k) for m, k in names]) for j in judged], axis=1
    )
    best = _limit(parts, judged, training, ks)
    weights = np.stack([np.ones(len(questions)), questions.traffic])
    low, high = bootstrap(values, weights, resamples=resamples, seed=seed)
    plain, weighted = mean(values, weights)
    numbers = np.stack([plain, low[0], high[0], weighted, low[1], high[1], *mean(best, weights)])
    n_asked = [int(np.count_nonzero(part.count())) for part in judged]
    scores = [
        Score(segment, metric, k, n_asked[s], *numbers[:, s, m].tolist())
        for s, segment in enumerate(parts)
        for m, (metric, k) in enumerate(names)
    ]
    scores += _score_lists(answers, len(questions), ks, has_tail=training.head is not None)
    return Evaluation(
        tuple(scores),
        ks,
        questions.queries,
        questions.traffic,
        answers.judged.count(),
        values[:, 0, : len(ks)],
    )


def _limit(
    parts: Mapping[str, Bools], judged: Sequence[Judged], training: Training, ks: tuple[int, ...]
) -> Values:
    """The ceilings of recall; NaN for other metrics, (n_queries, n_segments, n_metrics)."""
    best = np.full((judged[0].n_queries, len(parts), len(METRICS) * len(ks)), np.nan)
    if training.is_warm is not None:
        for s, (pairs, part) in enumerate(zip(parts.values(), judged, strict=True)):
            is_warm = training.is_warm[pairs]
            best[:, s, : len(ks)] = np.column_stack([ceiling(part, is_warm, k) for k in ks])
    return best


def _score_lists(
    answers: Answers, n_queries: int, ks: tuple[int, ...], *, has_tail: bool
) -> list[Score]:
    """What is no mean over queries: coverage of the catalogue, share of results in the tail."""
    unknown = [_NAN] * 5
    scores = []
    for k in ks:
        n_products = len(answers.products) if answers.products is not None else 0
        value = answers.n_distinct[k] / n_products if n_products else _NAN
        scores.append(Score(ALL, "coverage", k, n_queries, value, *unknown))
    for k in ks if has_tail else ():
        given = answers.n_given[k]
        value = answers.n_tail[k] / given if given else _NAN
        scores.append(Score(ALL, "long_tail", k, n_queries, value, *unknown))
    return scores


def _show_recall(score: Score) -> str:
    best = "" if np.isnan(score.ceiling) else f" / {percent(score.ceiling)}"
    return with_margin(score.value, score.low, score.high) + best


def _show_by_traffic(score: Score) -> str:
    best = "" if np.isnan(score.ceiling_by_traffic) else f" / {percent(score.ceiling_by_traffic)}"
    return with_margin(score.by_traffic, score.by_traffic_low, score.by_traffic_high) + best
