"""How much memory does a training own, from the files of a log to the saved match set?

    python benchmarks/memory.py --products 50000 200000
    python benchmarks/memory.py --shop FOLDER --memory 3GB
    python benchmarks/memory.py --shop FOLDER --memory 12GB --work WORK --untuned

Memory is RssAnon: what the process owns, without mapped files. It is sampled every few
milliseconds; the table has what was owned when each step began, the most while it ran, and the most
that arrays in temporary files took. Every training is a process of its own. With a work folder, one
that was interrupted goes on, and its table has the steps that were left.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import matchset as ms
from matchset import _native


class Meter:
    """What was owned when each step began, the most while it ran, and the most on disk; bytes."""

    def __init__(self) -> None:
        self.steps: dict[str, tuple[int, int, int]] = {}
        self.seconds: dict[str, float] = {}  # of processors
        self._peaks = [0, 0]
        self._before, self._began = read_memory(), time.process_time()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self._look()
            time.sleep(0.005)

    def _look(self) -> None:
        self._peaks[0] = max(self._peaks[0], read_memory())
        self._peaks[1] = max(self._peaks[1], _native.mapped_bytes())

    def end(self, name: str) -> None:
        """Count what was seen since the last step ended."""
        self._look()
        now, spent = read_memory(), time.process_time()
        first, *old = self.steps.get(name, (self._before, 0, 0))
        self.steps[name] = (first, *map(max, old, self._peaks))
        self.seconds[name] = self.seconds.get(name, 0.0) + spent - self._began
        self._before, self._began, self._peaks = now, spent, [now, 0]

    def show(self, name: str) -> str:
        """The figures of a step, as cells of a table."""
        return " | ".join(
            [*(f"{n / 1e6:,.0f}" for n in self.steps[name]), f"{self.seconds[name]:,.0f}"]
        )


def read_memory() -> int:
    """RssAnon of this process, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


def measure(shop: Path, given: dict[str, str], work: Path | None, *, is_tuned: bool) -> None:
    """Train on a shop, and print the table of its steps."""
    meter = Meter()
    began, config = time.perf_counter(), ms.TrainConfig(tune=is_tuned)
    with tempfile.TemporaryDirectory(dir=shop) as scratch:
        log = ms.read_log(shop / "log", **given)
        catalog = ms.read_catalog(shop / "products", **given)
        n_rows = len(log)
        listen = {"progress": lambda step: meter.end(step.stage)}
        matcher = ms.train(log, catalog, config, work=work, **listen, **given)
        del log, catalog
        matcher.save(Path(scratch) / "model")
        meter.end("save")
    spent, used = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    found = matcher.summary
    print(f"{found.products:,} products, {found.pairs:,} pairs, {n_rows:,} rows of the log: ")
    print(f"{spent:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of processors\n")
    print("| step | owned before, MB | at most, MB | mapped at most, MB | processors, s |")
    print("|---|---|---|---|---|")
    for name in meter.steps:
        print(f"| {name} | {meter.show(name)} |")
    owned, mapped = (max(step[i] for step in meter.steps.values()) / 1e6 for i in (1, 2))
    print(f"| all | | {owned:,.0f} | {mapped:,.0f} | |", flush=True)


def main() -> None:
    """Measure every shop in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, nargs="*", default=[])
    parser.add_argument("--shop", type=Path, help="folder of a shop that was streamed")
    parser.add_argument("--memory", help="as for `matchset train`")
    parser.add_argument("--work", type=Path, help="with --shop: as for `matchset train`")
    parser.add_argument("--untuned", action="store_true")
    options = parser.parse_args()
    if options.shop is not None:
        given = {} if options.memory is None else {"memory": options.memory}
        measure(options.shop, given, options.work, is_tuned=not options.untuned)
    for n in options.products:
        with tempfile.TemporaryDirectory() as folder:
            shop = ["matchset", "simulate", "--products", str(n), "--seed", "1", "--stream"]
            subprocess.run([*shop, "--out", folder], check=True, stdout=subprocess.DEVNULL)
            own = [sys.executable, __file__, "--shop", folder]
            own += ["--memory", options.memory] if options.memory else []
            own += ["--untuned"] if options.untuned else []
            subprocess.run(own, check=True)


if __name__ == "__main__":
    main()
