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

from matchset.config import TrainConfig
from matchset.data.catalog import Catalog, require_products_of
from matchset.data.catalog_reader import read_catalog
from matchset.data.log import Log
from matchset.data.log_reader import read_log
from matchset.data.recency import find_last_day
from matchset.data.tables import TableSource
from matchset.errors import ParameterError
from matchset.learn.summary import Stopwatch, TrainSummary, summarize
from matchset.learn.train_match_set import (
    TrainedMatchSet,
    train_match_set,
)
from matchset.matchers.match_set import MatchSet, forget_names
from matchset.matchers.xr_linear import XRLinearMatcher
from matchset.memory import DEFAULT_MEMORY, Memory, limit_memory
from matchset.storage.file import check_target
from matchset.work.pools import EngineName, check_engine
from matchset.work.steps import Progress

logger = logging.getLogger(__name__)
_FEW_QUERIES = 30  # with a positive product


def train(
    log: Log | TableSource,
    catalog: Catalog | TableSource | None = None,
    config: TrainConfig | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    work: str | os.PathLike[str] | None = None,
    engine: EngineName = "threads",
    memory: Memory = DEFAULT_MEMORY,
    progress: Callable[[Progress], None] = lambda _: None,
) -> XRLinearMatcher | MatchSet:
    """Learn from a search log which products answer a query.

    Returns a `MatchSet`, or an `XRLinearMatcher` if the configuration has `parts=("tree",)`.

    `log` and `catalog` are what `read_log` and `read_catalog` return or accept. With `out`, the
    model is saved to that folder. `progress` is called after every step. If it raises an exception,
    the training is canceled and nothing is saved. `matcher.summary` holds figures of the training.

    With a `work` folder, the result of each step is kept there, and the same call resumes after a
    crash. `engine` then chooses where the steps run: in "threads" of this process, in "processes"
    of this machine, or on a "ray" cluster whose machines share that folder. Neither changes a byte
    of the model. The folder holds queries, so remove it when the model is trained.

    The process owns at most about `memory` (bytes, or "3GB"). Arrays that need more are mapped from
    temporary files next to `out`, in the work folder, or else in the folder for temporary files.
    """
    check_places(engine, work, out, overwrite=overwrite)
    config = config or TrainConfig()
    with limit_memory(memory, work if out is None else Path(out).parent):
        watch = Stopwatch(progress)
        log = log if isinstance(log, Log) else read_log(log, memory=memory)
        if not isinstance(catalog, Catalog | None):
            catalog = read_catalog(catalog, memory=memory)
        if catalog is not None:
            require_products_of(log.products, catalog)
        watch(Progress("read", 1, 1))
        trained = train_match_set(log, catalog, config, work=work, engine=engine, progress=watch)
        summary = summarize(trained, watch.seconds)
        logger.info("%s", summary)
        if summary.queries < _FEW_QUERIES:
            few = f"{summary.pairs:,} positive pairs of {summary.queries:,} queries"
            logger.warning("%s are too few to learn from; a log should have hundreds", few)
        matcher = make_matcher(trained, config, _make_provenance(summary, log))
        if out is not None:
            matcher.save(out, overwrite=overwrite)
        return matcher


def check_places(
    engine: EngineName,
    work: str | os.PathLike[str] | None,
    out: str | os.PathLike[str] | None,
    *,
    overwrite: bool,
) -> None:
    """Raise where a training cannot run or save, before a long log is read."""
    check_engine(engine, work)
    if out is None:
        return
    check_target(Path(out), overwrite=overwrite)
    if work is not None and Path(work).resolve().is_relative_to(Path(out).resolve()):
        rule = f"must lie outside the model's file, {os.fspath(out)}; got {os.fspath(work)}"
        raise ParameterError(rule, parameter="work")


def make_matcher(
    trained: TrainedMatchSet, config: TrainConfig, provenance: dict[str, Any] | None = None
) -> XRLinearMatcher | MatchSet:
    """Return the matcher of a model: the tree alone is one of its own."""
    data, model = trained.data, trained.model
    shared: dict[str, Any] = {
        "products": data.products,
        "config": config,
        "query_hashes": np.sort(data.positives.queries.hashes()),
        "n_queries_of": data.n_queries_of,
        "provenance": provenance or {},
    }
    if config.parts == ("tree",) and model.tree is not None:
        return XRLinearMatcher(vectorizer=data.vectorizer, tree=model.tree, **shared)
    return MatchSet(vectorizer=forget_names(data.vectorizer), model=model, **shared)


def _make_provenance(summary: TrainSummary, log: Log) -> dict[str, Any]:
    """Say when, where and by which version a model was made, and from which days of a log."""
    last_day = find_last_day(log)
    return {
        "trained": datetime.now(UTC).isoformat(timespec="seconds"),
        "last_day": None if last_day is None else last_day.isoformat(),
        "matchset": version("matchset"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "summary": asdict(summary),
    }
