"""What are the two simulated shops like, who wins on each, and how much memory does writing take?

python benchmarks/shops.py --kind shop marketplace --products 20000 50000 200000
python benchmarks/shops.py --kind marketplace --products 20000 50000 --methods all
python benchmarks/shops.py --kind shop --products 300000 --methods "match set" DSSM
python benchmarks/shops.py --kind marketplace --products 1000000 --queries 200000 --stream
"""

from __future__ import annotations

import argparse
import itertools
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace

import matchset as ms

KS = (10, 50, 100)
SEGMENTS = (
    "seen query",
    "unseen query",
    "head query",
    "tail query",
    "warm product",
    "cold product",
)


def main() -> None:
    """Facts of each shop; perhaps recall of every method, or the memory of streaming."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", nargs="+", default=["shop", "marketplace"])
    parser.add_argument("--products", type=int, nargs="+", default=[20_000])
    parser.add_argument("--queries", type=int)
    parser.add_argument("--methods", nargs="+", default=["BM25"], help="names of rows, or all")
    parser.add_argument("--sample", type=int, default=5_000, help="test queries")
    parser.add_argument("--stream", action="store_true", help="only write, and measure the memory")
    options = parser.parse_args()
    for kind, n_products in itertools.product(options.kind, options.products):
        if options.stream:
            stream(kind, n_products, options.queries)
        else:
            measure(kind, n_products, options)


def stream(kind: str, n_products: int, n_queries: int | None) -> None:
    """Write to a temporary folder; the peak is that of this process, so run one size at a time."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        rows = ms.stream_shop(folder, kind=kind, products=n_products, queries=n_queries)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        f"| {kind} | {n_products:,} | {rows:,} | {time.perf_counter() - start:.0f} s | "
        f"{used.ru_utime + used.ru_stime:.0f} s | {used.ru_maxrss / 1024:,.0f} MB |"
    )


def measure(kind: str, n_products: int, options: argparse.Namespace) -> None:
    """Facts, then recall on the last month."""
    start = time.perf_counter()
    shop = ms.simulate_shop(kind=kind, products=n_products, queries=options.queries)
    print(f"{kind}, {n_products:,} products: {time.perf_counter() - start:.0f} s")
    print(ms.describe_shop(shop))
    train, test = ms.split_by_time(shop.log, test_days=30)
    makers = list_methods(train, shop.catalog)
    print("| | R@10/50/100 | " + " | ".join(SEGMENTS) + " | training |")
    for name in makers if options.methods == ["all"] else options.methods:
        start = time.perf_counter()
        matcher = makers[name]()
        seconds = time.perf_counter() - start
        found = ms.evaluate(matcher, test, train=train, sample=options.sample)
        overall = " / ".join(f"{100 * found.recall(k):.1f}" for k in KS)
        parts = " | ".join(f"{100 * found.recall(100, segment):.1f}" for segment in SEGMENTS)
        print(f"| {name} | {overall} | {parts} | {seconds:.0f} s |", flush=True)


def list_methods(train: ms.Log, catalog: ms.Catalog) -> dict[str, Callable[[], ms.Matcher]]:
    """How each row of the table is trained."""
    pairs = ms.positives(train)
    tree = ms.TrainConfig(parts=("tree",))
    paper = replace(tree, titles="none", language=None, learn=ms.LearnConfig())
    return {
        "match set": lambda: ms.train(train, catalog),
        "XR-Linear, titles too": lambda: ms.train(train, catalog, tree),
        "XR-Linear": lambda: ms.train(train, catalog, paper),
        "DSSM": lambda: ms.train_dssm(train, catalog),
        "BM25": lambda: ms.BM25.from_catalog(catalog),
        "BM25 stemmed": lambda: ms.BM25.from_catalog(catalog, language="auto"),
        "title similarity": lambda: ms.TitleSimilarity.from_catalog(catalog, language="auto"),
        "nearest queries": lambda: ms.NearestQueries.from_positives(pairs, catalog=catalog),
        "popularity": lambda: ms.Popularity.from_positives(pairs, catalog=catalog),
    }


if __name__ == "__main__":
    main()
