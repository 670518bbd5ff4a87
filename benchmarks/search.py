"""Search, side by side with PECOS 1.2.8: trained on the same shop, one thread, beam 10, top 100.

    python benchmarks/search.py --products 200000 --rounds 3

PECOS runs as it is fastest: its own vectorizer, a compiled mapped model, threads=1. Each side
runs in its own process, in turn; the medians of the rounds are shown.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median

from environments import peer_python, run_side
from problems import make_problem

ROWS = {
    "text_p50": ("one query, text to product ids, p50 us", 12),
    "text_p99": ("the same, p99 us", 8),
    "row_p50": ("one query, matrix row in, p50 us", 8),
    "row_p99": ("the same, p99 us", None),
    "batch": ("batch, us per query", 4),
    "text_batch": ("batch of texts, us per query", None),
    "bytes_per_weight": ("bytes per weight on disk", None),
    "open_ms": ("open model and vectorizer, ms", None),
    "rss_mb": ("memory of the process, MB", None),
    "recall@10": ("recall at 10, %", None),
    "recall@100": ("recall at 100, %", None),
}


def main() -> None:
    """Prepare what is not there, let both sides take turns, print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--singles", type=int, default=3000, help="queries asked one by one")
    parser.add_argument("--filters", action="store_true", help="also time filters, ours alone")
    options = parser.parse_args()
    folder = make_problem(f"shop-{options.products}")
    pythons = {"matchset": Path(sys.executable), "pecos": peer_python("pecos")}
    for side, python in pythons.items():
        if not (folder / side).exists():
            run_side(python, "learn_side.py", side, folder, 2, "{}")
    runs: dict[str, list[dict]] = {side: [] for side in pythons}
    for _ in range(options.rounds):
        for side, python in pythons.items():
            runs[side].append(run(python, "measure", side, folder, options.singles))
    print_table(runs, options)
    if options.filters:
        found = [
            run(pythons["matchset"], "filters", "matchset", folder, options.singles)
            for _ in range(options.rounds)
        ]
        for name in found[0]:
            print(f"| {name} | {median(f[name] for f in found):.1f} us |")


def run(python: Path, step: str, side: str, folder: Path, singles: int) -> dict:
    """One step of one side, in its own process; what it prints last is the result."""
    result = run_side(python, "search_side.py", step, side, folder, singles)
    print(side, step, {k: round(v, 3) for k, v in result.items()}, file=sys.stderr)
    return result


def print_table(runs: dict[str, list[dict]], options: argparse.Namespace) -> None:
    """A Markdown table; the ratio is of PECOS's figure to ours."""
    print(f"\n{options.products:,} products, {options.rounds} rounds, medians\n")
    print("| | matchset | PECOS | ratio | wanted |\n|---|---|---|---|---|")
    for name, (title, wanted) in ROWS.items():
        ours, theirs = (median(run[name] for run in runs[side]) for side in ("matchset", "pecos"))
        aim = f"{wanted}x" if wanted else ""
        print(f"| {title} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.1f}x | {aim} |")


if __name__ == "__main__":
    main()
