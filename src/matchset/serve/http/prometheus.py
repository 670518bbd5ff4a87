"""Metrics: how often, how fast, how full, over all workers?

Each worker keeps its numbers in mapped files of the run folder; whichever is asked adds them up.
Counters of workers that died stay in the sums, what was in flight there does not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from matchset.serve.reload.generations import RunFolder, forget_dead, read_workers

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram
    from prometheus_client.core import Metric

_BUCKETS = (
    0.0001, 0.0002, 0.0003, 0.0005, 0.001, 0.002, 0.005, 0.01,
    0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
)  # fmt: skip
_LIVE = "gauge_live*.db"  # files of numbers that end with their process
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


def prepare(run: RunFolder) -> ModuleType:
    """Import what counts; where it keeps its files is settled when it is first imported."""
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(run.metrics)
    return import_module("prometheus_client")


class Metrics:
    """The numbers of this worker."""

    def __init__(self, run: RunFolder) -> None:
        prometheus = prepare(run)

        self._run = run
        registry = prometheus.CollectorRegistry()  # per worker; sums have their own
        self._requests = prometheus.Counter(
            "matchset_requests", "Requests.", ["route", "status"], registry=registry
        )
        self._seconds = prometheus.Histogram(
            "matchset_request_seconds",
            "Time from the headers of a request to the end of its answer.",
            ["route"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self._queries = prometheus.Counter(
            "matchset_queries", "Queries asked.", ["matcher"], registry=registry
        )
        self._empty = prometheus.Counter(
            "matchset_empty_results", "Queries without a product.", ["matcher"], registry=registry
        )
        self._reloads = prometheus.Counter(
            "matchset_reloads", "Reloads, by what became of them.", ["outcome"], registry=registry
        )
        self.in_flight = prometheus.Gauge(
            "matchset_requests_in_flight",
            "Requests that are being answered.",
            multiprocess_mode="livesum",
            registry=registry,
        )
        # Looking children up by their labels takes as long as counting.
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._asked: dict[str, Counter] = {}

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Note a request that was answered."""
        known = self._known.get((route, status))
        if known is None:
            known = self._requests.labels(route, str(status)), self._seconds.labels(route)
            self._known[route, status] = known
        known[0].inc()
        known[1].observe(seconds)

    def count_queries(self, matcher: str, n_queries: int, n_empty: int) -> None:
        """Note queries."""
        asked = self._asked.get(matcher)
        if asked is None:
            asked = self._asked[matcher] = self._queries.labels(matcher)
        asked.inc(n_queries)
        if n_empty:
            self._empty.labels(matcher).inc(n_empty)

    def count_reload(self, outcome: str) -> None:
        """Note a reload."""
        self._reloads.labels(outcome).inc()

    def write(self) -> bytes:
        """The sums over all workers, in the text format of Prometheus."""
        from prometheus_client import CollectorRegistry, generate_latest, multiprocess

        forget_dead(self._run)
        self._forget_in_flight_of_dead()
        registry = CollectorRegistry()
        folder = str(self._run.metrics)
        multiprocess.MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]
        registry.register(_Workers(self._run))
        return generate_latest(registry)

    def _forget_in_flight_of_dead(self) -> None:
        # Files first: workers are registered before they count, so that none that starts is lost.
        files = {file.stem.rpartition("_")[2]: file for file in self._run.metrics.glob(_LIVE)}
        live = read_workers(self._run)
        for pid, file in files.items():
            if int(pid) not in live:
                file.unlink(missing_ok=True)


class _Workers:
    """Who serves what, as the run folder tells."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(
            "matchset_workers", "Workers, by the model version that they serve.", labels=["version"]
        )
        said = [one.version for one in read_workers(self._run).values() if one and one.is_open]
        for version in sorted(set(said)):
            family.add_metric([version], said.count(version))
        yield family
