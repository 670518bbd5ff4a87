"""Compare: which matcher is better, and is the difference significant?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from matchset.data.arrow import ExportColumn
from matchset.data.events import EventWeights
from matchset.data.frames import Tabular, to_columns
from matchset.data.log import Log
from matchset.data.positives import Positives
from matchset.data.split import DEFAULT_SAMPLE
from matchset.evaluate.evaluation import KS, Evaluation, check_ks, evaluate
from matchset.evaluate.judgments import BATCH
from matchset.evaluate.overlap import Share
from matchset.evaluate.pair_segments import SEGMENTS
from matchset.evaluate.qrels import Qrels, make_qrels
from matchset.evaluate.significance import (
    FLIPS,
    RESAMPLES,
    Values,
    bootstrap,
    holm,
    mean,
    randomization_test,
)
from matchset.matchers.base import Retriever
from matchset.matchers.display import Grid, Headed, printable, with_margin
from matchset.matchers.recorded_run import Engine


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference in recall of two matchers, over the same queries."""

    first: str
    second: str
    k: int
    value: float  # mean recall at k of the first minus that of the second
    low: float  # of its 95 % confidence interval
    high: float
    p: float  # of a two-sided randomization test
    p_holm: float  # corrected for all differences of the comparison
    searches: Share  # gain in searches, by traffic, with a relevant product among the first k
    queries: Share  # the same in queries, each of which counts once


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison(Headed, Tabular):
    """Several matchers on the same queries."""

    evaluations: Mapping[str, Evaluation]
    differences: tuple[Difference, ...]  # of pairs of matchers, by default of all, at each k

    def __getitem__(self, name: str) -> Evaluation:
        return self.evaluations[name]

    @property
    def best(self) -> str:
        """The matcher with the highest recall at the largest k."""
        return max(self.evaluations, key=lambda name: self.evaluations[name].recall())

    def difference(self, first: str, second: str, k: int | None = None) -> Difference:
        """Return one of the differences, by default at the largest k."""
        depth = max(self.evaluations[first].ks) if k is None else k
        for found in self.differences:
            if found.k == depth and {found.first, found.second} == {first, second}:
                return found if found.first == first else _reverse(found)
        raise KeyError(
            f"a difference needs matchers and a k that were compared; got {first, second, depth}"
        )

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one dict per matcher and score: `matcher`, and the keys of `Score`."""
        return [
            {"matcher": name, **row}
            for name, evaluation in self.evaluations.items()
            for row in evaluation.to_dicts()
        ]

    def _columns(self) -> list[ExportColumn]:
        return to_columns(self.to_dicts())

    def _grid(self) -> Grid:
        best = self.best
        rows = []
        for name, evaluation in self.evaluations.items():
            recalls = [evaluation.score("recall", k) for k in evaluation.ks]
            p = "best" if name == best else self._format_p(best, name)
            cells = [with_margin(score.value, score.low, score.high) for score in recalls]
            rows.append([printable(name), *cells, p])
        any_of_them = next(iter(self.evaluations.values()))
        headers = ["", *(f"Recall@{k}" for k in any_of_them.ks), "p"]
        what = "in %, with 95 % margin; p of the difference from the best, corrected by Holm"
        return Grid(f"Comparison({len(any_of_them):,} queries; {what})", headers, rows, len(rows))

    def _format_p(self, best: str, name: str) -> str:
        try:
            return f"{self.difference(best, name).p_holm:.4f}"
        except KeyError:
            return "not tested"


def compare_matchers(
    matchers: Mapping[str, Retriever | Engine],
    test: Log | Positives | Qrels,
    *,
    train: Log | Positives | None = None,
    ks: Iterable[int] = KS,
    events: EventWeights | None = None,
    min_count: float = 1.0,
    sample: int | None = DEFAULT_SAMPLE,
    seed: int = 0,
    segments: Sequence[str] = SEGMENTS,
    graded: bool = False,
    resamples: int = RESAMPLES,
    flips: int = FLIPS,
    batch: int = BATCH,
) -> Comparison:
    """Evaluate named matchers on the same queries, and test each difference in recall.

    Options are those of `evaluate`; `flips` is the number of randomizations of each test.
    """
    if not matchers:
        raise ValueError("matchers must hold at least one; got none")
    qrels = make_qrels(
        test, events=events, min_count=min_count, sample=sample, seed=seed, graded=graded
    )
    depths = check_ks(ks)
    evaluations = {
        name: evaluate(
            matcher,
            qrels,
            train=train,
            ks=depths,
            seed=seed,
            segments=segments,
            resamples=resamples,
            batch=batch,
        )
        for name, matcher in matchers.items()
    }
    return compare_evaluations(evaluations, flips=flips, resamples=resamples, seed=seed)


def compare_evaluations(
    evaluations: Mapping[str, Evaluation],
    *,
    pairs: Iterable[tuple[str, str]] | None = None,
    flips: int = FLIPS,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """Test the differences in recall of some pairs, by default of all, corrected together."""
    chosen = list(combinations(evaluations, 2) if pairs is None else pairs)
    for first, second in chosen:
        one, other = evaluations[first], evaluations[second]
        if one.ks != other.ks or one.queries != other.queries:
            raise ValueError(
                f"evaluations must be of the same queries and ks; got {first}, {second}"
            )
    if not chosen:
        return Comparison(evaluations, ())
    differences = _test(evaluations, chosen, flips=flips, resamples=resamples, seed=seed)
    return Comparison(evaluations, differences)


def _test(
    evaluations: Mapping[str, Evaluation],
    pairs: Sequence[tuple[str, str]],
    *,
    flips: int,
    resamples: int,
    seed: int,
) -> tuple[Difference, ...]:
    recalls = {name: evaluation.recalls for name, evaluation in evaluations.items()}
    gains: Values = np.concatenate(
        [recalls[first] - recalls[second] for first, second in pairs], axis=1
    )  # (n_queries, n_pairs * n_ks)
    hits: Values = np.concatenate(
        [(recalls[one] > 0).astype(float) - (recalls[other] > 0) for one, other in pairs], axis=1
    )
    p = randomization_test(gains, flips=flips, seed=seed)
    any_of_them = next(iter(evaluations.values()))
    values = np.stack([gains, hits], axis=1)  # as two groups, each with its own weight
    weights = np.stack([np.ones(len(gains)), any_of_them.traffic])
    low, high = bootstrap(values, weights, resamples=resamples, seed=seed)
    value = mean(values, weights)
    # Recall of queries, hits by traffic, hits of queries: each with its interval.
    gain, searches, queries = (
        [part[at] for part in (value, low, high)] for at in ((0, 0), (1, 1), (0, 1))
    )
    numbers = np.stack([*gain, p, holm(p), *searches, *queries], axis=1).tolist()
    names = [(first, second, k) for first, second in pairs for k in any_of_them.ks]
    return tuple(_to_difference(*each) for each in zip(names, numbers, strict=True))


def _to_difference(name: tuple[str, str, int], numbers: Sequence[float]) -> Difference:
    searches, queries = Share(*numbers[5:8]), Share(*numbers[8:])
    value, low, high, p, p_holm = numbers[:5]
    return Difference(*name, value, low, high, p, p_holm, searches, queries)


def _reverse(found: Difference) -> Difference:
    return Difference(
        found.second, found.first, found.k, -found.value, -found.high, -found.low, found.p,
        found.p_holm, _negate(found.searches), _negate(found.queries),
    )  # fmt: skip


def _negate(share: Share) -> Share:
    return Share(-share.value, -share.high, -share.low)
