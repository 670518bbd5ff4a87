"""What does a killed training lose, and what does each engine cost beside the work?

    python benchmarks/resume.py --products 3000 --engine threads processes ray

Trains a simulated shop in memory, then with a work folder by each engine: undisturbed, and killed
(SIGKILL of the process that calls) in the middle of a stage, then called again. Counts the tasks
that were done before, the tasks left, and those of the former that were done once more; compares
the bytes of every model with those of the one in memory.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import matchset as ms
from matchset.storage.file import open_file
from matchset.work.steps import Progress, open_steps
from matchset.work.work_folder import open_work

STAGES = ("fit", "solve")  # one long task, and many short ones
_THREADS = 2  # or processes
_MANY = 200  # empty tasks


def read(shop: Path) -> tuple[ms.Log, ms.Catalog]:
    """Log and catalog of a shop."""
    return ms.read_log(shop / "log.parquet"), ms.read_catalog(shop / "products.parquet")


def train(data: tuple[ms.Log, ms.Catalog], **given: Any) -> ms.Matcher:
    """Train on a shop; two threads or processes, not tuned."""
    config = ms.TrainConfig(tune=False)
    config = replace(config, learn=replace(config.learn, threads=_THREADS))
    return ms.train(*data, config, **given)


def kill_at(stage: str, step: Progress) -> None:
    """End this process at once, in the middle of a stage."""
    if step.stage == stage and step.done >= step.total // 2:
        os.kill(os.getpid(), signal.SIGKILL)


def digest(matcher: ms.Matcher) -> str:
    """Of all arrays."""
    found = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        matcher.save(Path(folder) / "model")
        arrays = open_file(Path(folder) / "model", "model").arrays
        for name, array in sorted(arrays.items()):
            found.update(name.encode() + array.tobytes())
    return found.hexdigest()


def find_tasks(work: Path) -> dict[str, int]:
    """Tasks that are done, and when each was."""
    files = [path for path in work.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {str(path): path.stat().st_mtime_ns for path in files}


def measure(shop: Path, engines: list[str], scratch: Path) -> None:
    """Print a table of trainings, and one of what an engine takes for itself."""
    data = read(shop)
    base, whole = time_training(data)
    names = "engine | killed in | tasks done before | left | done again | seconds | same bytes"
    print(f"in memory: {base:.1f} s\n\n| {names} |\n{'|---' * 7}|")
    for engine in engines:
        for stage in (None, *STAGES):
            work = scratch / f"{engine}-{stage}"
            if stage is not None:
                victim = [sys.executable, __file__, "--shop", str(shop), "--work", str(work)]
                subprocess.run([*victim, "--engine", engine, "--kill", stage], check=False)
            before = find_tasks(work)
            spent, found = time_training(data, work=work, engine=engine)
            after = find_tasks(work)
            again = sum(after[task] != done for task, done in before.items())
            counts = f"{len(before)} | {len(after) - len(before)} | {again} | {spent:.1f}"
            is_same = "yes" if found == whole else "no"
            print(f"| {engine} | {stage or ''} | {counts} | {is_same} |", flush=True)
    print("\n| engine | to start, s | an empty task, ms |\n|---|---|---|")
    for engine in engines:
        one, many = (time_empty_tasks(engine, n, scratch) for n in (1, _MANY))
        print(f"| {engine} | {one:.1f} | {1000 * (many - one) / (_MANY - 1):.1f} |", flush=True)


def time_empty_tasks(engine: str, n: int, scratch: Path) -> float:
    """Seconds for so many tasks that make nothing."""
    run = import_module(Path(__file__).stem).make_nothing  # as other processes know it
    began = time.perf_counter()
    with (
        open_work(scratch / f"{engine}-{n}", "0" * 16) as folder,
        open_steps(threads=_THREADS, folder=folder, engine=engine) as step,
    ):
        step.map("many", run, range(n))
    return time.perf_counter() - began


def make_nothing(_: int, *, threads: int) -> int:  # noqa: ARG001
    """Do a task."""
    return 0


def time_training(data: tuple[ms.Log, ms.Catalog], **given: Any) -> tuple[float, str]:
    """Seconds of a training, and the digest of what it gave."""
    began = time.perf_counter()
    matcher = train(data, **given)
    return time.perf_counter() - began, digest(matcher)


def main() -> None:
    """Measure, or be the training that is killed."""
    own, outer = str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([own, outer])  # of workers
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=3000)
    parser.add_argument("--engine", nargs="+", default=["threads", "processes"])
    parser.add_argument("--shop", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--kill", choices=STAGES)
    options = parser.parse_args()
    if options.kill is not None:
        given = {"work": options.work, "engine": options.engine[0]}
        train(read(options.shop), progress=partial(kill_at, options.kill), **given)
        return
    with tempfile.TemporaryDirectory() as scratch:
        shop = Path(scratch) / "shop"
        ms.lab.simulate_shop(products=options.products, seed=1).save(shop)
        measure(shop, options.engine, Path(scratch))


if __name__ == "__main__":
    main()
