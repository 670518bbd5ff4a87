"""Rows: which matchers stand in the table, and how is each made?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from matchset.config import LearnConfig, TrainConfig
from matchset.data.catalog import Catalog
from matchset.evaluate.experiments.neural import list_dssm_rows
from matchset.evaluate.experiments.problem import Problem
from matchset.evaluate.experiments.row import NO_CATALOG, Row, give_up
from matchset.evaluate.experiments.vocabularies import Vocabularies
from matchset.matchers.bm25 import BM25, K1, B
from matchset.matchers.nearest_queries import NEIGHBORS, POWER, NearestQueries
from matchset.matchers.popularity import Popularity
from matchset.matchers.title_similarity import TitleSimilarity
from matchset.matchers.train import train
from matchset.matchers.tree_matcher import TreeMatcher

OURS, LEXICAL = "matchset", "bm25"
# All but those of a neural network, which take minutes.
FAST = (
    OURS,
    "unigrams",
    "bigrams",
    "more-bigrams",
    "trigrams",
    LEXICAL,
    "title-similarity",
    "nearest-queries",
    "popularity",
)


def list_rows(problem: Problem, vocabularies: Vocabularies, *, is_quick: bool = False) -> list[Row]:
    """All rows, in the order of the table; one comes after those that it is made of."""
    return [
        _ours(problem),
        *_paper_rows(problem, vocabularies),
        *list_dssm_rows(problem, is_quick=is_quick),
        *_lexical_rows(problem.catalog),
        *_other_rows(problem),
    ]


def choose_rows(rows: Sequence[Row], names: Iterable[str] | None) -> list[Row]:
    """Those that are named, and what they are made of; all of them if none is named."""
    known = {row.name: row for row in rows}
    if names is None:
        return list(rows)
    wanted: set[str] = set()
    for name in names:
        if name not in known:
            raise ValueError(f"rows must be of {', '.join(known)}; got {name!r}")
        wanted |= {name, *known[name].needs}
    return [row for row in rows if row.name in wanted]


def _ours(problem: Problem) -> Row:
    teaches = problem.catalog is not None and problem.config.titles == "instances"
    title = "matchset: queries and titles" if teaches else "matchset: queries"
    return _tree_row(OURS, title, problem.config, problem, load=TreeMatcher.load)


def _paper_rows(problem: Problem, vocabularies: Vocabularies) -> list[Row]:
    """XR-Linear as the paper has it: queries alone teach, with fewer n-grams than there are.

    Leaves hold at most 100 products, as there; product vectors are ours, which find more.
    """
    titles = {
        "unigrams": "XR-Linear, unigrams (V)",
        "bigrams": "XR-Linear, bigrams (V)",
        "more-bigrams": "XR-Linear, bigrams (1.9\u00a0V)",
        "trigrams": "XR-Linear, trigrams (1.4\u00a0V)",
    }
    usual = LearnConfig()
    learn = replace(problem.config.learn, pifa_entries=usual.pifa_entries, max_leaf=usual.max_leaf)
    rows = []
    for name, title in titles.items():
        config = replace(
            problem.config, titles="none", vectorizer=vocabularies.configs[name], learn=learn
        )
        rows.append(_tree_row(name, title, config, problem))
    return rows


def _tree_row(name: str, title: str, config: TrainConfig, problem: Problem, **options: Any) -> Row:
    def learn(_: Path) -> TreeMatcher:
        return train(problem.train, problem.catalog, config)

    return Row(name, title, asdict(config), learn, **options)


def _lexical_rows(catalog: Catalog | None) -> list[Row]:
    rows = [
        Row(LEXICAL, "BM25", {"k1": K1, "b": B}, give_up, BM25.load, absent=NO_CATALOG),
        Row("title-similarity", "Title similarity", {}, give_up, absent=NO_CATALOG),
    ]
    if catalog is None:
        return rows
    makers = (lambda _: BM25.learn(catalog), lambda _: TitleSimilarity.learn(catalog))
    return [replace(row, learn=learn, absent="") for row, learn in zip(rows, makers, strict=True)]


def _other_rows(problem: Problem) -> list[Row]:
    def learn_nearest(_: Path) -> NearestQueries:
        return NearestQueries.learn(problem.pairs, catalog=problem.catalog)

    def learn_popularity(_: Path) -> Popularity:
        return Popularity.learn(problem.pairs, problem.catalog)

    rule = {"neighbors": NEIGHBORS, "power": POWER}
    return [
        Row("nearest-queries", "Nearest queries", rule, learn_nearest),
        Row("popularity", "Popularity", {}, learn_popularity),
    ]
