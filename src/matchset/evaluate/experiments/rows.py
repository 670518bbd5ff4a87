"""Rows: which matchers stand in the table, and how is each made?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from matchset.config import LearnConfig, TrainConfig
from matchset.data.catalog import Catalog
from matchset.evaluate.experiments.digest import make_digest
from matchset.evaluate.experiments.problem import Problem
from matchset.evaluate.experiments.vocabularies import Vocabularies
from matchset.matchers.bm25 import BM25, K1, B
from matchset.matchers.nearest_queries import NEIGHBORS, POWER, NearestQueries
from matchset.matchers.popularity import Popularity
from matchset.matchers.title_similarity import TitleSimilarity
from matchset.matchers.train import train
from matchset.matchers.tree_matcher import TreeMatcher

OURS, LEXICAL = "matchset", "bm25"
NO_CATALOG = "needs titles: give --catalog"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    name: str  # for --rows, and of what is kept
    title: str  # for people
    config: Mapping[str, Any]  # what makes it what it is; a change makes it another row
    learn: Callable[[Path], Any] = field(compare=False)  # given the folder of kept models
    load: Callable[[Path], Any] | None = field(default=None, compare=False)  # if it is kept
    needs: tuple[str, ...] = ()  # rows whose models it is made of
    absent: str = ""  # why it cannot be made, and how it could

    def digest(self, problem: Problem, *measured: Any) -> str:
        """Of data, configuration and how it is measured."""
        return make_digest(problem.digest, self.name, dict(self.config), *measured)


def list_rows(problem: Problem, vocabularies: Vocabularies) -> list[Row]:
    """All rows, in the order of the table."""
    return [
        _ours(problem),
        *_paper_rows(problem, vocabularies),
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
    """XR-Linear as the paper has it: queries alone teach, with fewer n-grams than there are."""
    titles = {
        "unigrams": "XR-Linear, unigrams (V)",
        "bigrams": "XR-Linear, bigrams (V)",
        "more-bigrams": "XR-Linear, bigrams (1.9 V)",
        "trigrams": "XR-Linear, trigrams (1.4 V)",
    }
    learn = replace(problem.config.learn, pifa_entries=LearnConfig().pifa_entries)
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
        Row(LEXICAL, "BM25", {"k1": K1, "b": B}, _give_up, BM25.load, absent=NO_CATALOG),
        Row("title-similarity", "Title similarity", {}, _give_up, absent=NO_CATALOG),
    ]
    if catalog is None:
        return rows
    makers = (lambda _: BM25.learn(catalog), lambda _: TitleSimilarity.learn(catalog))
    return [replace(row, learn=learn, absent="") for row, learn in zip(rows, makers, strict=True)]


def _give_up(_: Path) -> Any:
    raise ValueError("a row that is absent cannot be made")


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
