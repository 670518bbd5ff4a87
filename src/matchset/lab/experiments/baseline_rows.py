"""Baselines: how are the known methods trained that we are compared with?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from matchset.config import LearnConfig, TrainConfig, count_threads
from matchset.data.catalog import Catalog
from matchset.errors import install_command
from matchset.features.analysis import choose_language
from matchset.lab.dssm.exact import DSSM
from matchset.lab.dssm.hnsw import DEFAULT_GRAPH, DSSMWithHNSW
from matchset.lab.dssm.int8 import DSSMWithInt8
from matchset.lab.dssm.settings import DSSMConfig
from matchset.lab.dssm.training import train_dssm
from matchset.lab.experiments.benchmark import Benchmark
from matchset.lab.experiments.contender import NO_CATALOG, Contender, of_kind
from matchset.lab.experiments.findings import Group
from matchset.lab.experiments.outsiders import ENCODER, Outside, make_encoder, make_pecos
from matchset.lab.experiments.vocabularies import (
    BIGRAMS,
    MORE_BIGRAMS,
    TRIGRAMS,
    UNIGRAMS,
    Vocabularies,
)
from matchset.matchers.base import Matcher
from matchset.matchers.bm25 import (
    BM25,
    K1,
    PAST_B,
    PAST_K1,
    STEMMED_B,
    STEMMED_K1,
    TITLE_WEIGHT,
    B,
)
from matchset.matchers.nearest_queries import NEIGHBORS, POWER, NearestQueries
from matchset.matchers.popularity import Popularity
from matchset.matchers.registry import XR_LINEAR, find_kind, list_kinds
from matchset.matchers.title_similarity import TitleSimilarity
from matchset.matchers.train import train
from matchset.text import normalize_strings

LEXICAL, STEMMED, EXPANDED = BM25.kind, "bm25_stemmed", "bm25_past_queries"
EXACT, GRAPH, INT8 = DSSM.kind, DSSMWithHNSW.kind, DSSMWithInt8.kind
FEW_DIMENSIONS = 64
SMALL_INT8 = f"{INT8}_{FEW_DIMENSIONS}"
FLOOR = Popularity.kind  # ignores the query: nothing should find less
PAPER = {  # XR-Linear as the paper trains it; V is a number of n-grams, see `vocabularies`
    UNIGRAMS: "unigrams (V)",
    BIGRAMS: "bigrams (V)",
    MORE_BIGRAMS: "bigrams (1.9\u00a0V)",
    TRIGRAMS: "trigrams (1.4\u00a0V)",
}
NO_LANGUAGE = "needs titles of one language, or --language"
NO_TITLE = "needs a title in --catalog of at least one product that a training query led to"
QUICK_EPOCHS = 2
NOTHING_OUTSIDE = Outside()


def list_baselines(
    benchmark: Benchmark,
    vocabularies: Vocabularies,
    outside: Outside = NOTHING_OUTSIDE,
    *,
    is_quick: bool = False,
) -> list[Contender]:
    """The known methods in the order of the registry, XR-Linear also as the paper trains it."""
    baselines: list[Contender] = []
    for kind in list_kinds():
        if kind == XR_LINEAR:
            baselines += [_make_tree(benchmark), *_papers(benchmark, vocabularies)]
            baselines.append(make_pecos(benchmark, outside.pecos))
        elif kind == EXACT:
            baselines += _make_dssms(benchmark, is_quick=is_quick)
        elif kind == ENCODER:
            baselines.append(make_encoder(benchmark, outside.encoder))
        elif kind in BASELINES:
            baselines.append(BASELINES[kind](benchmark))
        if kind == LEXICAL:
            baselines += [_make_stemmed_bm25(benchmark), _make_expanded_bm25(benchmark)]
    return baselines


def _make_tree(benchmark: Benchmark) -> Contender:
    """XR-Linear by our recipe: the tree alone, which then learns from titles itself."""
    uses_titles = benchmark.catalog is not None and benchmark.config.titles == "instances"
    taught_by = "queries and titles" if uses_titles else "queries"
    title = f"{find_kind(XR_LINEAR).label} ({taught_by})"
    return _make_xr_linear(XR_LINEAR, title, benchmark.config, benchmark)


def _papers(benchmark: Benchmark, vocabularies: Vocabularies) -> list[Contender]:
    """XR-Linear as the paper has it: trained on queries alone, with a limited vocabulary.

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

    return Contender(name, XR_LINEAR, title, asdict(alone), recipe, group)


def _make_dssms(benchmark: Benchmark, *, is_quick: bool) -> list[Contender]:
    """DSSM, trained once: exact search, the paper's graph, and scans of a byte per dimension."""
    config, catalog = make_dssm_config(benchmark, is_quick=is_quick), benchmark.catalog
    threads = benchmark.config.learn.threads
    settings, absent = asdict(config), why_no_dssm(benchmark)

    def recipe(_: Path) -> Matcher:
        return train_dssm(benchmark.train, _require(catalog), config, threads=threads)

    def build_graph(models: Path) -> Matcher:
        return DSSM.load(models / EXACT).with_hnsw(threads=count_threads(threads))

    def scan(dimensions: int | None) -> Callable[[Path], Matcher]:
        return lambda models: DSSM.load(models / EXACT).with_int8(dimensions)

    made: dict[str, Any] = {"needs": (EXACT,), "absent": absent}
    graph = {**settings, "graph": asdict(DEFAULT_GRAPH)}
    whole, few = ({**settings, "int8": size} for size in (config.dimensions, FEW_DIMENSIONS))
    title = f"{find_kind(INT8).label}, {FEW_DIMENSIONS} dimensions"
    return [
        of_kind(EXACT, settings, recipe, is_stored=True, absent=absent),
        of_kind(GRAPH, graph, build_graph, is_stored=True, **made),
        of_kind(INT8, whole, scan(None), is_stored=True, **made),
        Contender(SMALL_INT8, INT8, title, few, scan(FEW_DIMENSIONS), is_stored=True, **made),
    ]


