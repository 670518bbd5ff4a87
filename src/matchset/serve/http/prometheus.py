"""Prometheus: how many requests, how fast and how loaded, over all workers?

Each worker counts in mapped files of the run folder, and whichever is asked sums them up. Counts
of dead workers stay in the sums; their requests in flight do not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from matchset.serve.reload.run_folder import RunFolder, read_workers, remove_dead_workers

if TYPE_CHECKING:
    from prometheus_client import Counter, Histogram
    from prometheus_client.core import Metric

_BUCKETS = (
    0.0001, 0.0002, 0.0003, 0.0005, 0.001, 0.002, 0.005, 0.01,
    0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
)  # fmt: skip
_LIVE = "gauge_live*.db"  # files of values that end with their process
RELOADED = "done"  # the outcome of a reload that succeeded
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


def prepare(run: RunFolder) -> ModuleType:
    """Import prometheus_client; its first import decides where its files are."""
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(run.metrics)
    return import_module("prometheus_client")


class Metrics:
    """The metrics of this worker."""

    def __init__(self, run: RunFolder) -> None:
        prometheus = prepare(run)

        self._run = run
        registry = prometheus.CollectorRegistry()  # per worker; sums have their own
        self._requests = prometheus.Counter(
            "matchset_requests", "Requests.", ["route", "status"], registry=registry
        )
        self._seconds = prometheus.Histogram(
            "matchset_request_seconds",
            "Time from the headers of a request to the end of its response.",
            ["route"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self._queries = prometheus.Counter(
            "matchset_queries", "Queries.", ["matcher"], registry=registry
        )
        self._empty = prometheus.Counter(
            "matchset_empty_results", "Queries without any product.", ["matcher"], registry=registry
        )
        self._reloads = prometheus.Counter(
            "matchset_reloads", "Reloads by outcome.", ["outcome"], registry=registry
        )
        self.in_flight = prometheus.Gauge(
            "matchset_requests_in_flight",
            "Requests being handled.",
            multiprocess_mode="livesum",
            registry=registry,
        )
        self._routes: frozenset[str] = frozenset()
        # Finding a child by its labels takes as long as counting.
        self._by_route: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._by_matcher: dict[str, tuple[Counter, Counter]] = {}
        self._reloads.labels(RELOADED)

    def begin(self, routes: Iterable[str], matchers: Iterable[str]) -> None:
        """Count from 0: a rate needs the value before the first request.

        Requests of other routes are not counted.
        """
        self._routes = frozenset(routes)
        for route in sorted(self._routes):
            self._find_route(route, 200)
        for matcher in matchers:
            self.count_queries(matcher, 0, 0)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request and its time."""
        if route not in self._routes:
            return
        known = self._by_route.get((route, status)) or self._find_route(route, status)
        known[0].inc()
        known[1].observe(seconds)

    def _find_route(self, route: str, status: int) -> tuple[Counter, Histogram]:
        found = self._requests.labels(route, str(status)), self._seconds.labels(route)
        self._by_route[route, status] = found
        return found

    def count_queries(self, matcher: str, n_queries: int, n_empty: int) -> None:
        """Count queries, and those without any product."""
        known = self._by_matcher.get(matcher)
        if known is None:  # both at once: an alert needs the 0 as well
            known = self._queries.labels(matcher), self._empty.labels(matcher)
            self._by_matcher[matcher] = known
        known[0].inc(n_queries)
        known[1].inc(n_empty)

    def count_reload(self, outcome: str) -> None:
        """Count a reload."""
        self._reloads.labels(outcome).inc()

    def write(self) -> bytes:
        """The sums over all workers, in the text format of Prometheus."""
        from prometheus_client import CollectorRegistry, generate_latest, multiprocess

        remove_dead_workers(self._run)
        self._remove_gauges_of_dead_workers()
        registry = CollectorRegistry()
        folder = str(self._run.metrics)
        multiprocess.MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]
        registry.register(_Workers(self._run))
        return generate_latest(registry)

    def _remove_gauges_of_dead_workers(self) -> None:
        # Files first: a worker registers before it counts, so no file of a new one is removed.
        files = {file.stem.rpartition("_")[2]: file for file in self._run.metrics.glob(_LIVE)}
        live = read_workers(self._run)
        for pid, file in files.items():
            if int(pid) not in live:
                file.unlink(missing_ok=True)


class _Workers:
    """How many workers serve which version, from the run folder."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(
            "matchset_workers", "Workers by the model version they serve.", labels=["version"]
        )
        served = [one.version for one in read_workers(self._run).values() if one and one.is_open]
        for version in sorted(set(served)):
            family.add_metric([version], served.count(version))
        yield family
