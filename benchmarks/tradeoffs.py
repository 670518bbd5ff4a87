"""What do pruning and the beam cost and gain? The paper's two tables, on a simulated shop.

    python benchmarks/tradeoffs.py --products 50000
    python benchmarks/tradeoffs.py --products 50000 --queries 1000000    # memory over a million

One thread. Latency is that of single queries through Python, split into vectorizing and search.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import matchset as ms
from matchset.baselines import XRLinearMatcher
from matchset.evaluate.qrels import make_qrels
from matchset.lab.experiments.findings import SweepRow
from matchset.lab.experiments.runner import Budget
from matchset.lab.experiments.sweeps import sweep_beams, sweep_thresholds

BUDGET = Budget(resamples=1, singles=2000)
K = 100


def main() -> None:
    """Train once, then prune, widen the beam, and watch the memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=0, help="queries to watch the memory over")
    options = parser.parse_args()
    shop = ms.lab.simulate_shop(products=options.products)
    train, test = ms.split_by_time(shop.log, test_days=30)
    qrels = make_qrels(test)
    whole = ms.train(train, shop.catalog, ms.TrainConfig(parts=("tree",)))
    print("| threshold | R@10/50/100 | weights | disk, MB | tree, MB | vector, us | search, us |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for row in sweep_thresholds(whole, qrels, BUDGET, folder=Path(folder)):
            sizes = [f"{size / 1e6:.1f}" for size in (row.disk_bytes, row.memory_bytes)]
            cells = [row.setting, recalls(row), f"{row.weights:,}", *sizes, *latency(row)]
            print("|", " | ".join(map(str, cells)), "|", flush=True)
    print("\n| beam | R@10/50/100 | vectorize, us | search, us | queries/s |")
    print("|---|---|---|---|---|")
    for row in sweep_beams(whole, qrels, BUDGET):
        cells = [row.setting, recalls(row), *latency(row), f"{row.queries_per_second:,.0f}"]
        print("|", " | ".join(map(str, cells)), "|", flush=True)
    if options.queries:
        watch_memory(whole, list(qrels.queries), options.queries)


def recalls(row: SweepRow) -> str:
    """Recall at 10, 50 and 100, in percent."""
    return " / ".join(f"{100 * share.value:.1f}" for share in row.recall.values())


def latency(row: SweepRow) -> list[str]:
    """Medians of vectorizing one query and of the rest, in microseconds."""
    return [f"{1e6 * row.latency[part]:.1f}" for part in ("vectorizing_p50", "search_p50")]


def watch_memory(matcher: XRLinearMatcher, texts: list[str], n_queries: int) -> None:
    """Private memory of this process as queries come one by one."""
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
