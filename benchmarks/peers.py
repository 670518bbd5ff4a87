"""XR-Linear beside PECOS, napkinXC and omikuji: the same rows, the same labels, one tree each.

    python benchmarks/peers.py --problem shop-20000
    python benchmarks/peers.py --problem homedepot-0 cooking --real FOLDER

Features are ours for every side, so that trees and solvers are compared, not tokenizers; settings
are as near as each side allows (see peers_side.py). Each runs in an environment and a process of
its own, in turn; of several rounds the median is shown. A peer that cannot be installed, or fails,
is left out with its reason.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

import scipy.sparse as sp
from environments import SideError, peer_python, run_side
from problems import make_problem, read

SIDES = ("matchset", "pecos", "napkinxc", "omikuji")
ROWS = {
    "train": ("train and save, s", "{:,.2f}"),
    "memory": ("peak memory of training, MB", "{:,.0f}"),
    "recall@10": ("recall at 10, %", "{:.2f}"),
    "recall@50": ("recall at 50, %", "{:.2f}"),
    "recall@100": ("recall at 100, %", "{:.2f}"),
    "row_p50": ("one query, row in, p50 us", "{:,.0f}"),
    "row_p99": ("the same, p99 us", "{:,.0f}"),
    "batch": ("batch on one thread, us per query", "{:,.0f}"),
    "model": ("model on disk, MB", "{:,.1f}"),
    "installed": ("installed with all it pulls in, MB", "{:,.0f}"),
}


def main() -> None:
    """Run every side on every problem, and print a table each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", nargs="+", default=["shop-20000"])
    parser.add_argument("--real", type=Path, help="folder of the real data sets")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2, help="for training")
    parser.add_argument("--singles", type=int, default=2000, help="queries asked one by one")
    options = parser.parse_args()
    for name in options.problem:
        folder = make_problem(name, real=options.real)
        write_rows(folder)
        report(name, folder, *run_sides(folder, options))


def write_rows(folder: Path) -> None:
    """The queries of a problem as features, once for all sides."""
    from matchset.features.vectorizer import Vectorizer

    vectorizer = Vectorizer()
    for name, transform in (("train", vectorizer.fit_transform), ("test", vectorizer.transform)):
        rows = sp.csr_matrix(transform(read(folder, name)[0]))
        sp.save_npz(folder / f"rows-{name}.npz", rows)


def run_sides(
    folder: Path, options: argparse.Namespace
) -> tuple[dict[str, list[dict[str, Any]]], dict[str, str]]:
    """What each side measured, round by round, and why others did not."""
    runs: dict[str, list[dict[str, Any]]] = {}
    reasons: dict[str, str] = {}
    for _ in range(options.rounds):
        for side in options.sides:
            if side in reasons:
                continue
            try:
                python = Path(sys.executable) if side == "matchset" else peer_python(side)
                settings = (folder, options.threads, options.singles)
                runs.setdefault(side, []).append(run_side(python, "peers_side.py", side, *settings))
            except SideError as error:
                reasons[side] = str(error)
                runs.pop(side, None)
                continue
            print(side, runs[side][-1], file=sys.stderr)
    return runs, reasons


def report(
    name: str, folder: Path, runs: dict[str, list[dict[str, Any]]], reasons: dict[str, str]
) -> None:
    """A Markdown table, with how many times ours a cost is in brackets."""
    facts = json.loads((folder / "ceiling.json").read_text())
    n_test = (folder / "test.txt").read_text().count("\n") + 1
    print(f"\n{name}: {facts['train_pairs']:,} pairs, {n_test:,} test queries; ", end="")
    print(f"ceiling of recall {100 * facts['ceiling']:.1f} %\n")
    heads = [f"{side} {found[0]['version']}" for side, found in runs.items()]
    print(f"| | {' | '.join(heads)} |\n|---|" + "---|" * len(heads))
    for key, (title, form) in ROWS.items():
        values = {side: median(run[key] for run in found) for side, found in runs.items()}
        show = show_recall if key.startswith("recall") else show_ratio
        print(f"| {title} | {' | '.join(show(values, side, form) for side in values)} |")
    for side, reason in reasons.items():
        print(f"\n{side}: left out, {reason}")


def show_recall(values: dict[str, float], side: str, form: str) -> str:
    """A share."""
    return form.format(values[side])


def show_ratio(values: dict[str, float], side: str, form: str) -> str:
    """A cost, and how many times ours it is."""
    ours = values.get("matchset")
    times = "" if ours is None or side == "matchset" else f" ({values[side] / ours:.1f}x)"
    return form.format(values[side]) + times


if __name__ == "__main__":
    main()
