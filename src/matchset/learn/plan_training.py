"""Plan: what will a training take? Samples of that very log are trained, and say how it grows."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from matchset import _native
from matchset.config import TrainConfig
from matchset.data.catalog import Catalog
from matchset.data.log import Log
from matchset.data.positives import positives
from matchset.learn.train_match_set import train_match_set

SHARES = 1 / 12, 1 / 4  # of the queries
_MOST_QUERIES = 60_000  # of the larger sample: a minute or two of two cores
_INTERVAL = 0.01  # seconds between two looks at the memory


@dataclass(frozen=True, slots=True)
class Cost:
    """What a training takes, from a log in memory to a model in memory."""

    pairs: int
    seconds: float
    memory: int  # bytes that the process owns or maps from temporary files, at most
    model: int  # bytes


def plan_training(
    log: Log, catalog: Catalog | None, config: TrainConfig
) -> tuple[Cost, tuple[Cost, Cost]]:
    """Train on two samples of the queries; return what all of the log will take, and what they did.

    Cost grows along a line. Where it does not, as n-grams repeat and caches are full, a long
    training differs: see docs/scale.md.
    """
    n = len(log.queries)
    order = np.random.default_rng(config.learn.seed).permutation(n)
    sizes = [round(n * share * min(1, _MOST_QUERIES / (n * SHARES[-1]))) for share in SHARES]
    samples = [log.select((order < max(1, size))[log.query]) for size in sizes]
    few, many = (measure(sample, catalog, config) for sample in samples)
    whole = len(positives(log, events=config.events, min_count=config.min_count))
    return extend(few, many, whole), (few, many)


def extend(few: Cost, many: Cost, pairs: int) -> Cost:
    """Return the cost of so many pairs, on the line through two others; it never falls."""
    times = (pairs - many.pairs) / max(1, many.pairs - few.pairs)
    seconds, memory, model = (
        old + max(0.0, times * (old - getattr(few, name)))
        for name in ("seconds", "memory", "model")
        for old in (getattr(many, name),)
    )
    return Cost(pairs, seconds, round(memory), round(model))


def measure(log: Log, catalog: Catalog | None, config: TrainConfig) -> Cost:
    """Train, and say what that took."""
    began = time.perf_counter()
    with _watch_memory() as peak:
        trained = train_match_set(log, catalog, config)
    seconds = time.perf_counter() - began
    return Cost(
        len(trained.data.positives), seconds, peak[0], sum(trained.model.part_bytes().values())
    )


@contextmanager
def _watch_memory() -> Iterator[list[int]]:
    """Find the most memory that the process takes inside; zero where the system does not say."""
    peak, is_over = [0], threading.Event()

    def watch() -> None:
        while True:
            peak[0] = max(peak[0], read_owned() + _native.mapped_bytes())
            if is_over.wait(_INTERVAL):
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        is_over.set()
        watcher.join()


def read_owned() -> int:
    """Return the bytes that this process owns, which no file backs; zero if not on Linux."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024
