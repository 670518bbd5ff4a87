"""Neural rows: how does a DSSM do, trained on the same log? They need the extra `dssm`."""

from __future__ import annotations

from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from matchset.evaluate.experiments.problem import Problem
from matchset.evaluate.experiments.row import NO_CATALOG, Row, give_up
from matchset.matchers.dssm.config import DssmConfig
from matchset.matchers.dssm.graph import DEFAULT_GRAPH
from matchset.matchers.dssm.hnsw import DSSMWithHNSW
from matchset.matchers.dssm.matcher import DSSM
from matchset.matchers.dssm.train import train_dssm
from matchset.threads import count_threads

EXACT, GRAPH = "dssm", "dssm-hnsw"
NO_EXTRA = "needs PyTorch and usearch: pip install 'matchset[dssm]', in a checkout make .venv/dssm"
NO_TITLE = "needs a title in --catalog of some product that a training query led to"
QUICK_EPOCHS = 2


def list_dssm_rows(problem: Problem, *, is_quick: bool) -> list[Row]:
    """DSSM by exact search, and by the paper's graph; absent where something is missing."""
    config = make_config(problem, is_quick=is_quick)
    trained = asdict(config)
    graph = trained | {"graph": asdict(DEFAULT_GRAPH)}
    absent = find_reason(problem)
    catalog = problem.catalog
    if absent or catalog is None:
        return [
            Row(EXACT, "DSSM + exact kNN", trained, give_up, absent=absent),
            Row(GRAPH, "DSSM + HNSW", graph, give_up, absent=absent),
        ]

    def learn(_: Path) -> DSSM:
        return train_dssm(problem.train, catalog, config, threads=problem.config.learn.threads)

    def connect(models: Path) -> DSSMWithHNSW:
        threads = count_threads(problem.config.learn.threads)
        return DSSM.load(models / EXACT).with_hnsw(threads=threads)

    return [
        Row(EXACT, "DSSM + exact kNN", trained, learn, DSSM.load),
        Row(GRAPH, "DSSM + HNSW", graph, connect, DSSMWithHNSW.load, needs=(EXACT,)),
    ]


def find_reason(problem: Problem) -> str:
    """Why there can be no DSSM here; empty where there can."""
    if problem.catalog is None:
        return NO_CATALOG
    places = problem.catalog.ids.find(problem.pairs.products)
    if not problem.catalog.titles.lengths[places[places >= 0]].any():
        return NO_TITLE
    has_extra = all(find_spec(name) is not None for name in ("torch", "usearch"))
    return "" if has_extra else NO_EXTRA


def make_config(problem: Problem, *, is_quick: bool) -> DssmConfig:
    """The usual configuration, with the same pairs as every other row."""
    ours = problem.config
    shared: dict[str, Any] = {
        "events": ours.events,
        "min_count": ours.min_count,
        "min_query_count": ours.min_query_count,
        "seed": ours.learn.seed,
    }
    return DssmConfig(**shared, epochs=QUICK_EPOCHS if is_quick else DssmConfig().epochs)
