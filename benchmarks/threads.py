"""How much faster do more threads train, beside what the machine can give at all?

    python benchmarks/threads.py --products 30000 --threads 1 2 4 8 16
    python benchmarks/threads.py --products 300000 --parts tree --no-titles --untuned

Prints seconds of every stage for each number of threads, each in a process of its own. The last
rows compare: how many times faster n threads are than one, and how many trainings with one thread
each n processes finish in the time that a single one takes, all at once: cores share caches,
memory and clock, so no program that does the same work can be faster than that.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import matchset as ms

ALL = ("tree", "towers", "lexical", "neighbors")


def main() -> None:
    """Train with each number of threads, then with as many processes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", default="shop")
    parser.add_argument("--products", type=int, default=30_000)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--parts", nargs="+", default=ALL)
    parser.add_argument("--untuned", action="store_true")
    parser.add_argument("--no-titles", action="store_true", help="train without the catalog")
    parser.add_argument("--folder", type=Path, help="keep the shop here")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(train(options.folder, options)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.folder or Path(scratch)) / f"{options.kind}{options.products}"
        if not (folder / "log.parquet").exists():
            ms.lab.simulate_shop(kind=options.kind, products=options.products, seed=1).save(folder)
        found = {n: wait(start(n, folder, options)) for n in options.threads}
        base = found.get(1) or wait(start(1, folder, options))
        gains = {n: measure_gain(n, base, folder, options) for n in options.threads}
    report(found, base, gains)


def train(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of each stage with `options.child` threads, without reading the files."""
    log = ms.read_log(folder / "log.parquet")
    catalog = None if options.no_titles else ms.read_catalog(folder / "products.parquet")
    learn = replace(ms.TrainConfig().learn, threads=options.child)
    config = ms.TrainConfig(parts=tuple(options.parts), tune=not options.untuned, learn=learn)
    summary = ms.train(log, catalog, config).summary
    seconds = {name: spent for name, spent in summary.seconds.items() if name != "read"}
    return {"seconds": seconds, "pairs": summary.pairs, "memory": summary.peak_memory}


def start(threads: int, folder: Path, options: argparse.Namespace) -> subprocess.Popen[bytes]:
    """Train in another process."""
    command = [sys.executable, __file__, "--child", str(threads), "--folder", str(folder)]
    command += ["--parts", *options.parts, *["--untuned"] * options.untuned]
    command += ["--no-titles"] * options.no_titles
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def wait(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    """What a process prints."""
    printed, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"a training failed with {process.returncode}")
    return json.loads(printed)


def measure_gain(n: int, base: dict[str, Any], folder: Path, options: argparse.Namespace) -> float:
    """Trainings per time of n processes with one thread each, relative to one process."""
    if n == 1:
        return 1.0
    processes = [start(1, folder, options) for _ in range(n)]
    spent = [total(wait(process)) for process in processes]
    return n * total(base) / (sum(spent) / n)


def total(found: dict[str, Any]) -> float:
    """Seconds of all stages."""
    return sum(found["seconds"].values())


def report(found: dict[int, dict[str, Any]], base: dict[str, Any], gains: dict[int, float]) -> None:
    """A table: stages by threads."""
    print(f"{base['pairs']:,} pairs; {time.strftime('%Y-%m-%d')}; seconds by threads\n")
    print(f"| stage | {' | '.join(map(str, found))} |\n|---|" + "---|" * len(found))
    for stage in base["seconds"]:
        row = [f"{one['seconds'].get(stage, 0.0):.2f}" for one in found.values()]
        print(f"| {stage} | {' | '.join(row)} |")
    print(f"| all | {' | '.join(f'{total(one):.2f}' for one in found.values())} |")
    faster = [f"{total(base) / total(one):.1f}" for one in found.values()]
    print(f"| times faster | {' | '.join(faster)} |")
    print(f"| trainings at once | {' | '.join(f'{gain:.1f}' for gain in gains.values())} |")
    memory = [f"{one['memory'] / 1e9:.2f}" for one in found.values()]
    print(f"| memory, GB | {' | '.join(memory)} |")


if __name__ == "__main__":
    main()
