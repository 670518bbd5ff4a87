"""Does `matchset plan` say what a training then takes?

python benchmarks/plan.py --kind shop --products 3000 10000 25000
python benchmarks/plan.py --kind marketplace --products 6000 --parts tree

Prints predicted and measured seconds of each part, size of the model and peak of the memory. The
columns "serial" and "parallel" are what the measured times say of the constants in
`matchset/learn/cost.py`: microseconds for each thing that a part goes through, from the wall clock
and the processor time of the part (w = s + p / threads, c = s + p). Use an idle machine.
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
from matchset.learn.cost import RATES, TUNING, plan_training

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
    print("| shop | part | predicted | measured | ratio | serial | parallel |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for kind, n in itertools.product(options.kind, options.products):
            folder = (options.folder or Path(scratch)) / f"{kind}{n}"
            if not (folder / "log.parquet").exists():
                ms.simulate_shop(kind=kind, products=n, seed=1).save(folder)
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
    names = (*found.sizes.__slots__, "entries", "pairs_seen")
    sizes = {name: getattr(found.sizes, name) for name in names}
    parts = {name.removesuffix(" alone"): part.seconds for name, part in found.parts.items()}
    rest = {"threads": found.threads, "n_held": found.n_held}
    return {"parts": parts, "disk": found.disk, "memory": found.memory, "sizes": sizes, **rest}


def train(folder: Path, config: ms.TrainConfig) -> dict[str, Any]:
    """What it takes: wall clock and processor time of each part."""
    log, catalog = read(folder)
    wall, work = {}, {}
    last = [time.perf_counter(), time.process_time()]

    def listen(step: Any) -> None:
        now = [time.perf_counter(), time.process_time()]
        part = PART_OF.get(step.stage, step.stage)
        for spent, begin, end in zip((wall, work), last, now, strict=True):
            spent[part] = spent.get(part, 0.0) + end - begin
        last[:] = now

    with tempfile.TemporaryDirectory() as scratch:
        ms.train(log, catalog, config, out=Path(scratch) / "model", progress=listen)
        disk = sum(file.stat().st_size for file in Path(scratch).rglob("*") if file.is_file())
    wall.pop("read", None)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"parts": wall, "work": work, "disk": disk, "memory": peak}


def show(name: str, planned: dict[str, Any], found: dict[str, Any]) -> None:
    """A line for each part, and for the sums."""
    for part, seconds in planned["parts"].items():
        wall, work = found["parts"].get(part, 0.0), found["work"].get(part, 0.0)
        rate = TUNING if part == "tuning" else RATES[part][0]
        n = planned["n_held"] if part == "tuning" else planned["sizes"][rate.of]
        is_twice = "tuning" in planned["parts"] and part != "tuning"
        threads, unit = planned["threads"], 1e6 / n / (2 if is_twice else 1)
        parallel = (work - wall) / (1 - 1 / threads) if threads > 1 else 0.0
        shown = f"{max(0.0, work - parallel) * unit:.3g} | {parallel * unit:.3g} per {rate.of}"
        line(name, part, seconds, wall, "s", shown)
    line(name, "all", *(sum(one["parts"].values()) for one in (planned, found)), "s")
    for what in ("disk", "memory"):
        line(name, what, planned[what] / 1e6, found[what] / 1e6, "MB")


def line(name: str, part: str, planned: float, found: float, unit: str, rest: str = " | ") -> None:
    """One row of the table."""
    ratio = planned / found if found else float("nan")
    print(f"| {name} | {part} | {planned:.2f} {unit} | {found:.2f} {unit} | {ratio:.2f} | {rest} |")


if __name__ == "__main__":
    main()
