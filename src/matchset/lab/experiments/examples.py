"""Examples: which test queries does the report show side by side?

Only queries that may be shown: some where our recipe finds more than another contender and some
where it finds less, with the largest differences, and some chosen at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Catalog
from matchset.lab.experiments.benchmark import Benchmark
from matchset.lab.experiments.contenders import FLOOR, LEXICAL, MINOR, OURS
from matchset.lab.experiments.store import Measurement
from matchset.strings import Strings

EACH = 3  # examples of each kind
PARTNERS = (LEXICAL, "nearest_queries", FLOOR)  # the first available is compared with


def choose_examples(
    benchmark: Benchmark, results: Mapping[str, Measurement]
) -> dict[str, Any] | None:
    """Queries by kind of example, with the answers of each contender; None if there are none."""
    indices = benchmark.examples()
    partner = next((name for name in PARTNERS if name in results), None)
    if OURS not in results or partner is None or len(indices) == 0:
        return None
    ours, theirs = (_count_found(benchmark, results[name]) for name in (OURS, partner))
    kinds = _choose(
        ours - theirs, benchmark.qrels.traffic[indices], seed=benchmark.config.learn.seed
    )
    columns = [name for name in results if name not in MINOR]
    return {
        "partner": partner,
        "columns": columns,
        "queries": [
            {"kind": kind, **_describe(int(example), benchmark, results, columns)}
            for kind, chosen in kinds.items()
            for example in chosen
        ],
    }


def _choose(
    gains: NDArray[np.int64], traffic: NDArray[np.float64], *, seed: int
) -> dict[str, NDArray[np.int64]]:
    """Indices into the examples, by kind; of equal gains the more frequent query comes first."""
    order = np.lexsort([-traffic, -gains])
    wins = [example for example in order if gains[example] > 0][:EACH]
    order = np.lexsort([-traffic, gains])
    losses = [example for example in order if gains[example] < 0][:EACH]
    rng = np.random.default_rng([seed, 12])
    others = [example for example in rng.permutation(len(gains)) if example not in {*wins, *losses}]
    return {"wins": np.array(wins), "loses": np.array(losses), "random": np.array(others[:EACH])}


def _count_found(benchmark: Benchmark, result: Measurement) -> NDArray[np.int64]:
    """Relevant products among the answers to each example."""
    examples = zip(benchmark.examples(), result.answers, strict=True)
    return np.array([len(_relevant(benchmark, int(query)) & set(ids)) for query, ids in examples])


def _relevant(benchmark: Benchmark, query: int) -> set[str]:
    qrels = benchmark.qrels
    begin, end = np.searchsorted(qrels.row, [query, query + 1])
    return set(qrels.products.take(qrels.product[begin:end]))


def _find_titles(ids: list[str], catalog: Catalog | None) -> list[str]:
    """Titles of products, or their ids if they have none."""
    if catalog is None:
        return ids
    indices = catalog.ids.index_of(Strings.of(ids)).tolist()
    titles = (catalog.titles[index] if index >= 0 else "" for index in indices)
    return [title or product for title, product in zip(titles, ids, strict=True)]


def _describe(
    example: int, benchmark: Benchmark, results: Mapping[str, Measurement], columns: list[str]
) -> dict[str, Any]:
    query = int(benchmark.examples()[example])
    relevant = _relevant(benchmark, query)
    answers = {}
    for name in columns:
        ids = list(results[name].answers[example])
        titles = _find_titles(ids, benchmark.catalog)
        answers[name] = [
            {"product_id": product, "title": title, "is_relevant": product in relevant}
            for product, title in zip(ids, titles, strict=True)
        ]
    return {
        "query": benchmark.qrels.queries[query],
        "n_relevant": len(relevant),
        "answers": answers,
    }
