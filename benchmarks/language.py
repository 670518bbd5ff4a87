"""Is it worth stemming words? Recall with and without a language, and what a query then costs.

python benchmarks/language.py --products 50000
python benchmarks/language.py --real FOLDER         # Home Depot, first fold
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from problems import RELEVANT
from titles import KS, make_shop, read_homedepot

import matchset as ms
from matchset.baselines import BM25, TitleSimilarity
from matchset.features.vectorizer import Vectorizer
from matchset.matchers.bm25 import K1, STEMMED_B, STEMMED_K1, B


def main() -> None:
    """One table, a row per matcher."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=50_000)
    parser.add_argument("--real", type=Path, help="folder of the real data sets")
    options = parser.parse_args()
    is_real = options.real is not None
    train, test, catalog = next(
        read_homedepot(options.real) if is_real else make_shop(options.products)
    )
    print("| | language | Recall@" + " / ".join(map(str, KS)) + " | us to vectorize a query |")
    print("|---|---|---|---|")
    for name, language, matcher in make_matchers(train, catalog, RELEVANT if is_real else 1.0):
        result = ms.evaluate(matcher, test, ks=KS, resamples=1)
        recalls = " / ".join(f"{100 * result.recall(k):.1f}" for k in KS)
        vectorizer = getattr(matcher, "vectorizer", None)
        cost = "" if vectorizer is None else f"{measure(vectorizer, list(test.queries)):.2f}"
        print(f"| {name} | {language} | {recalls} | {cost} |", flush=True)


def make_matchers(
    train: ms.Log, catalog: ms.Catalog, min_count: float
) -> Iterator[tuple[str, str | None, ms.Matcher]]:
    """The matchers, each without and with the language that the titles have."""
    for k1, b in ((K1, B), (STEMMED_K1, STEMMED_B)):
        for language in (None, "auto"):
            name = f"BM25, k1 {k1:g}, b {b:g}"
            yield name, language, BM25.from_catalog(catalog, k1=k1, b=b, language=language)
    for language in (None, "auto"):
        yield (
            "title similarity",
            language,
            TitleSimilarity.from_catalog(catalog, language=language),
        )
    for language in (None, "auto"):
        config = ms.TrainConfig(parts=("tree",), min_count=min_count, language=language)
        yield "XR-Linear", language, ms.train(train, catalog, config)


def measure(vectorizer: Vectorizer, queries: list[str]) -> float:
    """Microseconds of one query, the least of twenty rounds over all."""
    best = float("inf")
    for _ in range(20):
        start = time.perf_counter()
        for query in queries:
            vectorizer.encode(query)
        best = min(best, time.perf_counter() - start)
    return 1e6 * best / len(queries)


if __name__ == "__main__":
    main()
