"""Comparing: which matcher is better, and may that be luck?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from matchset.data.arrow import ExportColumn
from matchset.data.events import EventWeights
from matchset.data.log import Log
from matchset.data.positives import Positives
from matchset.evaluate.evaluation import KS, SAMPLE, Evaluation, check_ks, evaluate_questions
from matchset.evaluate.judgments import BATCH
from matchset.evaluate.qrels import make_questions
from matchset.evaluate.segments import SEGMENTS
from matchset.evaluate.significance import (
    FLIPS,
    RESAMPLES,
    Values,
    bootstrap,
    holm,
    randomization_test,
)
from matchset.matchers.base import Retriever
from matchset.matchers.display import Grid, Headed, percent, printable, with_margin
from matchset.matchers.frames import Tabular
from matchset.strings import Strings


@dataclass(frozen=True, slots=True)
class Difference:
    """How much more recall one matcher has than another, over the same queries."""

    first: str
    second: str
    k: int
    value: float  # mean recall at k of the first, less that of the second
    low: float  # of its 95 % confidence interval
    high: float
    p: float  # of a two-sided randomisation test
    p_holm: float  # the same, corrected for all differences of the comparison


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison(Headed, Tabular):
    """Several matchers on the same queries."""

    evaluations: Mapping[str, Evaluation]
    differences: tuple[Difference, ...]  # of every two matchers, at every k

    def __getitem__(self, name: str) -> Evaluation:
        return self.evaluations[name]

    @property
    def best(self) -> str:
        """The matcher with the largest recall at the largest k."""
        return max(self.evaluations, key=lambda name: self.evaluations[name].recall())

    def difference(self, first: str, second: str, k: int | None = None) -> Difference:
        """One of the differences; at the largest k, unless told."""
        depth = max(self.evaluations[first].ks) if k is None else k
        for found in self.differences:
            if found.k == depth and {found.first, found.second} == {first, second}:
                return found if found.first == first else _turn(found)
        raise KeyError(f"a difference must be of matchers and a k; got {first, second, depth}")

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict per matcher and score: matcher, and what `Evaluation.to_dicts` gives."""
        return [
            {"matcher": name, **row}
            for name, evaluation in self.evaluations.items()
            for row in evaluation.to_dicts()
        ]

    def _columns(self) -> list[ExportColumn]:
        rows = self.to_dicts()
        columns = []
        for name in rows[0]:
            values = [row[name] for row in rows]
            if isinstance(values[0], str):
                columns.append(ExportColumn(name, texts=Strings.of(values)))
            else:
                dtype = np.int32 if isinstance(values[0], int) else np.float64
                columns.append(ExportColumn(name, np.array(values, dtype=dtype)))
        return columns

    def _grid(self) -> Grid:
        best = self.best
        rows = []
        for name, evaluation in self.evaluations.items():
            recalls = [evaluation.score("recall", k) for k in evaluation.ks]
            luck = "best" if name == best else f"{self.difference(best, name).p_holm:.4f}"
            cells = [with_margin(score.value, score.low, score.high) for score in recalls]
            rows.append([printable(name), *cells, percent(recalls[-1].ceiling), luck])
        any_one = next(iter(self.evaluations.values()))
        headers = ["", *(f"Recall@{k}" for k in any_one.ks), "ceiling", "p"]
        what = "in %, with 95 % margin; p of the difference to the best, by Holm"
        return Grid(f"Comparison({len(any_one):,} queries; {what})", headers, rows, len(rows))


def compare_matchers(
    matchers: Mapping[str, Retriever],
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
    flips: int = FLIPS,
    batch: int = BATCH,
) -> Comparison:
    """Evaluate matchers by name on the same queries, and test each difference in recall.

    Options are those of `evaluate`; `flips` is the number of randomisations of each test.
    """
    if not matchers:
        raise ValueError("matchers must hold at least one; got none")
    questions = make_questions(
        test, events=events, min_count=min_count, sample=sample, seed=seed, graded=graded
    )
    depths = check_ks(ks)
    evaluations = {
        name: evaluate_questions(
            matcher,
            questions,
            train=train,
            ks=depths,
            seed=seed,
            segments=segments,
            resamples=resamples,
            batch=batch,
        )
        for name, matcher in matchers.items()
    }
    return Comparison(
        evaluations, find_differences(evaluations, flips=flips, resamples=resamples, seed=seed)
    )


def find_differences(
    evaluations: Mapping[str, Evaluation],
    *,
    flips: int = FLIPS,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[Difference, ...]:
    """Test the differences in recall of every two evaluations, at every k, corrected together."""
    pairs = list(combinations(evaluations, 2))
    for first, second in pairs:
        one, other = evaluations[first], evaluations[second]
        if one.ks != other.ks or one.queries != other.queries:
            raise ValueError(
                f"evaluations must be of the same queries and ks; got {first}, {second}"
            )
    if not pairs:
        return ()
    recalls = {name: evaluation.recalls for name, evaluation in evaluations.items()}
    ks = next(iter(evaluations.values())).ks
    return weigh_differences(recalls, pairs, ks, flips=flips, resamples=resamples, seed=seed)


def weigh_differences(
    recalls: Mapping[str, Values],
    pairs: Sequence[tuple[str, str]],
    ks: Sequence[int],
    *,
    flips: int = FLIPS,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[Difference, ...]:
    """Differences of some pairs of matchers, at every k, corrected together.

    `recalls` are those of each query at each k by the name of the matcher, (n_queries, n_ks).
    """
    gains: Values = np.concatenate(
        [recalls[first] - recalls[second] for first, second in pairs], axis=1
    )  # (n_queries, n_pairs * n_ks)
    p = randomization_test(gains, flips=flips, seed=seed)
    low, high = bootstrap(gains[:, None], np.ones((1, len(gains))), resamples=resamples, seed=seed)
    numbers = np.stack([gains.mean(axis=0), low[0, 0], high[0, 0], p, holm(p)], axis=1)
    names = [(first, second, k) for first, second in pairs for k in ks]
    return tuple(Difference(*name, *row) for name, row in zip(names, numbers.tolist(), strict=True))


def _turn(found: Difference) -> Difference:
    return Difference(
        found.second, found.first, found.k, -found.value, -found.high, -found.low, found.p,
        found.p_holm,
    )  # fmt: skip
