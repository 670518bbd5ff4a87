"""Problem: which data do the experiments learn from and ask about?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset.config import TrainConfig
from matchset.data.catalog import Catalog
from matchset.data.events import kind_of
from matchset.data.log import Log
from matchset.data.positives import Positives, positives, relevance
from matchset.data.split import Split, SplitOptions, compare
from matchset.errors import DataError
from matchset.evaluate.qrels import Questions, make_questions
from matchset.lab.experiments.store import make_digest

EXAMPLES = 400  # test queries among which those to show are chosen


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What there is to learn from, and the questions that every matcher is asked."""

    train: Log
    catalog: Catalog | None
    config: TrainConfig  # of our own recipe; other rows change it
    pairs: Positives  # of the training side
    questions: Questions  # of the test side
    may_show: NDArray[np.bool_]  # which questions may be shown to people, (n_questions,)
    facts: Mapping[str, Any]  # what the report tells of the data
    digest: str  # of everything above, but for what the rows tell of their own configuration

    def examples(self) -> NDArray[np.int64]:
        """Places of some questions that may be shown, chosen by chance."""
        places = np.flatnonzero(self.may_show)
        rng = np.random.default_rng([self.config.learn.seed, 11])
        return np.sort(rng.permutation(places)[:EXAMPLES])


def make_problem(
    log: Log,
    catalog: Catalog | None,
    config: TrainConfig,
    plan: SplitOptions,
    *,
    origin: str = "a log",
) -> Problem:
    """Split a log first, then decide on each side alone what counts."""
    split = plan.divide(log, seed=config.learn.seed)
    pairs = positives(split.train, events=config.events, min_count=config.min_count)
    if len(pairs) == 0:
        raise DataError(f"the training side must have positive pairs; got none with {pairs.rule}")
    events = config.events if plan.relevant is None else plan.relevant
    questions = ask(split.test, events, config, plan)
    wanted = relevance(split.test, events=events, min_count=config.min_count)
    return Problem(
        train=split.train,
        catalog=catalog,
        config=config,
        pairs=pairs,
        questions=questions,
        may_show=may_show(log, questions, config),
        facts={"origin": origin, **describe(split, pairs, wanted, catalog)},
        digest=make_digest(split.train, split.test, catalog, plan, origin, *_what_counts(config)),
    )


def _what_counts(config: TrainConfig) -> tuple[Any, ...]:
    """What of a configuration all rows share: the pairs, what may be shown, the seed."""
    return config.events, config.min_count, config.min_query_count, config.learn.seed


def take_test(log: Log, config: TrainConfig, plan: SplitOptions) -> Questions:
    """The questions of the side that a model was not trained on; of all of a log for "none"."""
    test = log if plan.split == "none" else plan.divide(log, seed=config.learn.seed).test
    return ask(test, config.events if plan.relevant is None else plan.relevant, config, plan)


def ask(
    test: Log, events: Mapping[str, float] | None, config: TrainConfig, plan: SplitOptions
) -> Questions:
    """The questions of a test side."""
    return make_questions(
        test, events=events, min_count=config.min_count, sample=plan.sample, seed=config.learn.seed
    )


def may_show(log: Log, questions: Questions, config: TrainConfig) -> NDArray[np.bool_]:
    """Which questions led to something often enough, over all of the log, (n_questions,)."""
    shown = log.shown(config.min_query_count)[log.queries.index_of(questions.queries)]
    return np.asarray(shown)


def digest_questions(questions: Questions) -> str:
    """Whether two experiments asked the same."""
    return make_digest(questions.queries, questions.products, questions.row, questions.product)


def describe(
    split: Split, pairs: Positives, wanted: Positives, catalog: Catalog | None
) -> dict[str, Any]:
    """What is told of the data: sizes, days, what is new in the test, the ceiling."""
    report = compare(pairs, wanted)
    names = ("pairs", "queries", "products")
    sides = {
        f"{side}_{name}": getattr(report, f"{side}_{name}")
        for side in ("train", "test")
        for name in names
    }
    return {
        **sides,
        "train_days": _days(split.train),
        "test_days": _days(split.test),
        "catalog_products": None if catalog is None else len(catalog),
        "train_rule": str(pairs.rule),
        "test_rule": str(wanted.rule),
        "relevant_means": "bought" if _is_purchase(wanted) else "relevant",
        "unseen_products": report.unseen_products,
        "unseen_queries": report.unseen_queries,
        "ceiling": report.ceiling,
    }


def _days(log: Log) -> list[str] | None:
    return None if log.days is None else [day.isoformat() for day in log.days]


def _is_purchase(wanted: Positives) -> bool:
    return {kind_of(name) for name in wanted.rule.weights} == {"purchase"}
