"""Training of DSSM: how does a log become vectors of queries and products?"""

from __future__ import annotations

import logging
import os
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from matchset.config import count_threads
from matchset.data.catalog import Catalog
from matchset.data.catalog_reader import read_catalog
from matchset.data.log import Log
from matchset.data.log_reader import read_log
from matchset.data.tables import TableSource
from matchset.lab.dssm.batches import TrainingData, prepare_training_data
from matchset.lab.dssm.exact import DSSM
from matchset.lab.dssm.settings import DSSMConfig, import_extra
from matchset.lab.dssm.space import Space, Tower
from matchset.storage.file import check_target
from matchset.work.steps import Progress

if TYPE_CHECKING:
    from matchset.lab.dssm.network import Fitted

logger = logging.getLogger(__name__)


def train_dssm(
    log: Log | TableSource,
    catalog: Catalog | TableSource,
    config: DSSMConfig | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> DSSM:
    """Learn vectors that put a query near the titles of what customers bought with it.

    `log` and `catalog` are what `read_log` and `read_catalog` return or accept. It needs PyTorch,
    the extra `dssm`. On a CPU the same seed and number of threads give the same bytes. `progress`
    is called at every step. If it raises an exception, the training is canceled and nothing is
    saved.
    """
    import_extra("torch")
    from matchset.lab.dssm.network import fit  # the only module that needs PyTorch

    if out is not None:
        check_target(Path(out), overwrite=overwrite)
    config = config or DSSMConfig()
    n_threads = count_threads(threads)
    started = time.perf_counter()
    events = log if isinstance(log, Log) else read_log(log)
    sold = catalog if isinstance(catalog, Catalog) else read_catalog(catalog)
    progress(Progress("read", 1, 1))
    data = prepare_training_data(events, sold, config, threads=n_threads)
    progress(Progress("vectorize", 1, 1))
    fitted = fit(data.examples, config, threads=n_threads, progress=progress)
    tower = Tower(data.vectorizer, fitted.embeddings, fitted.shift)
    vectors = tower.encode(data.titles, threads=n_threads)
    progress(Progress("encode", 1, 1))
    matcher = DSSM(
        Space(
            products=data.products,
            tower=tower,
            vectors=vectors,
            query_hashes=np.sort(data.positives.queries.hashes()),
            n_queries_of=data.n_queries_of,
            config=config,
            provenance=_trace(data, fitted, time.perf_counter() - started),
        )
    )
    if out is not None:
        matcher.save(out, overwrite=overwrite)
    return matcher


def _trace(data: TrainingData, fitted: Fitted, seconds: float) -> dict[str, Any]:
    """Return when, with what and from what it was made, and its recall of validation queries."""
    summary = {
        "pairs": len(data.positives),
        "queries": len(data.positives.queries),
        "products": len(data.products),
        "rule": str(data.positives.rule),
        "features": data.vectorizer.n_features,
        "epochs": fitted.epochs,
        "validation_recall": list(fitted.recalls),
        "device": fitted.device,
        "seconds": seconds,
    }
    logger.info("trained: %s", summary)
    return {
        "trained": datetime.now(UTC).isoformat(timespec="seconds"),
        "matchset": version("matchset"),
        "torch": version("torch"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "summary": summary,
    }
