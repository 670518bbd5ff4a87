"""Examples: which test queries does the report show side by side?

Only queries that may be shown: some where our match set finds more than another matcher and some
where it finds less, with the largest differences, and some chosen at random.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Catalog
from matchset.lab.experiments.baseline_rows import LEXICAL, STEMMED
from matchset.lab.experiments.benchmark import Benchmark
from matchset.lab.experiments.findings import OURS, Answer, Example
from matchset.lab.experiments.paper_rows import GRAPH
from matchset.lab.experiments.store import Measurement
from matchset.matchers.nearest_queries import NearestQueries
from matchset.matchers.registry import XR_LINEAR
from matchset.matchers.title_similarity import TitleSimilarity
from matchset.strings import Strings

SHOWN = (STEMMED, LEXICAL, TitleSimilarity.kind, GRAPH, NearestQueries.kind, XR_LINEAR)
EACH = 3  # examples of each kind
COLUMNS = 6  # matchers beside each other, at most


def choose_examples(
    benchmark: Benchmark, results: Mapping[str, Measurement], opponent: str | None
) -> tuple[Example, ...]:
    """Choose queries by kind of example, with the answers of some contenders.

    Kinds are by what ours finds compared with the opponent.
    """
    indices = benchmark.examples()
    if OURS not in results or opponent is None or len(indices) == 0:
        return ()
    ours, theirs = (_count_found(benchmark, results[name]) for name in (OURS, opponent))
    kinds = _choose(
        ours - theirs, benchmark.qrels.traffic[indices], seed=benchmark.config.learn.seed
    )
    columns = [OURS, opponent, *(name for name in SHOWN if name in results and name != opponent)]
    return tuple(
        _describe(kind, int(example), benchmark, results, columns[:COLUMNS])
        for kind, chosen in kinds.items()
        for example in chosen
    )


def _choose(
    gains: NDArray[np.int64], traffic: NDArray[np.float64], *, seed: int
) -> dict[str, NDArray[np.int64]]:
    """Choose examples by kind; of equal gains the more frequent query comes first."""
    order = np.lexsort([-traffic, -gains])
    wins = [example for example in order if gains[example] > 0][:EACH]
    order = np.lexsort([-traffic, gains])
    losses = [example for example in order if gains[example] < 0][:EACH]
    rng = np.random.default_rng([seed, 12])
    others = [example for example in rng.permutation(len(gains)) if example not in {*wins, *losses}]
    return {"wins": np.array(wins), "loses": np.array(losses), "random": np.array(others[:EACH])}


def _count_found(benchmark: Benchmark, result: Measurement) -> NDArray[np.int64]:
    """Count the relevant products among the answers to each example."""
    examples = zip(benchmark.examples(), result.answers, strict=True)
    return np.array([len(_relevant(benchmark, int(query)) & set(ids)) for query, ids in examples])


def _relevant(benchmark: Benchmark, query: int) -> set[str]:
    qrels = benchmark.qrels
    begin, end = np.searchsorted(qrels.row, [query, query + 1])
    return set(qrels.products.take(qrels.product[begin:end]))


def _find_titles(ids: list[str], catalog: Catalog | None) -> list[str]:
    """Find the titles of products, or their ids if they have none."""
    if catalog is None:
        return ids
    indices = catalog.ids.index_of(Strings.of(ids)).tolist()
    titles = (catalog.titles[index] if index >= 0 else "" for index in indices)
    return [title or product for title, product in zip(titles, ids, strict=True)]


def _describe(
    kind: str,
    example: int,
    benchmark: Benchmark,
    results: Mapping[str, Measurement],
    columns: list[str],
) -> Example:
    query = int(benchmark.examples()[example])
    relevant = _relevant(benchmark, query)
    answers = {}
    for name in columns:
        ids = list(results[name].answers[example])
        titles = _find_titles(ids, benchmark.catalog)
        answers[name] = tuple(
            Answer(product, title, product in relevant)
            for product, title in zip(ids, titles, strict=True)
        )
    return Example(kind, benchmark.qrels.queries[query], len(relevant), answers)
