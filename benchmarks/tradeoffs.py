"""What do pruning and the beam cost and gain? The paper's two tables, on a simulated shop.

    python benchmarks/tradeoffs.py --products 50000
    python benchmarks/tradeoffs.py --products 50000 --queries 1000000    # memory over a million

One thread. Latency is that of single queries through Python, split into vectorizing and search.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import matchset as ms
from matchset.model.search import search_rule

THRESHOLDS = (0.1, 0.2, 0.3, 0.35, 0.4, 0.45)
BEAMS = (1, 5, 10, 15, 20, 25, 30, 50, 75, 100)
SINGLES = 2000
K = 100


def main() -> None:
    """Train once, then prune, widen the beam, and watch the memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=0, help="queries to watch the memory over")
    options = parser.parse_args()
    shop = ms.simulate_shop(products=options.products)
    train, test = ms.split_by_time(shop.log, test_days=30)
    wanted = ms.relevance(test)
    whole = ms.train(train, shop.catalog)
    print("| threshold | R@10/50/100 | weights | disk, MB | tree, MB | vector, us | search, us |")
    print("|---|---|---|---|---|---|---|")
    for threshold in THRESHOLDS:
        matcher = whole.prune(threshold)
        tree = matcher.tree
        sizes = f"{tree.n_weights:,} | {on_disk(matcher):.1f} | {tree.n_bytes / 1e6:.1f}"
        found = recalls(matcher, wanted)
        print(f"| {threshold} | {found} | {sizes} | {latency(matcher, wanted)} |")
    pruned = whole.prune(0.35)
    print("\n| beam | R@10/50/100 | vectorize, us | search, us | queries/s |")
    print("|---|---|---|---|---|")
    for beam in BEAMS:
        found = recalls(pruned, wanted, beam=beam)
        speed = len(wanted.queries) / seconds_of_batch(pruned, wanted, beam)
        print(f"| {beam} | {found} | {latency(pruned, wanted, beam=beam)} | {speed:,.0f} |")
    if options.queries:
        watch_memory(whole, wanted, options.queries)


class WithBeam:
    """A matcher that is always asked with one beam."""

    def __init__(self, matcher: ms.TreeMatcher, beam: int) -> None:
        self.matcher, self.beam = matcher, beam

    def match(self, queries, k=K, *, where=None):
        """Ask."""
        return self.matcher.match(queries, k, beam=self.beam, where=where)


def recalls(matcher: ms.TreeMatcher, wanted: ms.Positives, beam: int = 10) -> str:
    """Recall at 10, 50 and 100, in percent."""
    result = ms.evaluate(WithBeam(matcher, beam), wanted, segments=(), resamples=1)
    return " / ".join(f"{100 * result.recall(k):.1f}" for k in (10, 50, K))


def latency(matcher: ms.TreeMatcher, wanted: ms.Positives, beam: int = 10) -> str:
    """Medians of vectorizing one query and of searching its row."""
    rule, spent = search_rule(K, beam), []
    for query in wanted.queries[:SINGLES]:
        start = time.perf_counter()
        ids, weights = matcher.vectorizer.encode(query)
        vectorized = time.perf_counter()
        matcher.tree.search_row(ids.view(np.int32), weights, rule)
        spent.append((vectorized - start, time.perf_counter() - vectorized))
    return " | ".join(f"{1e6 * value:.1f}" for value in np.median(spent, axis=0))


def seconds_of_batch(matcher: ms.TreeMatcher, wanted: ms.Positives, beam: int) -> float:
    """Time of all test queries together, on one thread."""
    start = time.perf_counter()
    matcher.match(wanted.queries, K, beam=beam, threads=1)
    return time.perf_counter() - start


def on_disk(matcher: ms.TreeMatcher) -> float:
    """Size of the saved model with vocabulary, products and titles, in MB."""
    with tempfile.TemporaryDirectory() as folder:
        matcher.save(Path(folder) / "model")
        return sum(file.stat().st_size for file in (Path(folder) / "model").iterdir()) / 1e6


def watch_memory(matcher: ms.TreeMatcher, wanted: ms.Positives, n_queries: int) -> None:
    """Private memory of this process as queries come one by one."""
    texts = list(wanted.queries)
    print("\n| queries | private memory, MB |\n|---|---|")
    for asked in range(n_queries + 1):
        if asked % max(1, n_queries // 5) == 0:
            print(f"| {asked:,} | {private_memory():.1f} |", flush=True)
        matcher.match(texts[asked % len(texts)], K)


def private_memory() -> float:
    """RssAnon, in MB."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
