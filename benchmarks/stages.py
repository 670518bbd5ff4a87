"""What does each stage of a training take: processor time, disk, and memory that it owns?

    python benchmarks/stages.py --products 30000 --untuned
    python benchmarks/stages.py --products 200000 --engine threads processes

Trains with a work folder and one thread. Memory is the largest growth of the process while a task
of the stage runs (RssAnon: what it owns, without mapped files), sampled every few milliseconds.
Processor time is hardly disturbed by a busy machine. With several engines, the same training is
timed with each, and what a task costs beside its work is shown.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matchset as ms
from matchset.learn.cost import RATES
from matchset.learn.sizes import Sizes
from matchset.work.results import WorkFolder
from matchset.work.tasks import Report, Results, Task


@dataclass
class Cost:
    """What the tasks of a stage took."""

    n_tasks: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    written: int = 0
    memory: int = 0
    main: float = 0.0  # processor time of the thread that calls, with two threads


class Meter:
    """Runs tasks in place of `Task.__call__`, and measures them."""

    def __init__(self) -> None:
        self.costs: dict[str, Cost] = {}
        self._call = Task.__call__

    def __call__(self, task: Task, results: Results, threads: int, report: Report) -> None:
        """Run a task."""
        name = task.name.split("/")
        stage = "/".join(name[:2]).partition(".")[0]
        cost = self.costs.setdefault(stage, Cost())
        if threads == 2:  # of a wide task, in memory
            began = time.thread_time()
            self._call(task, results, threads, report)
            cost.main += time.thread_time() - began
            return
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what earlier stages have freed is not owned any more
        before, began = read_memory(), time.process_time()
        with sample_memory() as peak:
            self._call(task, results, threads, report)
        spent = time.process_time() - began
        if not isinstance(results, WorkFolder):
            return  # a narrow task of the second run
        folder = results.path / task.name
        cost.n_tasks += 1
        cost.seconds += spent
        cost.longest = max(cost.longest, spent)
        cost.written += sum(file.stat().st_size for file in folder.iterdir())
        cost.memory = max(cost.memory, peak[0] - before)


@contextmanager
def sample_memory() -> Iterator[list[int]]:
    """The most that the process owns inside."""
    peak, is_over = [read_memory()], threading.Event()

    def sample() -> None:
        while not is_over.wait(0.003):
            peak[0] = max(peak[0], read_memory())

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield peak
    finally:
        is_over.set()
        sampler.join()
        peak[0] = max(peak[0], read_memory())


def read_memory() -> int:
    """RssAnon of this process, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


def main() -> None:
    """Train, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", default="shop")
    parser.add_argument("--products", type=int, default=30_000)
    parser.add_argument("--untuned", action="store_true")
    parser.add_argument("--parts", nargs="+", default=["tree", "towers", "lexical", "neighbors"])
    parser.add_argument("--engine", nargs="*", default=[], help="also compare these engines")
    parser.add_argument("--folder", type=Path, help="keep the shop here")
    options = parser.parse_args()
    config = ms.TrainConfig(parts=tuple(options.parts), tune=not options.untuned)
    config = replace(config, learn=replace(config.learn, threads=1))
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.folder or Path(scratch)) / f"{options.kind}{options.products}"
        if not (folder / "log.parquet").exists():
            ms.lab.simulate_shop(kind=options.kind, products=options.products, seed=1).save(folder)
        log, catalog = (
            ms.read_log(folder / "log.parquet"),
            ms.read_catalog(folder / "products.parquet"),
        )
        meter, call = Meter(), Task.__call__
        Task.__call__ = lambda task, *given: meter(task, *given)  # noqa: PLW0108 (binds the task)
        work = Path(scratch) / "work"
        matcher = ms.train(log, catalog, config, work=work)
        two = replace(config, learn=replace(config.learn, threads=2))
        ms.train(log, catalog, two)
        Task.__call__ = call
        show(meter.costs, matcher.summary)
        show_rates(meter.costs, WorkFolder(work))
        n_tasks = sum(cost.n_tasks for cost in meter.costs.values())
        compare(log, catalog, config, options.engine, Path(scratch), n_tasks)


def show(costs: dict[str, Cost], summary: Any) -> None:
    """A table of the stages."""
    print(
        f"{summary.products:,} products, {summary.pairs:,} pairs of {summary.queries:,} queries, "
    )
    print(f"{summary.features:,} features\n")
    print("| stage | tasks | processor time, s | longest task, s | written, MB | owned, MB |")
    print("|---|---|---|---|---|---|")
    for name, cost in costs.items():
        shown = f"{cost.seconds:.2f} | {cost.longest:.2f} | {cost.written / 1e6:,.1f}"
        print(f"| {name} | {cost.n_tasks} | {shown} | {cost.memory / 1e6:,.0f} |")
    written = sum(cost.written for cost in costs.values()) / 1e6
    seconds = sum(cost.seconds for cost in costs.values())
    print(f"| all | | {seconds:.2f} | | {written:,.1f} | |")


def show_rates(costs: dict[str, Cost], work: WorkFolder) -> None:
    """What the costs say of the constants in `matchset/learn/cost.py`.

    With two threads, the main one does what is serial and half of the rest: m = s + p / 2.
    """
    sizes = Sizes.of(work.get("final/data", "examples"), work.get("final/data", "n_queries"))
    print("\n| stage | for each | serial, us | parallel, us | kept, bytes | memory, bytes |")
    print("|---|---|---|---|---|---|")
    for stage, rates in RATES.items():
        if (cost := costs.get(f"final/{stage}")) is None:
            continue
        serial = max(0.0, 2 * cost.main - cost.seconds) if cost.main else cost.seconds
        parallel = max(0.0, cost.seconds - serial)
        if stage == "solve":
            serial, parallel = 0.0, cost.seconds
        of = rates[0].of
        n = getattr(sizes, of)
        figures = (1e6 * serial / n, 1e6 * parallel / n, cost.written / n, cost.memory / n)
        print(f"| {stage} | {of} | {' | '.join(f'{figure:.3g}' for figure in figures)} |")


def compare(
    log: ms.Log,
    catalog: ms.Catalog,
    config: ms.TrainConfig,
    engines: list[str],
    scratch: Path,
    n_tasks: int,
) -> None:
    """Seconds in memory and with each engine, with as many threads as there are cores."""
    config = replace(config, learn=replace(config.learn, threads=len(os.sched_getaffinity(0))))
    base = None
    for engine in ["in memory", *engines] if engines else []:
        given = {} if base is None else {"work": scratch / engine, "engine": engine}
        began = time.perf_counter()
        ms.train(log, catalog, config, **given)
        spent = time.perf_counter() - began
        base = base or spent
        extra = 1000 * (spent - base) / n_tasks
        print(f"{engine}: {spent:.2f} s, {extra:.1f} ms more per task ({n_tasks} tasks)")


if __name__ == "__main__":
    main()
