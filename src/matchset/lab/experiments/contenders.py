"""Row: what is one line of the table, and what makes it another line?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from matchset.config import LearnConfig, TrainConfig, count_threads
from matchset.data.catalog import Catalog
from matchset.lab.dssm.exact import DSSM
from matchset.lab.dssm.hnsw import DEFAULT_GRAPH, DSSMWithHNSW
from matchset.lab.dssm.settings import DSSMConfig
from matchset.lab.dssm.train import train_dssm
from matchset.lab.experiments.benchmark import Problem
from matchset.lab.experiments.store import make_digest
from matchset.lab.experiments.vocabularies import Vocabularies
from matchset.matchers.bm25 import BM25, K1, B
from matchset.matchers.nearest_queries import NEIGHBORS, POWER, NearestQueries
from matchset.matchers.popularity import Popularity
from matchset.matchers.title_similarity import TitleSimilarity
from matchset.matchers.train import train
from matchset.matchers.xr_linear import XRLinearMatcher

FORMAT = 1  # of a kept row
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
        made_by = (FORMAT, version("matchset"))
        return make_digest(made_by, problem.digest, self.name, dict(self.config), *measured)


def give_up(_: Path) -> Any:
    """Refuse to make a row that is absent."""
    raise ValueError("a row that is absent cannot be made")


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
    places = problem.catalog.ids.index_of(problem.pairs.products)
    if not problem.catalog.titles.lengths[places[places >= 0]].any():
        return NO_TITLE
    has_extra = all(find_spec(name) is not None for name in ("torch", "usearch"))
    return "" if has_extra else NO_EXTRA


def make_config(problem: Problem, *, is_quick: bool) -> DSSMConfig:
    """The usual configuration, with the same pairs as every other row."""
    ours = problem.config
    shared: dict[str, Any] = {
        "events": ours.events,
        "min_count": ours.min_count,
        "min_query_count": ours.min_query_count,
        "seed": ours.learn.seed,
    }
    return DSSMConfig(**shared, epochs=QUICK_EPOCHS if is_quick else DSSMConfig().epochs)


OURS: str = "matchset"
LEXICAL: str = "bm25"
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
    return _tree_row(OURS, title, problem.config, problem, load=XRLinearMatcher.load)


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
    learn = replace(
        problem.config.learn,
        pifa_max_entries=usual.pifa_max_entries,
        max_leaf_size=usual.max_leaf_size,
    )
    rows = []
    for name, title in titles.items():
        config = replace(
            problem.config, titles="none", vectorizer=vocabularies.configs[name], learn=learn
        )
        rows.append(_tree_row(name, title, config, problem))
    return rows


def _tree_row(name: str, title: str, config: TrainConfig, problem: Problem, **options: Any) -> Row:
    def learn(_: Path) -> XRLinearMatcher:
        return train(problem.train, problem.catalog, config)

    return Row(name, title, asdict(config), learn, **options)


def _lexical_rows(catalog: Catalog | None) -> list[Row]:
    rows = [
        Row(LEXICAL, "BM25", {"k1": K1, "b": B}, give_up, BM25.load, absent=NO_CATALOG),
        Row("title-similarity", "Title similarity", {}, give_up, absent=NO_CATALOG),
    ]
    if catalog is None:
        return rows
    makers = (lambda _: BM25.from_catalog(catalog), lambda _: TitleSimilarity.from_catalog(catalog))
    return [replace(row, learn=learn, absent="") for row, learn in zip(rows, makers, strict=True)]


def _other_rows(problem: Problem) -> list[Row]:
    def learn_nearest(_: Path) -> NearestQueries:
        return NearestQueries.from_log(problem.pairs, catalog=problem.catalog)

    def learn_popularity(_: Path) -> Popularity:
        return Popularity.from_log(problem.pairs, problem.catalog)

    rule = {"neighbors": NEIGHBORS, "power": POWER}
    return [
        Row("nearest-queries", "Nearest queries", rule, learn_nearest),
        Row("popularity", "Popularity", {}, learn_popularity),
    ]
