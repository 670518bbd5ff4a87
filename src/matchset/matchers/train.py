"""Training: how does a log become a matcher?"""

from __future__ import annotations

import logging
import os
import platform
from collections.abc import Callable
from dataclasses import asdict
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
from matchset.learn.summary import Stopwatch, TrainSummary, summarize
from matchset.learn.train import Progress
from matchset.learn.train import train as train_tree
from matchset.learn.train_match_set import train_match_set
from matchset.learn.training_data import prepare_training_data
from matchset.matchers.match_set import MatchSet, forget_names
from matchset.matchers.xr_linear import XRLinearMatcher
from matchset.model.packed import pack
from matchset.storage.folders import check_target

logger = logging.getLogger(__name__)


def train(
    log: Log | TableSource,
    catalog: Catalog | TableSource | None = None,
    config: TrainConfig | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: Callable[[Progress], None] = lambda _: None,
) -> XRLinearMatcher | MatchSet:
    """Learn from a search log which products answer a query.

    With `parts=("tree",)` in the configuration it is an `XRLinearMatcher`, else a `MatchSet`.

    `log` and `catalog` are what `read_log` and `read_catalog` return or accept. With `out`, the
    model is saved to that folder. `progress` is called after every step; an exception it raises
    cancels the training, and nothing is saved. `matcher.summary` holds figures of the training.
    """
    if out is not None:
        check_target(Path(out), overwrite=overwrite)
    config = config or TrainConfig()
    watch = Stopwatch(progress)
    log = log if isinstance(log, Log) else read_log(log)
    catalog = read_catalog(catalog) if not isinstance(catalog, Catalog | None) else catalog
    watch(Progress("read", 1, 1))
    matcher = (
        _train_tree(log, catalog, config, watch)
        if config.parts == ("tree",)
        else _train_match_set(log, catalog, config, watch)
    )
    if out is not None:
        matcher.save(out, overwrite=overwrite)
    return matcher


def _train_tree(
    log: Log, catalog: Catalog | None, config: TrainConfig, watch: Stopwatch
) -> XRLinearMatcher:
    data = prepare_training_data(log, catalog, config, threads=config.learn.threads)
    watch(Progress("vectorize", 1, 1))
    trained = train_tree(data.examples, config.learn, progress=watch)
    packed = pack(
        trained.model, precision=config.precision, threads=count_threads(config.learn.threads)
    )
    watch(Progress("pack", 1, 1))
    summary = summarize(data, trained, n_bytes=packed.n_bytes, seconds=watch.seconds)
    logger.info("%s", summary)
    return XRLinearMatcher(
        vectorizer=data.vectorizer,
        tree=packed,
        products=data.products,
        config=config,
        query_hashes=np.sort(data.positives.queries.hashes()),
        n_queries_of=data.n_queries_of,
        provenance=_make_provenance(summary),
    )


def _train_match_set(
    log: Log, catalog: Catalog | None, config: TrainConfig, watch: Stopwatch
) -> MatchSet:
    trained = train_match_set(log, catalog, config, progress=watch)
    data, model = trained.data, trained.model
    n_bytes = sum(model.part_bytes().values())
    summary = summarize(
        data, trained.tree, n_bytes=n_bytes, seconds=watch.seconds, model=trained.model
    )
    logger.info("%s", summary)
    return MatchSet(
        vectorizer=forget_names(data.vectorizer),
        model=model,
        products=data.products,
        config=config,
        query_hashes=np.sort(data.positives.queries.hashes()),
        n_queries_of=data.n_queries_of,
        provenance=_make_provenance(summary),
    )


def _make_provenance(summary: TrainSummary) -> dict[str, Any]:
    """When, where and by which version a model was made."""
    return {
        "trained": datetime.now(UTC).isoformat(timespec="seconds"),
        "matchset": version("matchset"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "summary": asdict(summary),
    }
