"""How search time grows with the number of products: 10^4 to 10^7, weights made up.

    python benchmarks/latency_growth.py --largest 1000000 --out build/latency
    python benchmarks/latency_growth.py --largest 1000000 --match-set   # trained, all parts

Leaf clusters hold 100 products and 800 features: 200 that every query may have, 200 rarer ones,
and 400 shared with neighboring clusters, a few weights each, as in trained models. A query has 30
features of one cluster. 10^7 products need about 12 GB of memory while they are built.

With --match-set, match sets of simulated shops are trained, not tuned, with two queries per product
and at most 400,000, and asked in turn, text to product ids.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from problems import ROOT

import matchset as ms
from matchset.learn.label_tree import plan_splits
from matchset.matrices import to_csr
from matchset.model.packed import PackedTree, pack
from matchset.model.search import search_rule
from matchset.model.tree import LabelTree, LayerWeights, TreeModel

FREQUENT, RARE, OWN = 200, 20_000, 40  # features of all clusters, of some, of one
SHARED, MAX_LEAF, QUERIES = 10, 100, 3000
CHUNK = 1024  # parents at a time
MAX_PAST, ROUNDS = 400_000, 5


def main() -> None:
    """Build, search and report each size in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument("--precision", choices=("int8", "float32"), default="int8")
    parser.add_argument("--out", type=Path, help="folder for the table and the plot")
    parser.add_argument("--match-set", action="store_true", help="of all parts, trained")
    options = parser.parse_args()
    if options.match_set:
        compare_match_sets(options.largest)
        return
    lines = [
        "| products | levels | weights | MB | bytes per weight | p50 us | p99 us |",
        "|---" * 7 + "|",
    ]
    figures = []
    n_products = 10_000
    while n_products <= options.largest:
        splits = plan_splits(n_products, 32, MAX_LEAF)
        packed = build(splits, options.precision)
        p50, p99 = measure(packed, int(np.prod(splits)))
        figures.append((packed.sizes[-1], p50, p99))
        lines.append(
            f"| {packed.sizes[-1]:,} | {len(packed.sizes)} | {packed.n_weights:,} | "
            f"{packed.n_bytes / 1e6:.0f} | {packed.n_bytes / packed.n_weights:.2f} | "
            f"{p50:.1f} | {p99:.1f} |"
        )
        print(lines[-1], flush=True)
        n_products *= 10
    print("\n".join(["", *lines]))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "latency_growth.md").write_text("\n".join(lines) + "\n")
        plot(figures, options.out / "latency_growth.png")


def build(splits: tuple[int, ...], precision: str) -> PackedTree:
    """A packed tree whose nodes all have as many children as their level's split."""
    n_leaves = int(np.prod(splits))
    offsets, layers, n_parents = [], [], 1
    for n_children in (*splits, MAX_LEAF):
        is_last = n_parents == n_leaves
        offsets.append(np.arange(n_parents + 1, dtype=np.int64) * n_children)
        layers.append(make_layer(n_parents, n_children, n_leaves, is_last=is_last))
        n_parents *= n_children
    n_features = FREQUENT + RARE + OWN * n_leaves
    tree = LabelTree(np.arange(n_parents, dtype=np.int32), tuple(offsets))
    model = TreeModel(tree, tuple(layers), n_features, n_parents)
    return pack(model, precision=precision, threads=2)


def make_layer(n_parents: int, n_children: int, n_leaves: int, *, is_last: bool) -> LayerWeights:
    """Weights of one level, some parents at a time, so that memory is that of the result."""
    parts = [
        make_parents(
            np.arange(at, min(n_parents, at + CHUNK)), n_parents, n_children, n_leaves, is_last
        )
        for at in range(0, n_parents, CHUNK)
    ]
    features, n_entries, children, weights = (
        np.concatenate(arrays) for arrays in zip(*parts, strict=True)
    )
    n_rows = len(features) // n_parents
    rng = np.random.default_rng(n_parents)
    return LayerWeights(
        np.arange(n_parents + 1, dtype=np.int64) * n_rows,
        features,
        np.concatenate([np.zeros(1, np.int64), np.cumsum(n_entries, dtype=np.int64)]),
        children,
        weights,
        rng.normal(-0.6, 0.2, n_parents * n_children).astype(np.float32),
    )


