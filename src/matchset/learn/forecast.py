"""Forecast: how long will a training that runs take to its end?"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Collection, Mapping

from matchset.config import TrainConfig
from matchset.learn.cost import Sizes, estimate_stages, estimate_tuning
from matchset.work.tasks import Done, Results

logger = logging.getLogger(__name__)

_FEW_SECONDS = 2.0  # until then, this machine is taken to be as fast as the one of the estimate


class Forecast:
    """Compares the estimate of each stage with the time it took; mutable, for one training.

    What was found done, in a training that goes on, is left out of the comparison.
    """

    def __init__(self, stages: Collection[str], config: TrainConfig, *, threads: int) -> None:
        self._config, self._threads = config, threads
        self._left = dict.fromkeys(stages, 1.0)  # share of each stage
        self._worked = dict.fromkeys(stages, 0.0)
        self._seconds: dict[str, float] | None = None  # estimated, by name
        self._began = time.monotonic()

    def hear(self, done: Done, results: Results) -> float | None:
        """Seconds left after a step; None while the data are not known."""
        if done.total == 0:  # others of its name do the work
            self._left.pop(done.stage)
        else:
            self._left[done.stage] = 1 - done.done / done.total
        if self._seconds is None:
            self._seconds = self._estimate(results)
            self._began = time.monotonic()
            if self._seconds is None:
                return None
        elif done.total:  # from here on, times are compared
            self._worked[done.stage] = (done.done - done.n_found) / done.total
        seconds = self._share(self._seconds)
        worked = sum(self._worked[stage] * spent for stage, spent in seconds.items())
        elapsed = time.monotonic() - self._began
        slower = elapsed / worked if min(elapsed, worked) > _FEW_SECONDS else 1.0
        left = slower * sum(self._left[stage] * spent for stage, spent in seconds.items())
        if 0 < done.done == done.total:
            logger.info("%s is done; about %.0f s are left", done.stage, left)
        return left

    def _share(self, seconds: Mapping[str, float]) -> dict[str, float]:
        """Seconds of each stage: those of one name, such as "solve.0", share its estimate."""
        names = {stage: stage.rpartition("/")[2].partition(".")[0] for stage in self._left}
        n_stages = Counter((stage.rpartition("/")[0], name) for stage, name in names.items())
        return {
            stage: seconds.get(name, 0.0) / n_stages[stage.rpartition("/")[0], name]
            for stage, name in names.items()
        }

    def _estimate(self, results: Results) -> dict[str, float] | None:
        """Seconds for each name of a stage."""
        found = next((name for name in ("final/data", "tune/data") if results.has(name)), None)
        if found is None or not (n_queries := results.get(found, "n_queries")):
            return None
        sizes = Sizes.of(results.get(found, "examples"), n_queries)
        costs = estimate_stages(sizes, self._config)
        costs["reranker"] = estimate_tuning(n_queries)
        return {name: cost.seconds(self._threads) for name, cost in costs.items()}
