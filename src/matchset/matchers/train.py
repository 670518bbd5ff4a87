"""Training: how does a log become a matcher?"""

from __future__ import annotations

import logging
import os
import platform
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from matchset.config import TrainConfig, count_threads
from matchset.data.catalog import Catalog
from matchset.data.catalog_reader import read_catalog
from matchset.data.log import Log
from matchset.data.log_reader import read_log
from matchset.data.tables import TableSource
from matchset.learn.train import Progress
from matchset.learn.train import train as train_tree
from matchset.learn.training_data import Lessons, prepare
from matchset.matchers.xr_linear import XRLinearMatcher
from matchset.model.packed import pack
from matchset.model.tree import TreeModel
from matchset.storage.folders import check_target

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrainSummary:
    """What was learned, from what, and at what cost."""

    pairs: int
    queries: int
    products: int
    missing_products: int  # with positive queries, but not in the catalogue
    rule: str  # what made a pair positive
    left_out: int  # pairs with some event, but too few of those that count
    features: int
    tree: tuple[int, ...]  # nodes per level; the last are the products
    weights: tuple[int, ...]  # kept per layer
    n_bytes: int  # of tree, weights and index
    seconds: dict[str, float]  # per stage
    peak_memory: int  # of the process so far, in bytes

    def __str__(self) -> str:
        stages = ", ".join(f"{stage} {spent:.1f}" for stage, spent in self.seconds.items())
        missing = f" ({self.missing_products:,} not in the catalogue)" * bool(self.missing_products)
        return (
            f"{self.pairs:,} pairs of {self.queries:,} queries; "
            f"{self.products:,} products{missing}\n"
            f"positive: {self.rule}; {self.left_out:,} other pairs had too few such events\n"
            f"{self.features:,} features; tree {' x '.join(f'{n:,}' for n in self.tree)}; "
            f"{sum(self.weights):,} weights in {self.n_bytes / 1e6:.1f} MB "
            f"({self.n_bytes / max(1, sum(self.weights)):.2f} bytes each)\n"
            f"{sum(self.seconds.values()):.1f} s ({stages}); "
            f"peak memory {self.peak_memory / 1e9:.2f} GB"
        )


@dataclass(slots=True)
class _Stopwatch:
    """Adds up the time until each step, by stage; the one place with state, for one training."""

    on_progress: Callable[[Progress], None]
    seconds: dict[str, float] = field(default_factory=dict)
    last: float = field(default_factory=time.perf_counter)

    def __call__(self, progress: Progress) -> None:
        now = time.perf_counter()
        self.seconds[progress.stage] = self.seconds.get(progress.stage, 0.0) + now - self.last
        self.last = now
        self.on_progress(progress)


def train(
    log: Log | TableSource,
    catalog: Catalog | TableSource | None = None,
    config: TrainConfig | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
) -> XRLinearMatcher:
    """Learn from a search log which products answer a query.

    `log` and `catalog` are what `read_log` and `read_catalog` give, or take. The model is saved to
    the folder `out`, if one is given. `progress` hears of every step; an exception that it raises
    cancels the training, and nothing is saved.
    """
    if out is not None:
        check_target(Path(out), overwrite=overwrite)
    config = config or TrainConfig()
    watch = _Stopwatch(progress)
    events = log if isinstance(log, Log) else read_log(log)
    goods = catalog if catalog is None or isinstance(catalog, Catalog) else read_catalog(catalog)
    watch(Progress("read", 1, 1))
    lessons = prepare(events, goods, config, threads=config.learn.threads)
    watch(Progress("vectorize", 1, 1))
    model = train_tree(lessons.examples, lessons.config, progress=watch)
    packed = pack(model, precision=config.precision, threads=count_threads(config.learn.threads))
    watch(Progress("pack", 1, 1))
    summary = _sum_up(lessons, model, packed.n_bytes, watch.seconds)
    logger.info("%s", summary)
    matcher = XRLinearMatcher(
        vectorizer=lessons.vectorizer,
        tree=packed,
        products=lessons.products,
        config=config,
        query_hashes=np.sort(lessons.positives.queries.hashes()),
        n_queries_of=lessons.n_queries_of,
        provenance=_trace(summary),
    )
    if out is not None:
        matcher.save(out, overwrite=overwrite)
    return matcher


def _trace(summary: TrainSummary) -> dict[str, Any]:
    """When and with what a model was made."""
    return {
        "trained": datetime.now(UTC).isoformat(timespec="seconds"),
        "matchset": version("matchset"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "summary": asdict(summary),
    }


def _sum_up(
    lessons: Lessons, model: TreeModel, n_bytes: int, seconds: dict[str, float]
) -> TrainSummary:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return TrainSummary(
        pairs=len(lessons.positives),
        queries=len(lessons.positives.queries),
        products=len(lessons.products),
        missing_products=lessons.n_missing,
        rule=str(lessons.positives.rule),
        left_out=lessons.n_left_out,
        features=lessons.vectorizer.n_features,
        tree=model.tree.sizes,
        weights=tuple(len(layer.weights) for layer in model.layers),
        n_bytes=n_bytes,
        seconds=seconds,
        peak_memory=peak if sys.platform == "darwin" else 1024 * peak,
    )
