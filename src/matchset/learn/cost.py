"""Cost: how long will a training take, how much memory, and how large will the model be?"""

from __future__ import annotations

import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from matchset.config import TrainConfig, count_threads
from matchset.data.catalog import Catalog
from matchset.data.log import Log
from matchset.learn.hold_back import hold_back
from matchset.learn.training_data import Examples, prepare_training_data
from matchset.learn.two_tower import TwoTowerConfig

_FITTED = 3000  # validation queries that the re-ranker learns from, at most


@dataclass(frozen=True, slots=True)
class Sizes:
    """What decides the cost of a training."""

    products: int
    queries: int
    pairs: int
    query_entries: int  # features of all queries, each as often as it occurs
    title_entries: int
    features: int  # distinct

    @classmethod
    def of(cls, examples: Examples, n_queries: int) -> Sizes:
        """The sizes of training data whose first instances are queries, the others titles."""
        X, Y = examples.X, examples.Y
        n_entries = int(X.indptr[n_queries])
        n_pairs = int(Y.indptr[n_queries])
        return cls(Y.n_cols, n_queries, n_pairs, n_entries, int(X.indptr[-1]) - n_entries, X.n_cols)

    @property
    def pairs_seen(self) -> int:
        """Pairs in all passes of the towers."""
        settings = TwoTowerConfig().settle(self.pairs, self.products)
        return self.pairs * (settings.epochs or 0)

    @property
    def entries(self) -> int:
        """Features of queries and titles."""
        return self.query_entries + self.title_entries


@dataclass(frozen=True, slots=True)
class Rate:
    """Cost of a part for each thing it goes through, on one core of about 3 GHz.

    `serial` and `parallel` are microseconds of work that one thread, or all threads, can do;
    `disk` and `memory` are bytes: of the model, and of the process while the part is trained.
    """

    of: str  # a field of `Sizes`
    serial: float = 0.0
    parallel: float = 0.0
    disk: float = 0.0
    memory: float = 0.0


# Measured by benchmarks/plan.py on two idle cores of an AMD EPYC, with shops of 3,000 and 12,000
# products and a marketplace of 6,000. Other processors, or other settings of tree and vectorizer,
# differ from it as much as they are faster or slower.
RATES: Mapping[str, tuple[Rate, ...]] = {
    "features": (
        Rate("entries", serial=0.13, parallel=0.14),
        Rate("features", disk=42.0),
        Rate("products", disk=150.0),
    ),
    "tree": (
        Rate("query_entries", serial=0.11, parallel=0.40, disk=5.2),
        Rate("pairs", serial=0.29, parallel=1.43, disk=9.0),
    ),
    "tree alone": (  # it learns from titles too
        Rate("entries", serial=0.12, parallel=0.37, disk=4.2),
        Rate("pairs", serial=0.03, parallel=2.79, disk=9.0),
    ),
    "towers": (
        Rate("pairs_seen", serial=2.7, parallel=30.0),
        Rate("products", serial=3.6, parallel=10.4, disk=290.0),
        Rate("features", disk=115.0),
    ),
    "lexical": (Rate("title_entries", serial=0.03, disk=1.6),),
    "neighbors": (Rate("query_entries", serial=0.15, disk=7.5), Rate("pairs", disk=6.0)),
}
# Describing the candidates of a validation query, and fitting the re-ranker to them.
TUNING = Rate("queries", serial=1600.0, parallel=2060.0, memory=172_000.0)
FITTING = Rate("queries", serial=3.6e6, memory=75e6)  # once


@dataclass(frozen=True, slots=True)
class PartCost:
    """What one part of a training takes."""

    seconds: float
    disk: float = 0.0  # bytes of the model
    memory: float = 0.0  # bytes of the process


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """What a training will take, by part."""

    sizes: Sizes
    threads: int
    parts: Mapping[str, PartCost]
    n_held: int  # validation queries to tune on
    used_memory: int  # bytes of the process when log, catalog and features are there
    peak_memory: int  # until then

    @property
    def seconds(self) -> float:
        """Time to train, without reading the log."""
        return sum(part.seconds for part in self.parts.values())

    @property
    def disk(self) -> float:
        """Size of the model in bytes."""
        return sum(part.disk for part in self.parts.values())

    @property
    def memory(self) -> float:
        """Largest memory of the process in bytes."""
        needed = self.used_memory + sum(part.memory for part in self.parts.values())
        return max(self.peak_memory, needed)


def plan_training(log: Log, catalog: Catalog | None, config: TrainConfig) -> TrainingPlan:
    """Make the features that training would use, and estimate the rest from their number."""
    data = prepare_training_data(log, catalog, config, threads=config.learn.threads)
    sizes = Sizes.of(data.examples, len(data.positives.queries))
    threads = count_threads(config.learn.threads)
    n_held = _count_held(log, config)
    parts = estimate(sizes, config, threads=threads, n_held=n_held)
    return TrainingPlan(sizes, threads, parts, n_held, *read_memory())


def estimate(
    sizes: Sizes, config: TrainConfig, *, threads: int, n_held: int
) -> dict[str, PartCost]:
    """What each part takes; with tuning, every part is trained twice."""
    is_alone = config.parts == ("tree",)
    has_titles = sizes.title_entries > 0
    trained = [part for part in config.parts if has_titles or part in ("tree", "neighbors")]
    if "towers" not in trained:  # the tree then learns from titles too
        trained = ["tree alone" if part == "tree" else part for part in trained]
    if not is_alone and "neighbors" not in trained:
        trained.append("neighbors")  # the other parts use them
    n_times = 2 if config.tune and not is_alone else 1
    found = {
        part: _sum(RATES[part], sizes, threads=threads, n_times=n_times)
        for part in ("features", *trained)
    }
    if n_times == 2:
        each, once = _cost(TUNING, n_held, threads=threads), _cost(FITTING, 1, threads=threads)
        found["tuning"] = PartCost(each.seconds + once.seconds, memory=each.memory + once.memory)
    return found


def read_memory() -> tuple[int, int]:
    """Bytes that this process uses, and the most that it has used."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:  # not Linux
        return peak, peak
    return pages * resource.getpagesize(), peak


def _count_held(log: Log, config: TrainConfig) -> int:
    if not config.tune or config.parts == ("tree",):
        return 0
    return min(_FITTED, len(hold_back(log, config).queries))


def _sum(rates: tuple[Rate, ...], sizes: Sizes, *, threads: int, n_times: int) -> PartCost:
    costs = [_cost(rate, getattr(sizes, rate.of), threads=threads) for rate in rates]
    return PartCost(
        n_times * sum(cost.seconds for cost in costs),
        sum(cost.disk for cost in costs),
        sum(cost.memory for cost in costs),
    )


def _cost(rate: Rate, n: int, *, threads: int) -> PartCost:
    seconds = 1e-6 * n * (rate.serial + rate.parallel / threads)
    return PartCost(seconds, n * rate.disk, n * rate.memory)
