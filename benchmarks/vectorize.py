"""Vectorizers side by side: matchset, PECOS and scikit-learn on the same queries, one thread each.

    python benchmarks/vectorize.py [--queries FILE] [--rounds 3]

Sides take turns, each in a process of its own; figures are medians over the rounds.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

Measured = dict[str, float]
SINGLE = 3000  # queries that are asked one by one
FIGURES = {
    "fit": ("fit, s", 1.0),
    "batch": ("transform in a batch, us per query", 1e6),
    "matrix": ("transform([query]), us", 1e6),
    "direct": ("one query, direct path, us", 1e6),
}


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """How long a call takes, and what it returns."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def median_seconds(call: Callable[[str], Any], queries: list[str]) -> float:
    """Median time of one call per query."""
    return median(seconds(lambda: call(query))[0] for query in queries)  # noqa: B023


def measure_matchset(queries: list[str]) -> Measured:
    """Ours, with its defaults."""
    from matchset.features.vectorizer import Vectorizer

    fit, vectorizer = seconds(lambda: Vectorizer().fit(queries, threads=1))
    batch, rows = seconds(lambda: vectorizer.transform(queries, threads=1))
    one = queries[:SINGLE]
    return {
        "fit": fit,
        "batch": batch / len(queries),
        "matrix": median_seconds(lambda query: vectorizer.transform([query], threads=1), one),
        "direct": median_seconds(vectorizer.encode, one),
        "features": rows.shape[1],
        "per_query": rows.nnz / len(queries),
    }


def measure_pecos(queries: list[str]) -> Measured:
    """PECOS: word unigrams and bigrams, character trigrams inside word boundaries."""
    from pecos.utils.featurization.text.vectorizers import Vectorizer

    kinds = [
        {"ngram_range": [1, 2], "analyzer": "word", "max_feature": 4_000_000},
        {"ngram_range": [3, 3], "analyzer": "char_wb", "max_feature": 200_000},
    ]
    config = {"type": "tfidf", "kwargs": {"base_vect_configs": kinds, "threads": 1}}
    fit, vectorizer = seconds(lambda: Vectorizer.train(queries, config))
    batch, rows = seconds(lambda: vectorizer.predict(queries, threads=1))
    return {
        "fit": fit,
        "batch": batch / len(queries),
        "matrix": median_seconds(lambda q: vectorizer.predict([q], threads=1), queries[:SINGLE]),
        "features": rows.shape[1],
        "per_query": rows.nnz / len(queries),
    }


def measure_sklearn(queries: list[str]) -> Measured:
    """scikit-learn: the same n-grams."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_union

    words = TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2))
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3))
    union = make_union(words, characters)
    fit, _ = seconds(lambda: union.fit(queries))
    batch, rows = seconds(lambda: union.transform(queries))
    return {
        "fit": fit,
        "batch": batch / len(queries),
        "matrix": median_seconds(lambda query: union.transform([query]), queries[:SINGLE]),
        "features": rows.shape[1],
        "per_query": rows.nnz / len(queries),
    }


SIDES = {"matchset": measure_matchset, "pecos": measure_pecos, "sklearn": measure_sklearn}


def run_sides(file: Path, rounds: int) -> dict[str, Measured]:
    """Medians of every figure of every side, the sides taking turns."""
    from environments import peer_python

    pythons = {"matchset": Path(sys.executable)}
    pythons |= {side: peer_python(side) for side in SIDES if side != "matchset"}
    results: dict[str, list[Measured]] = {side: [] for side in SIDES}
    for _ in range(rounds):
        for side, python in pythons.items():
            command = [python, __file__, "--side", side, "--queries", file]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            results[side].append(json.loads(output.splitlines()[-1]))
    return {
        side: {name: median(run[name] for run in runs) for name in runs[0]}
        for side, runs in results.items()
    }


def print_table(results: dict[str, Measured], n_queries: int) -> None:
    """A Markdown table; ratios are to matchset's figure in the same row."""
    print(f"\n{n_queries:,} distinct queries, one thread, median of the rounds\n")
    print(f"| | {' | '.join(results)} | to PECOS | to scikit-learn |")
    print("|---|" + "---|" * (len(results) + 2))
    for name, (title, scale) in FIGURES.items():
        ours = results["matchset"][name]
        # Peers have no direct path: ours is compared with their only one.
        theirs = [results[side].get(name, results[side]["matrix"]) for side in ("pecos", "sklearn")]
        cells = [f"{value * scale:.2f}" for value in (ours, *theirs)]
        ratios = [f"{value / ours:.1f}x" for value in theirs]
        print(f"| {title} | {' | '.join(cells + ratios)} |")
    for name, title in (("features", "features"), ("per_query", "features per query")):
        cells = [f"{results[side][name]:,.1f}" for side in results]
        print(f"| {title} | {' | '.join(cells)} | | |")


def main() -> None:
    """Measure one side, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=Path, help="file of queries, one a line")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(SIDES[options.side](options.queries.read_text().split("\n"))))
        return
    with tempfile.TemporaryDirectory() as folder:
        file = options.queries or write_shop_queries(Path(folder) / "queries.txt")
        n_queries = file.read_text().count("\n") + 1
        print_table(run_sides(file, options.rounds), n_queries)


def write_shop_queries(file: Path) -> Path:
    """The queries of a simulated shop with 200,000 products, as customers typed them."""
    import matchset as ms

    shop = ms.lab.simulate_shop(products=200_000, queries=400_000)
    file.write_text("\n".join(shop.log.spellings))
    return file


if __name__ == "__main__":
    main()
