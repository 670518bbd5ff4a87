"""The match set: what does it cost to train, to keep and to ask, beside PECOS's tree in one run?

    python benchmarks/match_set.py --products 200000 --rounds 3
    python benchmarks/match_set.py --shop marketplace --products 50000
    python benchmarks/match_set.py --products 200000 --keep        # a match set trained before

Training reads the log from Parquet, on two threads, with the re-ranker tuned and not tuned, each in
a process of its own. Queries are asked one by one on one thread, text to product ids, top 100; the
tree inside the match set alone, and PECOS as it is fastest (see search.py), take turns with it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from statistics import median

from environments import SideError, peer_python, run_side
from problems import make_problem

KINDS = {"shop": "shop", "marketplace": "market"}
ROWS = {
    "text_p50": "one query, text to product ids, p50 us",
    "text_p99": "the same, p99 us",
    "batch": "batch on one thread, us per query",
    "batch_threads": "batch on all threads, us per query",
    "open_ms": "open, ms",
    "anon_mb": "own memory after the queries, MB",
    "rss_mb": "memory with mapped files, MB",
    "recall@10": "recall at 10, %",
    "recall@100": "recall at 100, %",
}


def main() -> None:
    """Train what is not there, let the sides take turns, print three tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shop", choices=KINDS, default="shop")
    parser.add_argument("--products", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--singles", type=int, default=3000, help="queries asked one by one")
    parser.add_argument("--threads", type=int, default=2, help="of training")
    parser.add_argument("--keep", action="store_true", help="measure what was trained before")
    parser.add_argument("--alone", action="store_true", help="without PECOS")
    options = parser.parse_args()
    folder = make_problem(f"{KINDS[options.shop]}-{options.products}")
    ours = Path(sys.executable)
    if not options.keep or not (folder / "match_set").exists():
        train(ours, folder, options.threads)
    sides = {"match set": (ours, "measure"), "its tree alone": (ours, "tree")}
    if not options.alone:
        sides["PECOS's tree"] = peer_python("pecos"), "pecos"
        if not (folder / "pecos").exists():
            run_side(peer_python("pecos"), "learn_side.py", "pecos", folder, 2, "{}")
    runs: dict[str, list[dict]] = {side: [] for side in sides}
    for _ in range(options.rounds):
        for side, (python, step) in sides.items():
            runs[side].append(measure(python, step, folder, options.singles))
            print(side, {k: round(v, 2) for k, v in runs[side][-1].items()}, file=sys.stderr)
    print_latency(runs, options)


def measure(python: Path, step: str, folder: Path, singles: int) -> dict:
    """One round of one side, in its own process."""
    if step == "pecos":
        return run_side(python, "search_side.py", "measure", "pecos", folder, singles)
    return run_side(python, "match_set_side.py", step, folder, singles)


def train(python: Path, folder: Path, threads: int) -> None:
    """Both kinds of training; the tuned match set stays in the problem's folder."""
    figures = {}
    for step in ("untuned", "tuned"):
        shutil.rmtree(folder / "match_set", ignore_errors=True)
        figures[step] = run_side(python, "match_set_side.py", step, folder, threads)
    print(f"\n{folder.name}: training on {threads} threads\n")
    print("| | " + " | ".join(figures) + " |\n|---" + "|---" * len(figures) + "|")
    stages = figures["tuned"]["seconds"]
    rows = {
        f"{stage}, s": [f["seconds"].get(stage, 0) for f in figures.values()] for stage in stages
    }
    rows["all, s"] = [sum(f["seconds"].values()) for f in figures.values()]
    for name, label in (
        ("anon_mb", "peak of own memory, MB"),
        ("rss_mb", "peak of all memory, MB"),
    ):
        rows[label] = [f[name] for f in figures.values()]
    for name, values in rows.items():
        print(f"| {name} | " + " | ".join(f"{value:,.1f}" for value in values) + " |")
    sizes = figures["tuned"]["sizes"]
    print("\n| section | MB |\n|---|---|")
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        print(f"| {name} | {size / 1e6:.1f} |")
    print(f"| all | {sum(sizes.values()) / 1e6:.1f} |", flush=True)


def print_latency(runs: dict[str, list[dict]], options: argparse.Namespace) -> None:
    """A Markdown table of medians."""
    print(f"\n{options.shop}, {options.products:,} products, {options.rounds} rounds, medians\n")
    print("| | " + " | ".join(runs) + " |\n|---" + "|---" * len(runs) + "|")
    for name, title in ROWS.items():
        cells = [
            f"{median(r[name] for r in each):.1f}" if name in each[0] else ""
            for each in runs.values()
        ]
        print(f"| {title} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    try:
        main()
    except SideError as problem:
        raise SystemExit(f"a side failed: {problem}") from None
