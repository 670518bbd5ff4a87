"""Cost: how long will a training take, how much memory, and how large will the model be?"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from matchset.config import TrainConfig, count_threads
from matchset.data.catalog import Catalog
from matchset.data.log import Log
from matchset.learn.hold_back import hold_back
from matchset.learn.sizes import Sizes
from matchset.learn.training_data import prepare_training_data

_FITTED = 3000  # validation queries that the re-ranker learns from, at most


@dataclass(frozen=True, slots=True)
class Rate:
    """Cost of a stage for each thing it goes through, on one core of about 3 GHz.

    `serial` and `parallel` are microseconds of work that one thread, or all threads, can do;
    `disk` is bytes of the model, `kept` bytes that the stage leaves in a work folder, `memory`
    bytes that it owns while it runs, beside what other stages have left in memory.
    """

    of: str  # a field of `Sizes`
    serial: float = 0.0
    parallel: float = 0.0
    disk: float = 0.0
    kept: float = 0.0
    memory: float = 0.0


# Bytes were measured by benchmarks/stages.py on a shop of 12,000 products. Times of "data",
# "neighbors" and "lexical" are those of an idle machine (two cores of an AMD EPYC), and "fit" was
# measured on shops and marketplaces of 6,000 to 200,000 products and on made-up titles; the others
# were seen on a busy one and halved, as those three were twice as slow there. Other processors, or
# other settings of tree and vectorizer, differ as much as they are slower.
RATES: Mapping[str, tuple[Rate, ...]] = {
    "data": (
        Rate("entries", serial=0.13, parallel=0.14, kept=9.0, memory=30.0),
        Rate("features", disk=42.0, kept=70.0, memory=150.0),
        Rate("products", disk=150.0, kept=150.0),
    ),
    "embed": (
        Rate("pairs", serial=0.2, parallel=0.65, memory=80.0),
        Rate("products", kept=425.0, memory=1200.0),
    ),
    "tree": (Rate("placings", parallel=0.75), Rate("products", memory=1700.0)),
    "levels": (Rate("pairs", serial=0.17, kept=16.0, memory=60.0),),
    "solve": (Rate("passes", parallel=0.021), Rate("pairs", kept=190.0)),
    "pack": (Rate("pairs", serial=0.4, parallel=0.2, disk=55.0, kept=55.0, memory=400.0),),
    "fit": (
        Rate("rows_seen", serial=1.0, parallel=1.85),
        Rate("embeddings_seen", parallel=0.067),
        Rate("embeddings_missed", parallel=0.05),
        Rate("title_entries", parallel=0.11),
        Rate("entries", memory=10.0),
        Rate("embedded", kept=115.0, memory=1100.0),
        Rate("products", kept=260.0),
    ),
    "encode": (
        Rate("placings", serial=0.3, parallel=0.4),
        Rate("comparisons", parallel=0.006),
        Rate("products", disk=290.0, kept=290.0, memory=1200.0),
        Rate("embedded", disk=115.0, kept=115.0),
    ),
    "neighbors": (
        Rate("remembered_entries", serial=0.15, disk=7.5, kept=7.5, memory=50.0),
        Rate("remembered_pairs", disk=6.0, kept=6.0),
    ),
    "lexical": (Rate("title_entries", serial=0.03, disk=1.6, kept=1.6, memory=22.0),),
}
STAGES_OF = {
    "features": ("data",),
    "tree": ("embed", "tree", "levels", "solve", "pack"),
    "towers": ("fit", "encode"),
    "lexical": ("lexical",),
    "neighbors": ("neighbors",),
}
# Describing the candidates of a validation query, and fitting the re-ranker to them.
TUNING = Rate("queries", serial=1600.0, parallel=2060.0, memory=172_000.0)
FITTING = Rate("queries", serial=3.6e6, memory=75e6)  # once


@dataclass(frozen=True, slots=True)
class Cost:
    """What a stage or a part of a training takes."""

    serial: float = 0.0  # seconds of one thread
    parallel: float = 0.0  # seconds of work that all threads share
    disk: float = 0.0  # bytes of the model
    kept: float = 0.0  # bytes of a work folder
    memory: float = 0.0  # bytes that it owns while it runs

    def __add__(self, other: Cost) -> Cost:
        both = zip(_values(self), _values(other), strict=True)
        return Cost(*(one + two for one, two in both))

    def seconds(self, threads: int) -> float:
        """How long it takes with so many threads."""
        return self.serial + self.parallel / threads


def _values(cost: Cost) -> tuple[float, ...]:
    return cost.serial, cost.parallel, cost.disk, cost.kept, cost.memory


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What a training will take, by part."""

    sizes: Sizes
    threads: int
    parts: Mapping[str, Cost]
    n_held: int  # validation queries to tune on
    used_memory: int  # bytes of the process when log, catalog and features are there
    peak_memory: int  # until then

    @property
    def seconds(self) -> float:
        """Time to train, without reading the log."""
        return sum(part.seconds(self.threads) for part in self.parts.values())

    @property
    def disk(self) -> float:
        """Size of the model in bytes."""
        return sum(part.disk for part in self.parts.values())

    @property
    def memory(self) -> float:
        """Largest memory of the process in bytes."""
        needed = max(part.memory for name, part in self.parts.items() if name != "features")
        return max(self.peak_memory, self.used_memory + needed)


