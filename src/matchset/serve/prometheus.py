"""Prometheus: how many requests, how fast and how loaded, over all workers?

prometheus_client adds up files that each process writes: in memory, full size from the start, so
that a full file system costs no worker. Each worker holds the lock of a numbered slot, and goes on
where a dead one stopped: the files stay as many as the slots, and sums never fall.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, values
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector

logger = logging.getLogger(__name__)
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
RELOADED = "done"  # the outcome of a reload that succeeded
_BUCKETS = (
    0.0001, 0.0002, 0.0003, 0.0005, 0.001, 0.002, 0.005, 0.01,
    0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0,
)  # fmt: skip
_MEMORY = Path("/dev/shm")  # noqa: S108  # not Linux: the temporary folder
_PREFIX, _HELD = "matchset-", "held"  # of the folder, and of what its server holds
_GAUGE = "gauge_livesum"
_BYTES = {"counter": 262_144, "histogram": 262_144, _GAUGE: 16_384}  # some 100 series are used


@contextmanager
def make_slots(n: int) -> Iterator[Path]:
    """Make a folder with n slots; an OSError if neither memory nor a disk has room."""
    parent = _MEMORY if _MEMORY.is_dir() and _has_room(n) else Path(tempfile.gettempdir())
    _remove_leftovers(parent)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    with (folder / _HELD).open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield from _fill(folder, n)


def _fill(folder: Path, n: int) -> Iterator[Path]:
    try:
        for slot in range(n):
            (folder / f"{slot}.lock").touch()
            for kind, size in _BYTES.items():
                with (folder / f"{kind}_{slot}.db").open("wb") as stream:
                    os.posix_fallocate(stream.fileno(), 0, size)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_leftovers(parent: Path) -> None:
    """Remove what killed servers left: nobody holds it any more."""
    for held in parent.glob(f"{_PREFIX}*/{_HELD}"):
        with suppress(OSError), held.open() as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            shutil.rmtree(held.parent, ignore_errors=True)


def _has_room(n: int) -> bool:
    stat = os.statvfs(_MEMORY)
    return stat.f_bavail * stat.f_frsize > 2 * n * sum(_BYTES.values())


class Metrics:
    """The metrics of this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock, slot = _claim(folder)
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
        values.ValueClass = values.MultiProcessValue(lambda: slot)  # type: ignore[no-untyped-call]
        registry = CollectorRegistry()
        route, matcher = ["route"], ["matcher"]
        self._requests = Counter(
            "matchset_requests", "Requests.", [*route, "status"], registry=registry
        )
        self._seconds = Histogram(
            "matchset_request_seconds",
            "Time from the headers of a request to the end of its response.",
            route,
            buckets=_BUCKETS,
            registry=registry,
        )
        self._queries = Counter("matchset_queries", "Queries.", matcher, registry=registry)
        self._empty = Counter(
            "matchset_empty_results", "Queries without any product.", matcher, registry=registry
        )
        self._reloads = Counter(
            "matchset_reloads", "Reloads by outcome.", ["outcome"], registry=registry
        )
        self._kept = Counter(
            "matchset_records_kept",
            "Records, kept before the answer was sent.",
            ["stream"],
            registry=registry,
        )
        self._dropped = Counter(
            "matchset_records_dropped",
            "Records that were dropped, by reason.",
            ["stream", "reason"],
            registry=registry,
        )
        self._in_flight = Gauge(
            "matchset_requests_in_flight",
            "Requests being handled.",
            multiprocess_mode="livesum",
            registry=registry,
        )
        self._in_flight.set(0)  # those of the worker before died with it
        self._routes: frozenset[str] = frozenset()
        # Finding a series by its labels takes longer than counting.
        self._by_route: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._by_matcher: dict[str, tuple[Counter, Counter]] = {}

    def begin(self, routes: Iterable[str], matchers: Iterable[str]) -> None:
        """Count from 0: a rate needs the value before the first request.

        Requests of other routes are not counted.
        """
        self._routes = frozenset(routes)
        for route in sorted(self._routes):
            self._find_route(route, 200)
        for matcher in matchers:
            self.count_queries(matcher, 0, 0)
        self._reloads.labels(RELOADED)

    def count_in_flight(self, change: int) -> None:
        """Count a request that has begun (1) or ended (-1)."""
        self._in_flight.inc(change)

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request and its time."""
        if route in self._routes:
            requests, timed = self._by_route.get((route, status)) or self._find_route(route, status)
            requests.inc()
            timed.observe(seconds)

    def _find_route(self, route: str, status: int) -> tuple[Counter, Histogram]:
        found = self._requests.labels(route, str(status)), self._seconds.labels(route)
        return self._by_route.setdefault((route, status), found)

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

    def count_records(self, stream: str, fault: str | None, n_records: int) -> None:
        """Count records that were kept, or dropped for a reason."""
        if fault is None:
            self._kept.labels(stream).inc(n_records)
        else:
            self._dropped.labels(stream, fault).inc(n_records)

    def serve(self, version: str) -> None:
        """Say which model version this worker serves."""
        os.pwrite(self._lock.fileno(), version.encode().ljust(32), 0)

    def write(self) -> bytes:
        """Return the sums over all workers, in the text format of Prometheus."""
        registry = CollectorRegistry()
        registry.register(_Sums(self._folder))
        return generate_latest(registry)

    def close(self) -> None:
        """Give the slot back."""
        self._lock.close()


class _Sums:
    """What all processes have counted; requests in flight only of those that live."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        live = read_versions(self._folder)
        files = [
            file
            for file in self._folder.glob("*.db")
            if not file.name.startswith(_GAUGE) or int(file.stem.rpartition("_")[2]) in live
        ]
        merge = MultiProcessCollector.merge
        yield from merge([str(file) for file in files])  # type: ignore[no-untyped-call]
        workers = GaugeMetricFamily(
            "matchset_workers", "Workers by the model version they serve.", labels=["version"]
        )
        versions = [version for version in live.values() if version]
        for version in sorted(set(versions)):
            workers.add_metric([version], versions.count(version))
        yield workers


def read_versions(folder: Path) -> dict[int, str]:
    """Return the version that each live process serves, by slot; empty before it serves."""
    found = {}
    for file in folder.glob("*.lock"):
        with file.open() as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                found[int(file.stem)] = stream.read().strip()
    return found


def _claim(folder: Path) -> tuple[IO[bytes], str]:
    """Take a slot that no other process has; the kernel frees it when this one ends."""
    for file in sorted(folder.glob("*.lock"), key=lambda one: int(one.stem)):
        stream = file.open("r+b", buffering=0)
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stream.close()
        else:
            stream.truncate(0)
            return stream, file.stem
    raise RuntimeError("a server must have a slot for each worker; got all in use")