def make_parents(
    parents: np.ndarray, n_parents: int, n_children: int, n_leaves: int, is_last: bool
) -> tuple[np.ndarray, ...]:
    """Features, entries per feature, children and weights of some parents, row by row."""
    rng = np.random.default_rng([n_parents, int(parents[0])])
    below = n_leaves // n_parents
    n_rare = 200 if is_last else min(RARE, 4000)
    rare = FREQUENT + (parents[:, None] * 7919 + np.arange(n_rare) * 97) % RARE
    leaves = parents[:, None] * below + np.arange(SHARED if is_last else below)
    own = (leaves % n_leaves)[:, :, None] * OWN + np.arange(OWN) + FREQUENT + RARE
    frequent = np.broadcast_to(np.arange(FREQUENT), (len(parents), FREQUENT))
    features = np.concatenate([frequent, rare, own.reshape(len(parents), -1)], axis=1)
    features = np.sort(features, axis=1).astype(np.int32).reshape(-1)
    n_entries = np.minimum(rng.geometric(0.33, len(features)) + rng.integers(0, 3), n_children)
    is_frequent = features < FREQUENT
    n_entries[is_frequent] = rng.integers(1, max(2, n_children // 3), is_frequent.sum())
    step = -(-n_children // n_entries)  # children that far apart are distinct and ascend
    first = rng.integers(0, step)
    n_entries = (n_children - 1 - first) // step + 1
    number = np.arange(n_entries.sum()) - np.repeat(np.cumsum(n_entries) - n_entries, n_entries)
    children = number * np.repeat(step, n_entries) + np.repeat(first, n_entries)
    children = children.astype(np.uint16)
    weights = rng.exponential(0.25, len(children)).astype(np.float32) + np.float32(0.1)
    weights *= rng.choice(np.array([-1, 1], np.float32), len(children), p=[0.3, 0.7])
    return features, n_entries, children, weights


def make_queries(n_leaves: int, n_features: int) -> sp.csr_matrix:
    """Rows of 30 features: 15 frequent, 5 rare, 10 of one cluster's own."""
    rng = np.random.default_rng(0)
    leaf = rng.integers(0, n_leaves, QUERIES)
    columns = np.concatenate(
        [
            rng.permuted(np.tile(np.arange(FREQUENT), (QUERIES, 1)), axis=1)[:, :15],
            FREQUENT + (leaf[:, None] * 7919 + rng.choice(200, 5, False) * 97) % RARE,
            FREQUENT + RARE + leaf[:, None] * OWN + rng.choice(OWN, 10, False),
        ],
        axis=1,
    )
    rows = np.repeat(np.arange(QUERIES), 30)
    values = np.full(len(rows), 30**-0.5, np.float32)
    return sp.csr_matrix((values, (rows, columns.reshape(-1))), shape=(QUERIES, n_features))


def measure(packed: PackedTree, n_leaves: int) -> tuple[float, float]:
    """Microseconds per query, one at a time on one thread: median and 99th percentile."""
    X, rule = to_csr(make_queries(n_leaves, packed.n_features), "X"), search_rule(100, 10)
    bounds = X.indptr.tolist()
    times = np.empty(QUERIES)
    for _ in range(2):  # the first one warms up
        for i in range(QUERIES):
            ids, values = X.indices[bounds[i] : bounds[i + 1]], X.data[bounds[i] : bounds[i + 1]]
            started = time.perf_counter()
            packed.search_row(ids, values, rule)
            times[i] = time.perf_counter() - started
    p50, p99 = np.percentile(times, [50, 99]) * 1e6
    return float(p50), float(p99)


def compare_match_sets(largest: int) -> None:
    """Ask match sets of each size in turn, and print a table of medians."""
    sizes = [10**power for power in range(4, 8) if 10**power <= largest]
    folders = [make_match_set(n_products) for n_products in sizes]
    asked = [(ms.load(folder / "model"), read_queries(folder)) for folder in folders]
    times = np.array([[ask(*each) for each in asked] for _ in range(ROUNDS + 1)])[1:]
    print("| products | MB | p50 us | p99 us |\n|---|---|---|---|")
    for at, folder in enumerate(folders):
        size = sum(file.stat().st_size for file in (folder / "model").iterdir()) / 1e6
        p50, p99 = np.median(times[:, at], axis=0)
        print(f"| {sizes[at]:,} | {size:.0f} | {p50:.1f} | {p99:.1f} |")


def make_match_set(n_products: int) -> Path:
    """A folder with a match set and queries to ask it."""
    folder = ROOT / "build" / "problems" / f"growth-{n_products}"
    if not (folder / "queries.txt").exists():
        shop = ms.lab.simulate_shop(products=n_products, queries=min(MAX_PAST, 2 * n_products))
        matcher = ms.train(shop.log, shop.catalog, ms.TrainConfig(tune=False))
        matcher.save(folder / "model", overwrite=True)
        chosen = np.random.default_rng(0).permutation(len(shop.log.queries))[:QUERIES]
        (folder / "queries.txt").write_text("\n".join(shop.log.queries.take(chosen)))
    return folder


def read_queries(folder: Path) -> list[str]:
    """Those that a match set is asked."""
    return (folder / "queries.txt").read_text().splitlines()


def ask(matcher: ms.Matcher, queries: list[str]) -> tuple[float, float]:
    """Microseconds of CPU time per query, text to ids: median and 99th percentile."""
    times = np.empty(len(queries))
    for i, query in enumerate(queries):
        started = time.thread_time_ns()
        _ = matcher.match(query, k=100).ids
        times[i] = time.thread_time_ns() - started
    p50, p99 = np.percentile(times, [50, 99]) / 1e3
    return float(p50), float(p99)


def plot(figures: list[tuple[int, float, float]], file: Path) -> None:
    """Time against products, if matplotlib is there."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        return
    n_products, p50, p99 = zip(*figures, strict=True)
    figure, axes = plt.subplots(figsize=(6, 4))
    axes.semilogx(n_products, p50, "o-", label="p50")
    axes.semilogx(n_products, p99, "s--", label="p99")
    axes.set(xlabel="products", ylabel="microseconds per query", ylim=(0, None))
    axes.legend()
    figure.savefig(file, bbox_inches="tight")


if __name__ == "__main__":
    main()