def make_dssm_config(benchmark: Benchmark, *, is_quick: bool) -> DSSMConfig:
    """The default configuration, with the same pairs as every other contender."""
    ours = benchmark.config
    shared: dict[str, Any] = {
        "events": ours.events,
        "min_count": ours.min_count,
        "min_query_count": ours.min_query_count,
        "seed": ours.learn.seed,
    }
    return DSSMConfig(**shared, epochs=QUICK_EPOCHS if is_quick else DSSMConfig().epochs)


def why_no_dssm(benchmark: Benchmark) -> str:
    """Why DSSM cannot run on this benchmark; empty if it can."""
    if benchmark.catalog is None:
        return NO_CATALOG
    indices = benchmark.catalog.ids.index_of(benchmark.pairs.products)
    if not benchmark.catalog.titles.lengths[indices[indices >= 0]].any():
        return NO_TITLE
    has_extra = all(find_spec(name) is not None for name in ("torch", "usearch"))
    return "" if has_extra else f"needs PyTorch and usearch: {install_command('dssm')}"


def _make_bm25(benchmark: Benchmark) -> Contender:
    def recipe(_: Path) -> Matcher:
        return BM25.from_catalog(_require(benchmark.catalog))

    absent = NO_CATALOG if benchmark.catalog is None else ""
    return of_kind(BM25.kind, {"k1": K1, "b": B}, recipe, is_stored=True, absent=absent)


def _make_stemmed_bm25(benchmark: Benchmark) -> Contender:
    """BM25 over stems with the usual parameters: what a search engine does out of the box."""
    language = _choose_language(benchmark)
    config: dict[str, Any] = {"k1": STEMMED_K1, "b": STEMMED_B, "language": language}

    def recipe(_: Path) -> Matcher:
        return BM25.from_catalog(_require(benchmark.catalog), **config)

    absent = NO_CATALOG if benchmark.catalog is None else "" if language else NO_LANGUAGE
    title = f"{find_kind(BM25.kind).label}, stemmed"
    return Contender(STEMMED, BM25.kind, title, config, recipe, is_stored=True, absent=absent)


def _make_expanded_bm25(benchmark: Benchmark) -> Contender:
    """BM25 over titles and the past queries of each product: what a log gives a search engine."""
    ours, language = benchmark.config, _choose_language(benchmark)
    config: dict[str, Any] = {
        "k1": PAST_K1,
        "b": PAST_B,
        "title_weight": TITLE_WEIGHT,
        "language": language,
        "events": ours.events,
        "min_count": ours.min_count,
        "min_query_count": ours.min_query_count,
    }

    def recipe(_: Path) -> Matcher:
        return BM25.from_log(benchmark.train, _require(benchmark.catalog), **config)

    absent = NO_CATALOG if benchmark.catalog is None else ""
    title = f"{find_kind(BM25.kind).label}, titles and past queries"
    return Contender(EXPANDED, BM25.kind, title, config, recipe, is_stored=True, absent=absent)


def _choose_language(benchmark: Benchmark) -> str | None:
    """The language of the titles, unless the configuration names one."""
    if benchmark.catalog is None:
        return None
    return choose_language(benchmark.config.language, [normalize_strings(benchmark.catalog.titles)])


def _make_title_similarity(benchmark: Benchmark) -> Contender:
    language = _choose_language(benchmark)

    def recipe(_: Path) -> Matcher:
        return TitleSimilarity.from_catalog(_require(benchmark.catalog), language=language)

    absent = NO_CATALOG if benchmark.catalog is None else ""
    return of_kind(TitleSimilarity.kind, {"language": language}, recipe, absent=absent)


def _make_nearest_queries(benchmark: Benchmark) -> Contender:
    def recipe(_: Path) -> Matcher:
        return NearestQueries.from_positives(benchmark.pairs, catalog=benchmark.catalog)

    return of_kind(NearestQueries.kind, {"neighbors": NEIGHBORS, "power": POWER}, recipe)


def _make_popularity(benchmark: Benchmark) -> Contender:
    def recipe(_: Path) -> Matcher:
        return Popularity.from_positives(benchmark.pairs, benchmark.catalog)

    return of_kind(Popularity.kind, {}, recipe)


BASELINES: Mapping[str, Callable[[Benchmark], Contender]] = {
    BM25.kind: _make_bm25,
    TitleSimilarity.kind: _make_title_similarity,
    NearestQueries.kind: _make_nearest_queries,
    Popularity.kind: _make_popularity,
}


def _require(catalog: Catalog | None) -> Catalog:
    """The catalog; without one, contenders that need titles are absent."""
    if catalog is None:
        raise ValueError(NO_CATALOG)
    return catalog
