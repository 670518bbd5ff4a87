"""Does `matchset plan` say what a training then takes?

python benchmarks/plan.py --kind shop --products 3000 10000 25000
python benchmarks/plan.py --kind marketplace --products 6000 --parts tree

Prints predicted and measured seconds of each part, size of the model and peak of the memory. Use an
idle machine. benchmarks/stages.py measures the constants of the prediction.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import matchset as ms
from matchset.learn.cost import plan_training

PART_OF = {
    "vectorize": "features",
    "embed": "tree",
    "tree": "tree",
    "solve": "tree",
    "pack": "tree",
    "lexical": "lexical",
    "fit": "towers",
    "encode": "towers",
    "neighbors": "neighbors",
    "tune": "tuning",
}
ALL = ("tree", "towers", "lexical", "neighbors")


def main() -> None:
    """Plan and train on each shop, in a process of its own, so that its peak is its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", nargs="+", default=["shop"])
    parser.add_argument("--products", type=int, nargs="+", default=[3_000, 10_000])
    parser.add_argument("--parts", nargs="+", default=ALL)
    parser.add_argument("--untuned", action="store_true")
    parser.add_argument("--folder", type=Path, help="keep the shops here")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    config = ms.TrainConfig(parts=tuple(options.parts), tune=not options.untuned)
    if options.child:
        print(json.dumps({"plan": plan, "train": train}[options.child](options.folder, config)))
        return
    print("| shop | part | predicted | measured | ratio |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for kind, n in itertools.product(options.kind, options.products):
            folder = (options.folder or Path(scratch)) / f"{kind}{n}"
            if not (folder / "log.parquet").exists():
                ms.lab.simulate_shop(kind=kind, products=n, seed=1).save(folder)
            show(f"{kind}, {n:,}", *(call(child, folder, options) for child in ("plan", "train")))


def call(child: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run this file in another process, and read what it prints."""
    command = [sys.executable, __file__, "--child", child, "--folder", str(folder)]
    command += ["--parts", *options.parts, *["--untuned"] * options.untuned]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def read(folder: Path) -> tuple[ms.Log, ms.Catalog]:
    """The shop."""
    return ms.read_log(folder / "log.parquet"), ms.read_catalog(folder / "products.parquet")


def plan(folder: Path, config: ms.TrainConfig) -> dict[str, Any]:
    """What is predicted."""
    found = plan_training(*read(folder), config)
    parts = {name: part.seconds(found.threads) for name, part in found.parts.items()}
    return {"parts": parts, "disk": found.disk, "memory": found.memory}


def train(folder: Path, config: ms.TrainConfig) -> dict[str, Any]:
    """What it takes."""
    log, catalog = read(folder)
    wall: dict[str, float] = {}
    last = [time.perf_counter()]

    def listen(step: Any) -> None:
        part = PART_OF.get(step.stage, step.stage)
        now = time.perf_counter()
        wall[part] = wall.get(part, 0.0) + now - last[0]
        last[0] = now

    with tempfile.TemporaryDirectory() as scratch:
        ms.train(log, catalog, config, out=Path(scratch) / "model", progress=listen)
        disk = sum(file.stat().st_size for file in Path(scratch).rglob("*") if file.is_file())
    wall.pop("read", None)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"parts": wall, "disk": disk, "memory": peak}


def show(name: str, planned: dict[str, Any], found: dict[str, Any]) -> None:
    """A line for each part, and for the sums."""
    for part, seconds in planned["parts"].items():
        line(name, part, seconds, found["parts"].get(part, 0.0), "s")
    line(name, "all", *(sum(one["parts"].values()) for one in (planned, found)), "s")
    for what in ("disk", "memory"):
        line(name, what, planned[what] / 1e6, found[what] / 1e6, "MB")


def line(name: str, part: str, planned: float, found: float, unit: str) -> None:
    """One row of the table."""
    ratio = planned / found if found else float("nan")
    print(f"| {name} | {part} | {planned:.2f} {unit} | {found:.2f} {unit} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
