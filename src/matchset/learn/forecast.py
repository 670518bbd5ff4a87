"""Forecast: how long will a training that runs take to its end?"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence

from matchset.config import TrainConfig
from matchset.learn.cost import estimate_stages, estimate_tuning
from matchset.learn.sizes import Sizes
from matchset.work.tasks import Done, Results, Stage

logger = logging.getLogger(__name__)

_FEW_SECONDS = 2.0  # until then, this machine is taken to be as fast as the one of the estimate


class Forecast:
    """Compares the estimate of each stage with the time it took; mutable, for one training.

    What was found done, in a training that goes on, is left out of the comparison.
    """

    def __init__(self, stages: Sequence[Stage], config: TrainConfig, *, threads: int) -> None:
        self._config, self._threads = config, threads
        self._needed = _list_needed(stages)
        self._silent = set(self._needed)  # stages of which nothing was heard
        self._left = dict.fromkeys(self._needed, 1.0)  # share of each stage
        self._worked = dict.fromkeys(self._needed, 0.0)
        self._seconds: dict[str, float] | None = None  # estimated, of each stage
        self._began = time.monotonic()

    def hear(self, done: Done, results: Results) -> float | None:
        """Seconds left after a step; None while the data are not known."""
        # Stages without tasks are never heard of: they end with the first that needs them.
        ended = self._needed[done.stage] & self._silent
        self._silent -= {done.stage, *ended}
        self._left |= {**dict.fromkeys(ended, 0.0), done.stage: 1 - done.done / done.total}
        if self._seconds is None:
            self._seconds = self._estimate(results)
            self._began = time.monotonic()
            if self._seconds is None:
                return None
        else:  # from here on, times are compared
            is_new = float(done.done > done.n_found)
            self._worked |= dict.fromkeys(ended, is_new)
            self._worked[done.stage] = (done.done - done.n_found) / done.total
        worked = sum(self._worked[name] * spent for name, spent in self._seconds.items())
        elapsed = time.monotonic() - self._began
        slower = elapsed / worked if min(elapsed, worked) > _FEW_SECONDS else 1.0
        left = slower * sum(self._left[name] * spent for name, spent in self._seconds.items())
        if done.done == done.total:
            logger.info("%s is done; about %.0f s are left", done.stage, left)
        return left

    def _estimate(self, results: Results) -> dict[str, float] | None:
        found = next((name for name in ("final/data", "tune/data") if results.has(name)), None)
        if found is None or not (n_queries := results.get(found, "n_queries")):
            return None
        sizes = Sizes.of(results.get(found, "examples"), n_queries)
        costs = estimate_stages(sizes, self._config)
        costs["reranker"] = estimate_tuning(n_queries)
        wholes = {stage: stage.partition(".")[0] for stage in self._left}
        n_steps = Counter(wholes.values())  # which are taken to cost the same
        names = {stage: whole.rpartition("/")[2] for stage, whole in wholes.items()}
        return {
            stage: costs[name].seconds(self._threads) / n_steps[wholes[stage]]
            if name in costs
            else 0.0
            for stage, name in names.items()
        }


def _list_needed(stages: Sequence[Stage]) -> dict[str, set[str]]:
    """All stages that are done before each one; those that a stage needs come before it."""
    found: dict[str, set[str]] = {}
    for stage in stages:
        own = [need for need in stage.needs if need in found]
        found[stage.name] = set(own).union(*(found[need] for need in own))
    return found
