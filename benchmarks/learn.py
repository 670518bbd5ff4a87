"""Learning, side by side with PECOS 1.2.8, from queries to a trained model and its recall.

    python benchmarks/learn.py                                    # a shop of 200,000 products
    python benchmarks/learn.py --problem shop-20000 shop-1000000 --alone   # ours, how it grows
    python benchmarks/learn.py --problem homedepot-0 cooking --real FOLDER

Each side has its own vectorizer and its own defaults (B = 32, at most 100 products per leaf,
threshold 0.1), and runs in a process of its own, in turn; of several rounds the median is shown.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median

from environments import peer_python, run_side
from problems import make_problem

STAGES = ("vectorize", "embed", "tree", "solve")


def main() -> None:
    """Run both sides on every problem, and print a table each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", nargs="+", default=["shop-200000"])
    parser.add_argument("--real", type=Path, help="folder of the real data sets")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--alone", action="store_true", help="without PECOS")
    parser.add_argument("--config", default="{}", help="settings of ours, as JSON")
    options = parser.parse_args()
    for name in options.problem:
        folder = make_problem(name, real=options.real)
        report(name, folder, run_sides(folder, options))


def run_sides(folder: Path, options: argparse.Namespace) -> dict[str, list[dict]]:
    """What each side measured, round by round."""
    pythons = {"matchset": Path(sys.executable)}
    if not options.alone:
        pythons["pecos"] = peer_python("pecos")
    runs: dict[str, list[dict]] = {side: [] for side in pythons}
    for _ in range(options.rounds):
        for side, python in pythons.items():
            settings = (folder, options.threads, options.config)
            runs[side].append(run_side(python, "learn_side.py", side, *settings))
            print(side, runs[side][-1], file=sys.stderr)
    return runs


def report(name: str, folder: Path, runs: dict[str, list[dict]]) -> None:
    """A Markdown table; the ratio is PECOS's figure to ours."""
    facts = json.loads((folder / "ceiling.json").read_text())
    n_queries = (folder / "train.txt").read_text().count("\n") + 1
    print(f"\n{name}: {facts['train_pairs']:,} pairs of {n_queries:,} queries; ", end="")
    print(f"ceiling of recall {100 * facts['ceiling']:.1f} %; trees ", end="")
    print("; ".join(f"{side} {found[0]['sizes']}" for side, found in runs.items()) + "\n")
    print(f"| | {' | '.join(runs)} | ratio |\n|---|" + "---|" * (len(runs) + 1))
    table = {
        stage: [median(run[stage] for run in found) for found in runs.values()] for stage in STAGES
    }
    totals = [sum(column) for column in zip(*table.values(), strict=True)]
    for stage, values in {**table, "all": totals}.items():
        ratio = f"{values[-1] / values[0]:.1f}x" if len(values) > 1 else ""
        print(f"| {stage}, s | {' | '.join(f'{v:.2f}' for v in values)} | {ratio} |")
    for key in ("recall@10", "recall@50", "recall@100", "weights", "memory"):
        values = [median(run[key] for run in found) for found in runs.values()]
        shown = [f"{v:,.2f}" if key.startswith("recall") else f"{v:,.0f}" for v in values]
        is_compared = key.startswith("recall") and len(values) > 1
        against = f"{values[0] - values[-1]:+.2f}" if is_compared else ""
        print(f"| {key}{', MB' * (key == 'memory')} | {' | '.join(shown)} | {against} |")


if __name__ == "__main__":
    main()
