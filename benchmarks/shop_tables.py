"""What benchmarks/shops.py found, as Markdown: rows and segments, order of methods, growth."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np

from matchset.evaluate.significance import ALPHA, bootstrap, holm, mean, randomization_test
from matchset.lab.shop.facts import ShopFacts

Plain = dict[str, Any]
KS = (10, 50, 100)
SEGMENTS = (
    "seen query",
    "unseen query",
    "head query",
    "tail query",
    "warm product",
    "cold product",
)
ORDER = (("XR-Linear", "DSSM"), ("DSSM", "BM25"), ("XR-Linear", "BM25"))  # the paper's


def print_tables(shops: list[Plain]) -> None:
    """Everything that is known of each shop, then how recall falls where there are sizes."""
    for shop in shops:
        print(f"\n{shop['kind']}, {shop['products']:,} products: {shop['seconds']:.0f} s")
        print(ShopFacts(**shop["facts"]))
        print_rows(shop)
        print_order(shop)
    for kind, of_kind in groupby(sorted(shops, key=lambda s: s["kind"]), lambda s: s["kind"]):
        sizes = sorted(of_kind, key=lambda shop: shop["products"])
        if len(sizes) > 1:
            print_growth(kind, sizes)


def present(shop: Plain) -> dict[str, Plain]:
    """The rows that could run, by name."""
    return {row["name"]: row for row in shop["rows"] if not row.get("absent")}


def print_rows(shop: Plain) -> None:
    """Recall of each row, and at the largest k that of segments."""
    heads = ["R@10/50/100", *SEGMENTS, "training", "p50 / p99, us"]
    print_head([f"{shop['kind']}, {shop['products']:,} products", *heads])
    for row in shop["rows"]:
        if row.get("absent"):
            print(f"| {row['name']} | left out: {row['absent']} |" + " |" * len(heads[1:]))
            continue
        parts = [show(row, segment, 100) for segment in SEGMENTS]
        latency = f"{show_time(row, 'p50_us')} / {show_time(row, 'p99_us')}"
        cost = f"{row['training_seconds']:.0f} s", latency
        print("| " + " | ".join([row["name"], show_all(row), *parts, *cost]) + " |")


def print_order(shop: Plain) -> None:
    """Whether the paper's order of methods holds here, at each k, the p-values corrected."""
    rows = present(shop)
    pairs = [pair for pair in ORDER if rows.keys() >= set(pair)]
    if not pairs:
        return
    recalls = {name: np.array(row["recalls"]) for name, row in rows.items()}
    gains = np.concatenate([recalls[one] - recalls[other] for one, other in pairs], axis=1)
    p = holm(randomization_test(gains))
    weights = np.ones((1, len(gains)))
    low, high = (part[0, 0] for part in bootstrap(gains[:, None], weights))
    value = mean(gains[:, None], weights)[0, 0]
    print_head(["the paper's order, points", *(f"at {k}" for k in KS)])
    for i, (one, other) in enumerate(pairs):
        cells = []
        for j in range(i * len(KS), (i + 1) * len(KS)):
            is_clear = p[j] < ALPHA and not low[j] <= 0 <= high[j]
            verdict = ("confirmed" if value[j] > 0 else "reversed") if is_clear else "unclear"
            interval = f"{100 * low[j]:+.1f} to {100 * high[j]:+.1f}"
            cells.append(f"{100 * value[j]:+.1f} ({interval}): {verdict}")
        print(f"| {one} over {other} | {' | '.join(cells)} |")


def print_growth(kind: str, sizes: list[Plain]) -> None:
    """How recall falls as the catalog grows, and how latency rises."""
    print_head([f"{kind}, R@10/50/100", *(f"{shop['products']:,}" for shop in sizes), "p50, us"])
    for name in dict.fromkeys(row["name"] for shop in sizes for row in shop["rows"]):
        rows = [present(shop).get(name) for shop in sizes]
        cells = ["" if row is None else show_all(row) for row in rows]
        times = ["" if row is None else show_time(row, "p50_us") for row in rows]
        print(f"| {name} | {' | '.join(cells)} | {' / '.join(times)} |")


def print_head(cells: list[str]) -> None:
    """The first lines of a table."""
    print("\n| " + " | ".join(cells) + " |\n|" + "---|" * len(cells))


def show_all(row: Plain) -> str:
    """Recall at each k, over all queries."""
    return " / ".join(show(row, "all", k) for k in KS)


def show(row: Plain, segment: str, k: int) -> str:
    """Recall in a segment, in percent; nothing where the segment is empty."""
    found = row["recall"].get(segment)
    return "" if found is None else f"{100 * found[str(k)][0]:.1f}"


def show_time(row: Plain, name: str) -> str:
    """Microseconds; nothing where another process answered."""
    return "" if row[name] is None else f"{row[name]:,.0f}"
