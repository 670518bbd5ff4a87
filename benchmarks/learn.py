"""Learning, side by side with PECOS 1.2.8: times, recall, weights and memory on the same matrices.

    python benchmarks/learn.py --shop 20000                a generated problem
    python benchmarks/learn.py --data FOLDER               X, Y, X_test and Y_test as .npz
    python benchmarks/learn.py --real ../shared/data --data cooking
    python benchmarks/learn.py --shop 200000 --alone --config '{"pifa_entries": null}'

Each side runs in its own process, in turn; of several rounds the median is shown. Ratios are PECOS
over ours. PECOS runs with its defaults apart from B = 32.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from environments import peer_python

HERE = Path(__file__).parent


def main() -> None:
    """Run both sides and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shop", type=int, default=20_000, help="products of a generated shop")
    parser.add_argument("--data", type=Path, help="folder with X, Y, X_test and Y_test as .npz")
    parser.add_argument("--real", type=Path, help="folder in which --data names a real data set")
    parser.add_argument("--alone", action="store_true", help="leave PECOS out")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--config", default="{}", help="parameters of ours, as JSON")
    arguments = parser.parse_args()
    folder = prepare(arguments)
    sides = {"matchset": [sys.executable, str(HERE / "learn_side.py"), "matchset"]}
    if not arguments.alone:
        sides["pecos"] = [str(peer_python("pecos")), str(HERE / "learn_side.py"), "pecos"]
    runs: dict[str, list[dict]] = {side: [] for side in sides}
    for _ in range(arguments.rounds):
        for side, command in sides.items():
            options = [str(folder), str(arguments.threads), arguments.config]
            done = subprocess.run([*command, *options], check=True, stdout=subprocess.PIPE)
            runs[side].append(json.loads(done.stdout.splitlines()[-1]))
            print(json.dumps({side: runs[side][-1]}), file=sys.stderr)
    report(runs)


def prepare(arguments: argparse.Namespace) -> Path:
    """The folder with the matrices, written first where it is not there."""
    if arguments.data and not arguments.real:
        return arguments.data
    import learn_data

    name = arguments.data.name if arguments.data else f"shop-{arguments.shop}"
    folder = HERE.parent / "build" / "learn-data" / name
    if not (folder / "Y_test.npz").exists():
        if arguments.real:
            problem = getattr(learn_data, name)(arguments.real)
        else:
            problem = learn_data.generate(arguments.shop, 2 * arguments.shop)
        learn_data.save(problem, folder)
    return folder


def report(runs: dict[str, list[dict]]) -> None:
    """One row per measure, one column per side."""
    sides = list(runs)
    print(
        f"{'':24}"
        + "".join(f"{side:>14}" for side in sides)
        + ("         ratio" * (len(sides) > 1))
    )
    measures = list(runs[sides[0]][0])
    for measure in measures:
        values = [[run[measure] for run in runs[side]] for side in sides]
        if isinstance(values[0][0], list):
            print(f"{measure:24}" + "".join(f"  {value[-1]}" for value in values))
            continue
        medians = [statistics.median(value) for value in values]
        line = f"{measure:24}" + "".join(f"{median:14,.4g}" for median in medians)
        if len(medians) > 1 and medians[0]:
            line += f"{medians[1] / medians[0]:14.2f}"
        print(line)


if __name__ == "__main__":
    main()
