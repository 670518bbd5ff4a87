"""Running: every matcher is made, asked the same questions, measured and kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from matchset.evaluate.evaluation import KS, evaluate_questions
from matchset.evaluate.significance import FLIPS, RESAMPLES
from matchset.lab.experiments.benchmark import Problem
from matchset.lab.experiments.contenders import Row
from matchset.lab.experiments.store import Measured, Store, measure_disk
from matchset.lab.experiments.timing import time_queries
from matchset.matchers.base import Matcher

SHOWN = 10  # products of each matcher that are shown side by side


class Following(NamedTuple):
    """Who follows a run: hears of what is done, and of what is begun."""

    done: Callable[[str], None] = lambda _: None
    begun: Callable[[str], None] = lambda _: None


NOBODY = Following()


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How thoroughly is measured."""

    ks: tuple[int, ...] = KS
    resamples: int = RESAMPLES
    flips: int = FLIPS
    singles: int = 1_000  # queries whose latency is taken
    is_quick: bool = False
    seed: int = 0


QUICK = Effort(resamples=200, flips=2_000, singles=300, is_quick=True)


def run_rows(
    rows: Sequence[Row],
    problem: Problem,
    store: Store,
    effort: Effort,
    *,
    follow: Following = NOBODY,
) -> dict[str, Measured]:
    """Every row that can be made, by name; those that are kept already are not made again."""
    done: dict[str, Measured] = {}
    for row in rows:
        if row.absent:
            follow.done(f"{row.title}: absent; {row.absent}")
            continue
        digest = row.digest(problem, effort)
        found = store.find_row(row.name, digest)
        if found is None or (row.load and not store.model(row.name).exists()):
            follow.begun(row.title)
            store.drop_row(row.name)
            before = sum(done[name].train_seconds for name in row.needs)
            found = run_row(row, problem, store, effort, digest=digest, before=before)
            store.keep_row(row.name, found)
            follow.done(f"{row.title}: {_sum_up(found, effort)}")
        else:
            follow.done(f"{row.title}: {_sum_up(found, effort)} (kept)")
        done[row.name] = found
    return done


def run_row(
    row: Row, problem: Problem, store: Store, effort: Effort, *, digest: str, before: float = 0.0
) -> Measured:
    """Make one matcher and measure it; `before` is the time that what it is made of took."""
    started = time.perf_counter()
    matcher = row.learn(store.path / "models")
    spent = time.perf_counter() - started
    size = measure_disk(matcher, store.path, keep_at=store.model(row.name) if row.load else None)
    questions = problem.questions
    evaluation = evaluate_questions(
        matcher,
        questions,
        train=problem.pairs,
        ks=effort.ks,
        resamples=effort.resamples,
        seed=effort.seed,
    )
    return Measured(
        digest=digest,
        features=matcher.n_features,
        train_seconds=before + spent,
        disk_bytes=size,
        scores=evaluation.to_dicts(),
        answers=_show(matcher, problem),
        recalls=evaluation.recalls,
        timing=time_queries(matcher, questions.queries, sample=effort.singles, seed=effort.seed),
    )


def _show(matcher: Matcher, problem: Problem) -> list[list[str]]:
    """The best products for each example."""
    places = problem.examples()
    if len(places) == 0:
        return []
    matches = matcher.match(problem.questions.queries.take(places), SHOWN)
    return [list(match.ids) for match in matches]


def _sum_up(row: Measured, effort: Effort) -> str:
    recalls = " / ".join(f"{100 * share:.1f}" for share in np.mean(row.recalls, axis=0))
    ks = "/".join(map(str, effort.ks))
    return (
        f"Recall@{ks} {recalls} %, trained in {row.train_seconds:.1f} s, "
        f"{row.disk_bytes / 1e6:.1f} MB, p50 {1e3 * row.timing.to_dict()['total_p50']:.3f} ms"
    )
