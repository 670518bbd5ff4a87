"""Does `matchset plan` say what a training then takes?

python benchmarks/plan.py --kind shop --products 3000 10000 25000
python benchmarks/plan.py --kind marketplace --products 6000 --parts tree

Prints predicted and measured seconds of each part, size of the model and peak of the memory. The
columns "serial" and "parallel" are what the measured times say of the constants in
`matchset/learn/cost.py`: microseconds for each thing that a part goes through. They come from
processor time, so that a busy machine disturbs them little: of all threads (c = s + p), and of the
main thread, which does its share of what two threads do (m = s + p / 2). Tasks of one thread count
as serial, except for "solve". The measured seconds are of the wall clock: use an idle machine.
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
from dataclasses import replace
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
    """What it takes: wall clock with two threads, processor time of each part and its split."""
    wall, _, main, disk = run(folder, config, threads=2)
    _, work, _, _ = run(folder, config, threads=1)
    main["solve"] = work.get("solve", 0.0) / 2
    main |= {stage: work[stage] for stage in ("neighbors", "lexical") if stage in work}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    times = {"parts": by_part(wall), "work": by_part(work), "main": by_part(main)}
    return {**times, "disk": disk, "memory": peak}


def by_part(seconds: dict[str, float]) -> dict[str, float]:
    """The stages of each part together, without reading."""
    found: dict[str, float] = {}
    for stage, spent in seconds.items():
        if stage != "read":
            found[PART_OF[stage]] = found.get(PART_OF[stage], 0.0) + spent
    return found


def run(folder: Path, config: ms.TrainConfig, *, threads: int) -> tuple[Any, ...]:
    """Wall clock, processor time of all threads and of the main one, and bytes of the model."""
    log, catalog = read(folder)
    clocks = (time.perf_counter, time.process_time, time.thread_time)
    spent: tuple[dict[str, float], ...] = ({}, {}, {})
    last = [clock() for clock in clocks]

    def listen(step: Any) -> None:
        now = [clock() for clock in clocks]
        for each, begin, end in zip(spent, last, now, strict=True):
            each[step.stage] = each.get(step.stage, 0.0) + end - begin
        last[:] = now

    config = replace(config, learn=replace(config.learn, threads=threads))
    with tempfile.TemporaryDirectory() as scratch:
        ms.train(log, catalog, config, out=Path(scratch) / "model", progress=listen)
        disk = sum(file.stat().st_size for file in Path(scratch).rglob("*") if file.is_file())
    return (*spent, disk)


def show(name: str, planned: dict[str, Any], found: dict[str, Any]) -> None:
    """A line for each part, and for the sums."""
    for part, seconds in planned["parts"].items():
        wall, work, main = (found[key].get(part, 0.0) for key in ("parts", "work", "main"))
        rate = TUNING if part == "tuning" else RATES[part][0]
        n = planned["n_held"] if part == "tuning" else planned["sizes"][rate.of]
        is_twice = "tuning" in planned["parts"] and part != "tuning"
        unit = 1e6 / n / (2 if is_twice else 1)
        parallel = min(work, max(0.0, 2 * (work - main)))
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
