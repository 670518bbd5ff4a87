"""Paper rows: how are XR-Linear as in the paper, and DSSM beside it, trained to be compared?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from matchset.config import LearnConfig, TrainConfig, count_threads
from matchset.errors import install_command
from matchset.lab.dssm.exact import DSSM
from matchset.lab.dssm.hnsw import CONNECTIVITY, EXPANSION_ADD, EXPANSION_SEARCH, DSSMWithHNSW
from matchset.lab.dssm.int8 import DSSMWithInt8
from matchset.lab.dssm.settings import DSSMConfig
from matchset.lab.dssm.training import train_dssm
from matchset.lab.experiments.benchmark import Benchmark
from matchset.lab.experiments.contender import NO_CATALOG, Contender, of_kind
from matchset.lab.experiments.findings import Group
from matchset.lab.experiments.vocabularies import (
    BIGRAMS,
    MORE_BIGRAMS,
    TRIGRAMS,
    UNIGRAMS,
    Vocabularies,
)
from matchset.matchers.base import Matcher
from matchset.matchers.registry import XR_LINEAR, find_kind
from matchset.matchers.train import train

EXACT, GRAPH, INT8 = DSSM.kind, DSSMWithHNSW.kind, DSSMWithInt8.kind
FEW_DIMENSIONS = 64
SMALL_INT8 = f"{INT8}_{FEW_DIMENSIONS}"
PAPER = {  # XR-Linear as the paper trains it; V is a number of n-grams, see `vocabularies`
    UNIGRAMS: "unigrams (V)",
    BIGRAMS: "bigrams (V)",
    MORE_BIGRAMS: "bigrams (1.9\u00a0V)",
    TRIGRAMS: "trigrams (1.4\u00a0V)",
}
NO_TITLE = "needs a title in --catalog of at least one product that a training query led to"
QUICK_EPOCHS = 2


def make_tree(benchmark: Benchmark) -> Contender:
    """Make XR-Linear by our recipe: the tree alone, which then learns from titles itself."""
    uses_titles = benchmark.catalog is not None and benchmark.config.titles == "instances"
    taught_by = "queries and titles" if uses_titles else "queries"
    title = f"{find_kind(XR_LINEAR).label} ({taught_by})"
    return _make_xr_linear(XR_LINEAR, title, benchmark.config, benchmark)


def list_paper_trees(benchmark: Benchmark, vocabularies: Vocabularies) -> list[Contender]:
    """List XR-Linear as the paper has it: trained on queries alone, with a limited vocabulary.

    Leaves hold at most 100 products as there; product vectors are ours, which find more.
    """
    default = LearnConfig()
    learn = replace(
        benchmark.config.learn,
        pifa_max_entries=default.pifa_max_entries,
        max_leaf_size=default.max_leaf_size,
    )
    label = find_kind(XR_LINEAR).label
    contenders = []
    for name, ngrams in PAPER.items():
        config = replace(
            benchmark.config,
            titles="none",
            language=None,
            vectorizer=vocabularies.configs[name],
            learn=learn,
        )
        contenders.append(_make_xr_linear(name, f"{label}, {ngrams}", config, benchmark, "paper"))
    return contenders


def _make_xr_linear(
    name: str, title: str, config: TrainConfig, benchmark: Benchmark, group: Group = "baseline"
) -> Contender:
    alone = replace(config, parts=("tree",))

    def recipe(_: Path) -> Matcher:
        return train(benchmark.train, benchmark.catalog, alone)

    is_paper = group == "paper"
    return Contender(name, XR_LINEAR, title, asdict(alone), recipe, group, is_paper=is_paper)


def list_dssms(benchmark: Benchmark, *, is_quick: bool) -> list[Contender]:
    """List DSSM, trained once: exact, by the paper's graph, and by a byte per dimension."""
    config, catalog = make_dssm_config(benchmark, is_quick=is_quick), benchmark.catalog
    threads = benchmark.config.learn.threads
    settings = asdict(config)

    def recipe(_: Path) -> Matcher:
        if catalog is None:
            raise ValueError(NO_CATALOG)
        return train_dssm(benchmark.train, catalog, config, threads=threads)

    def build_graph(models: Path) -> Matcher:
        return DSSM.load(models / EXACT).with_hnsw(threads=count_threads(threads))

    def scan(dimensions: int | None) -> Callable[[Path], Matcher]:
        return lambda models: DSSM.load(models / EXACT).with_int8(dimensions)

    options: dict[str, Any] = {"absent": why_no_dssm(benchmark), "is_stored": True}
    options |= {"is_paper": True}
    varied = {**options, "needs": (EXACT,)}
    graph = {**settings, "graph": (CONNECTIVITY, EXPANSION_ADD, EXPANSION_SEARCH)}
    whole, few = ({**settings, "int8": size} for size in (config.dimensions, FEW_DIMENSIONS))
    title = f"{find_kind(INT8).label}, {FEW_DIMENSIONS} dimensions"
    return [
        of_kind(EXACT, settings, recipe, **options),
        of_kind(GRAPH, graph, build_graph, **varied),
        of_kind(INT8, whole, scan(None), **varied),
        Contender(SMALL_INT8, INT8, title, few, scan(FEW_DIMENSIONS), **varied),
    ]


def make_dssm_config(benchmark: Benchmark, *, is_quick: bool) -> DSSMConfig:
    """Return the default configuration, with the same pairs as every other contender."""
    ours = benchmark.config
    shared: dict[str, Any] = {
        "events": ours.events,
        "min_count": ours.min_count,
        "min_query_count": ours.min_query_count,
        "seed": ours.learn.seed,
    }
    return DSSMConfig(**shared, epochs=QUICK_EPOCHS if is_quick else DSSMConfig().epochs)


def why_no_dssm(benchmark: Benchmark) -> str:
    """Return why DSSM cannot run on this benchmark; empty if it can."""
    if benchmark.catalog is None:
        return NO_CATALOG
    indices = benchmark.catalog.ids.index_of(benchmark.pairs.products)
    if not benchmark.catalog.titles.lengths[indices[indices >= 0]].any():
        return NO_TITLE
    has_extra = all(find_spec(name) is not None for name in ("torch", "usearch"))
    return "" if has_extra else f"needs PyTorch and usearch: {install_command('dssm')}"