def plan_training(log: Log, catalog: Catalog | None, config: TrainConfig) -> TrainingPlan:
    """Make the features that training would use, and estimate the rest from their number."""
    data = prepare_training_data(log, catalog, config, threads=config.learn.threads)
    sizes = Sizes.of(data.examples, len(data.positives.queries))
    n_held = _count_held(log, config)
    threads = count_threads(config.learn.threads)
    return TrainingPlan(sizes, threads, estimate(sizes, config, n_held), n_held, *read_memory())


def estimate(sizes: Sizes, config: TrainConfig, n_held: int) -> dict[str, Cost]:
    """What each part takes; with tuning, every part is trained twice."""
    stages, is_twice = estimate_stages(sizes, config), is_tuned(config)
    found: dict[str, Cost] = {}
    for part, names in STAGES_OF.items():
        costs = [stages[name] for name in names if name in stages]
        if not costs:
            continue
        total = sum(costs, Cost())
        times = 2 if is_twice else 1
        memory = max(cost.memory for cost in costs)
        serial, parallel = times * total.serial, times * total.parallel
        found[part] = Cost(serial, parallel, total.disk, times * total.kept, memory)
    if is_twice:
        found["tuning"] = estimate_tuning(n_held)
    return found


def is_tuned(config: TrainConfig) -> bool:
    """Whether the parts are trained twice."""
    return config.tune and config.parts != ("tree",)


def estimate_stages(sizes: Sizes, config: TrainConfig) -> dict[str, Cost]:
    """What each stage takes, once."""
    sizes = replace(sizes, max_past_queries=config.max_past_queries)
    parts = ["features"]
    parts += [p for p in config.parts if sizes.title_entries > 0 or p in ("tree", "neighbors")]
    seen = sizes if "towers" in parts else sizes.with_titles_as_queries()  # by the tree
    return {
        stage: sum(
            (_cost(rate, seen if part == "tree" else sizes) for rate in RATES[stage]), Cost()
        )
        for part in parts
        for stage in STAGES_OF[part]
    }


def estimate_tuning(n_held: int) -> Cost:
    """What it takes to learn the re-ranker from so many validation queries."""
    return _multiply(TUNING, min(_FITTED, n_held)) + _multiply(FITTING, 1)


def read_memory() -> tuple[int, int]:
    """Bytes that this process uses, and the most that it has used."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # not Linux
        return peak, peak
    return pages * resource.getpagesize(), peak


def _count_held(log: Log, config: TrainConfig) -> int:
    return min(_FITTED, len(hold_back(log, None, config).queries)) if is_tuned(config) else 0


def _cost(rate: Rate, sizes: Sizes) -> Cost:
    return _multiply(rate, getattr(sizes, rate.of))


def _multiply(rate: Rate, n: int) -> Cost:
    seconds = 1e-6 * n * rate.serial, 1e-6 * n * rate.parallel
    return Cost(*seconds, n * rate.disk, n * rate.kept, n * rate.memory)
