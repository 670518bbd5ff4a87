"""Splits: what is each problem trained on, and which answers are right in its test?

Shops (shop-N, market-N) are split by their last month, Home Depot (homedepot-0 to -4) by query,
cooking as usual. Of a folder with train.csv, test.csv and products.csv (nfcorpus, esco_fr,
crowdflower, lastfm) both sides are read as they are; the tests of the last two hold new pairs
alone, so answers that training has for the same query are taken out of a ranking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from problems import RELEVANT, read_cooking
from titles import read_homedepot

import matchset as ms
from matchset.baselines import BM25, NearestQueries, TitleSimilarity
from matchset.data.positives import Positives, relevance
from matchset.strings import Strings

NEW_PAIRS = ("crowdflower", "lastfm")
QUERIES = {"shop-50000": 200_000}  # otherwise the default of the simulation
DEPTH = 300  # asked for where known answers are taken out of a ranking

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Queries and products by their numbers in a problem; one key for each pair."""

    query: Integers
    product: Integers
    n_products: int

    @property
    def key(self) -> Integers:
        """One number a pair."""
        return self.query * self.n_products + self.product

    def select(self, mask: NDArray[np.bool_]) -> Pairs:
        """Some of the pairs."""
        return Pairs(self.query[mask], self.product[mask], self.n_products)


@dataclass(frozen=True, eq=False)
class Ranking(Pairs):
    """The answers to queries, best first."""

    score: Floats
    rank: Integers


@dataclass(frozen=True, eq=False)
class Problem:
    """Both sides of a split. Rankings are of `queries`, products numbered as in `ids`."""

    name: str
    train: ms.Log
    test: Positives
    catalog: ms.Catalog | None
    config: ms.TrainConfig

    @cached_property
    def known(self) -> Positives:
        """What training counts as an answer."""
        return ms.positives(self.train, events=self.config.events, min_count=self.config.min_count)

    @cached_property
    def ids(self) -> Strings:
        """Every product of the catalog and of both sides."""
        given = [] if self.catalog is None else [self.catalog.ids]
        every = Strings.concatenate([*given, self.known.products, self.test.products])
        return every.take(every.factorize()[1])

    @cached_property
    def is_warm(self) -> NDArray[np.bool_]:
        """Which products have a positive in training."""
        found = np.zeros(len(self.ids), dtype=bool)
        found[self.ids.index_of(self.known.products)] = True
        return found

    def is_known(self, queries: Strings) -> NDArray[np.bool_]:
        """Which queries have a positive in training."""
        return self.known.queries.index_of(queries) >= 0

    def known_pairs(self, queries: Strings) -> Pairs:
        """The answers that training has for these queries."""
        return self.number(self.known, queries)

    def taken_out(self, queries: Strings) -> Pairs | None:
        """What a ranking must not hold: nothing, unless the test is of new pairs alone."""
        return self.known_pairs(queries) if self.name in NEW_PAIRS else None

    def number(self, answers: Positives, queries: Strings) -> Pairs:
        """The pairs of those among the answers that are of these queries."""
        of_query, of_product = (
            queries.index_of(answers.queries),
            self.ids.index_of(answers.products),
        )
        pairs = answers.pairs.tocoo()
        found = Pairs(of_query[pairs.row], of_product[pairs.col], len(self.ids))
        return found.select((found.query >= 0) & (found.product >= 0))

    def rank(
        self,
        matcher: ms.Matcher,
        queries: Iterable[str],
        k: int = 100,
        *,
        without: Pairs | None = None,
    ) -> Ranking:
        """The first k answers to queries, not counting some pairs."""
        found = matcher.match(list(queries), k if without is None else DEPTH).found
        query = np.repeat(np.arange(len(found)), np.diff(found.indptr))
        product = self.ids.index_of(matcher.products.ids)[found.indices]
        score, n = found.data.astype(np.float64), len(self.ids)
        if without is not None:
            kept = ~np.isin(query * n + product, without.key)
            query, product, score = query[kept], product[kept], score[kept]
        rank = np.arange(len(query)) - np.searchsorted(query, query)
        near = rank < k
        return Ranking(query[near], product[near], n, score[near], rank[near])


def recall(ranking: Ranking, right: Pairs, n_queries: int, k: int) -> Floats:
    """The share of the right products among the first k, NaN for queries without any."""
    is_hit = np.isin(right.key, ranking.key[ranking.rank < k])
    hits, all_ = (np.bincount(q, minlength=n_queries) for q in (right.query[is_hit], right.query))
    with np.errstate(invalid="ignore"):
        return hits / all_


def choose(n: int, most: int) -> Integers:
    """Some of n places, by chance, in order."""
    return np.sort(np.random.default_rng(0).permutation(n)[:most])


def read_problem(name: str, real: Path | None) -> Problem:
    """Training log, relevant products of the test, catalog and settings."""
    kind, _, number = name.partition("-")
    if kind in ("shop", "market"):
        full = {"shop": "shop", "market": "marketplace"}[kind]
        shop = ms.lab.simulate_shop(kind=full, products=int(number), queries=QUERIES.get(name))
        train, test = ms.split_by_time(shop.log, test_days=30)
        return Problem(name, train, relevance(test), shop.catalog, ms.TrainConfig())
    if real is None:
        raise SystemExit(f"{name}: needs --real, the folder of the data sets")
    if kind == "homedepot":
        train, test, catalog = list(read_homedepot(real))[int(number)]
        return Problem(name, train, test, catalog, ms.TrainConfig(min_count=RELEVANT))
    if kind == "cooking":
        train, test = read_cooking(real / "cooking")
        return Problem(name, train, ms.positives(test), None, ms.TrainConfig())
    return read_folder(real / name)


def read_folder(folder: Path) -> Problem:
    """A problem that is already split."""
    sides = [ms.read_log(str(folder / f"{side}.csv")) for side in ("train", "test")]
    catalog = ms.read_catalog(str(folder / "products.csv"))
    return Problem(folder.name, sides[0], ms.positives(sides[1]), catalog, ms.TrainConfig())


def train(problem: Problem, models: Path | None, name: str | None = None) -> ms.MatchSet:
    """The match set of a problem: read from a folder of models, or trained (and kept there).

    It is a copy that has no folder, so that nothing that is added to it is kept.
    """
    folder = None if models is None else models / (name or problem.name)
    if folder is not None and folder.exists():
        return replace(ms.load(folder))
    matcher = ms.train(problem.train, problem.catalog, problem.config)
    if folder is not None:
        replace(matcher).save(folder)
    return matcher


def list_others(problem: Problem, matcher: ms.MatchSet) -> dict[str, Callable[[], ms.Matcher]]:
    """How to make the other methods; those that need titles only where there are some."""
    log, catalog, config = problem.train, problem.catalog, problem.config
    found: dict[str, Callable[[], ms.Matcher]] = {
        "tree alone": lambda: matcher.only(["tree"]),
        "tree alone, its own scores": lambda: matcher.part("tree"),
        "nearest queries": lambda: NearestQueries.from_positives(problem.known),
    }
    if catalog is None:
        return found
    return found | {
        "BM25, stemmed": lambda: make_bm25(catalog),
        "BM25, titles and past queries": lambda: BM25.from_log(
            log, catalog, events=config.events, min_count=config.min_count
        ),
        "title similarity": lambda: TitleSimilarity.from_catalog(catalog, language="auto"),
    }


def make_bm25(catalog: ms.Catalog) -> BM25:
    """BM25 over stemmed titles with the usual parameters."""
    return BM25.from_catalog(catalog, k1=1.2, b=0.75, language="auto")
