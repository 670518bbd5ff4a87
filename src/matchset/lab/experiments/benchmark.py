"""Benchmark: which data do the experiments train on, and which queries test them?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset.config import TrainConfig
from matchset.data.catalog import Catalog, require_products_of
from matchset.data.events import kind_of
from matchset.data.log import Log
from matchset.data.positives import Positives, positives, relevance
from matchset.data.split import Split, SplitOptions, compare
from matchset.errors import DataError
from matchset.evaluate.qrels import Qrels, make_qrels
from matchset.lab.experiments.findings import DataFacts, Side
from matchset.lab.experiments.store import make_digest

EXAMPLES = 400  # test queries from which the examples of the report are chosen


@dataclass(frozen=True, slots=True, eq=False)
class Benchmark:
    """Training data and qrels, the same for every contender."""

    train: Log
    catalog: Catalog | None
    config: TrainConfig  # of our own recipe; other contenders vary it
    pairs: Positives  # of the training side
    qrels: Qrels  # of the test side
    may_show: NDArray[np.bool_]  # which test queries may appear in a report, (n_queries,)
    facts: DataFacts  # for the report
    digest: str  # of the above, except for settings that single contenders depend on

    def named(self, origin: str) -> Benchmark:
        """Return the same with a name of the data."""
        return replace(self, facts=replace(self.facts, origin=origin))

    def examples(self) -> NDArray[np.int64]:
        """Draw a random sample of the test queries that may be shown, as indices."""
        indices = np.flatnonzero(self.may_show)
        rng = np.random.default_rng([self.config.learn.seed, 11])
        return np.sort(rng.permutation(indices)[:EXAMPLES])


def make_benchmark(
    log: Log,
    catalog: Catalog | None,
    config: TrainConfig,
    plan: SplitOptions,
    *,
    origin: str = "a log",
) -> Benchmark:
    """Split a log first, then find positives and qrels on each side separately."""
    if catalog is not None:
        require_products_of(log.products, catalog)
    split = plan.divide(log, seed=config.learn.seed)
    pairs = positives(split.train, events=config.events, min_count=config.min_count)
    if len(pairs) == 0:
        raise DataError(f"the training side must have positive pairs; got none with {pairs.rule}")
    events = config.events if plan.relevant is None else plan.relevant
    qrels = _make_qrels(split.test, events, config, plan)
    relevant = relevance(split.test, events=events, min_count=config.min_count)
    return Benchmark(
        train=split.train,
        catalog=catalog,
        config=config,
        pairs=pairs,
        qrels=qrels,
        may_show=may_show(log, qrels, config),
        facts=replace(
            describe(split, pairs, relevant, catalog),
            origin=origin,
            n_queries=len(qrels),
        ),
        digest=make_digest(split.train, split.test, catalog, plan, *_shared(config)),
    )


def _shared(config: TrainConfig) -> tuple[Any, ...]:
    """Return the settings that all contenders share: positives, what may be shown, the seed."""
    return config.events, config.min_count, config.min_query_count, config.learn.seed


def take_test(log: Log, config: TrainConfig, plan: SplitOptions) -> Qrels:
    """Return the qrels of the test side of a log, or of all of it if the split is "none"."""
    test = log if plan.split == "none" else plan.divide(log, seed=config.learn.seed).test
    events = config.events if plan.relevant is None else plan.relevant
    return _make_qrels(test, events, config, plan)


def _make_qrels(
    test: Log, events: Mapping[str, float] | None, config: TrainConfig, plan: SplitOptions
) -> Qrels:
    return make_qrels(
        test, events=events, min_count=config.min_count, sample=plan.sample, seed=config.learn.seed
    )


def may_show(log: Log, qrels: Qrels, config: TrainConfig) -> NDArray[np.bool_]:
    """Find the test queries that are frequent enough in the whole log to be shown, (n_queries,)."""
    shown = log.shown(config.min_query_count)[log.queries.index_of(qrels.queries)]
    return np.asarray(shown)


def digest_qrels(qrels: Qrels) -> str:
    """Return a digest; if two are equal, the experiments had the same test."""
    return make_digest(qrels.queries, qrels.products, qrels.row, qrels.product)


def describe(
    split: Split, pairs: Positives, relevant: Positives, catalog: Catalog | None
) -> DataFacts:
    """Describe the data: sizes, days, what is new in the test."""
    report = compare(pairs, relevant)
    kinds = {kind_of(name) for name in relevant.rule.weights}
    train = report.train_pairs, report.train_queries, report.train_products
    test = report.test_pairs, report.test_queries, report.test_products
    return DataFacts(
        origin="",
        train=Side(*train, _days(split.train), str(pairs.rule)),
        test=Side(*test, _days(split.test), str(relevant.rule)),
        n_queries=len(relevant.queries),
        relevant_means="bought" if kinds == {"purchase"} else "relevant",
        is_rated=not kinds & {"purchase", "cart", "click"},
        catalog_products=None if catalog is None else len(catalog),
        unseen_products=report.unseen_products,
        unseen_queries=report.unseen_queries,
        seen_limit=report.seen_limit,
    )


def _days(log: Log) -> tuple[str, str] | None:
    return None if log.days is None else (log.days[0].isoformat(), log.days[1].isoformat())
