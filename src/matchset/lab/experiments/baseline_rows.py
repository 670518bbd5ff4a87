"""Baselines: how are the known methods trained that we are compared with?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from matchset.data.catalog import Catalog
from matchset.errors import install_command
from matchset.features.analysis import choose_language
from matchset.lab.dssm.hnsw import CONNECTIVITY, EXPANSION_ADD, EXPANSION_SEARCH
from matchset.lab.dssm.sentence_encoder import EXTRA, SentenceEncoder, digest_folder
from matchset.lab.experiments.benchmark import Benchmark
from matchset.lab.experiments.contender import NO_CATALOG, Contender, of_kind
from matchset.lab.experiments.paper_rows import EXACT, list_dssms, list_paper_trees, make_tree
from matchset.lab.experiments.vocabularies import Vocabularies
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
from matchset.text import normalize_strings

LEXICAL, STEMMED, EXPANDED = BM25.kind, "bm25_stemmed", "bm25_past_queries"
ENCODER = SentenceEncoder.kind
FLOOR = Popularity.kind  # ignores the query: nothing should find less
NO_LANGUAGE = "needs titles of one language, or the setting language"
NO_ENCODER = "needs a folder of sentence-transformers: give --encoder"


def list_baselines(
    benchmark: Benchmark,
    vocabularies: Vocabularies,
    encoder: Path | None = None,
    *,
    is_quick: bool = False,
) -> list[Contender]:
    """List the known methods in the order of the registry, XR-Linear also as in the paper."""
    baselines: list[Contender] = []
    for kind in list_kinds():
        if kind == XR_LINEAR:
            baselines += [make_tree(benchmark), *list_paper_trees(benchmark, vocabularies)]
        elif kind == EXACT:
            baselines += list_dssms(benchmark, is_quick=is_quick)
        elif kind == ENCODER:
            baselines.append(make_encoder(benchmark, encoder))
        elif kind in BASELINES:
            baselines.append(BASELINES[kind](benchmark))
        if kind == LEXICAL:
            baselines += [_make_stemmed_bm25(benchmark), _make_expanded_bm25(benchmark)]
    return baselines


def make_encoder(benchmark: Benchmark, folder: Path | None) -> Contender:
    """Make a ready sentence encoder, which learns nothing from the log: the paper's BERT."""

    def recipe(_: Path) -> Matcher:
        if folder is None:
            raise ValueError(NO_ENCODER)
        threads = benchmark.config.learn.threads
        return SentenceEncoder.from_catalog(_require(benchmark.catalog), folder, threads=threads)

    config: dict[str, Any] = {"graph": (CONNECTIVITY, EXPANSION_ADD, EXPANSION_SEARCH)}
    if folder is not None:
        config["encoder"] = digest_folder(folder)
    note = "" if folder is None else f"the encoder is {folder.name}; disk does not count it"
    absent = _why_no_encoder(benchmark, folder)
    return of_kind(ENCODER, config, recipe, is_stored=True, absent=absent, note=note)


def _why_no_encoder(benchmark: Benchmark, folder: Path | None) -> str:
    if benchmark.catalog is None:
        return NO_CATALOG
    if folder is None:
        return NO_ENCODER
    has_extra = all(find_spec(name) is not None for name in ("sentence_transformers", "usearch"))
    needed = f"needs sentence-transformers and usearch: {install_command(EXTRA)}"
    return "" if has_extra else needed


def _make_bm25(benchmark: Benchmark) -> Contender:
    def recipe(_: Path) -> Matcher:
        return BM25.from_catalog(_require(benchmark.catalog))

    absent = NO_CATALOG if benchmark.catalog is None else ""
    return of_kind(BM25.kind, {"k1": K1, "b": B}, recipe, is_stored=True, absent=absent)


def _make_stemmed_bm25(benchmark: Benchmark) -> Contender:
    """Make BM25 over stems, with usual parameters: what a search engine does out of the box."""
    language = _choose_language(benchmark)
    config: dict[str, Any] = {"k1": STEMMED_K1, "b": STEMMED_B, "language": language}

    def recipe(_: Path) -> Matcher:
        return BM25.from_catalog(_require(benchmark.catalog), **config)

    absent = NO_CATALOG if benchmark.catalog is None else "" if language else NO_LANGUAGE
    title = f"{find_kind(BM25.kind).label}, stemmed"
    return Contender(STEMMED, BM25.kind, title, config, recipe, is_stored=True, absent=absent)


def _make_expanded_bm25(benchmark: Benchmark) -> Contender:
    """Make BM25 over titles and past queries of products: what a log gives a search engine."""
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
    """Return the language of the titles, unless the configuration names one."""
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
    """Return the catalog; a contender that needs titles is absent without one."""
    if catalog is None:
        raise ValueError(NO_CATALOG)
    return catalog
