"""Prometheus: how many requests, how fast and how loaded, over all workers?

Each worker counts in its slot, which is memory that all of them share, and whichever is asked sums
them up. Counts of dead workers stay in the sums; their requests in flight do not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate

from matchset.serve.reload.run_folder import RunFolder, read_workers
from matchset.serve.reload.slots import Slot, read_slots

_BUCKETS = (
    0.0001, 0.0002, 0.0003, 0.0005, 0.001, 0.002, 0.005, 0.01,
    0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, float("inf"),
)  # fmt: skip
_REQUESTS = "matchset_requests_total"
_SECONDS = "matchset_request_seconds"
_QUERIES = "matchset_queries_total"
_EMPTY = "matchset_empty_results_total"
_RELOADS = "matchset_reloads_total"
_KEPT = "matchset_records_kept_total"
_DROPPED = "matchset_records_dropped_total"
_IN_FLIGHT = "matchset_requests_in_flight"
_WORKERS = "matchset_workers"
_FAMILIES = {
    _REQUESTS: ("counter", "Requests."),
    _SECONDS: ("histogram", "Time from the headers of a request to the end of its response."),
    _QUERIES: ("counter", "Queries."),
    _EMPTY: ("counter", "Queries without any product."),
    _RELOADS: ("counter", "Reloads by outcome."),
    _KEPT: ("counter", "Records, kept before the answer was sent."),
    _DROPPED: ("counter", "Records that were dropped, by reason."),
    _IN_FLIGHT: ("gauge", "Requests being handled."),
    _WORKERS: ("gauge", "Workers by the model version they serve."),
}
RELOADED = "done"  # the outcome of a reload that succeeded
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_Indices = tuple[int, ...]


class Metrics:
    """The metrics of this worker."""

    def __init__(self, run: RunFolder, slot: Slot) -> None:
        self._run, self._slot, self._values = run, slot, slot.values
        self._routes: frozenset[str] = frozenset()
        # Finding a series by its labels takes longer than counting.
        self._by_status: dict[tuple[str, int], int] = {}
        self._by_route: dict[str, _Indices] = {}
        self._by_matcher: dict[str, _Indices] = {}
        self._by_stream: dict[tuple[str, str | None], int] = {}
        self._in_flight = slot.find(_IN_FLIGHT)
        self._values[self._in_flight] = 0  # those of the worker before died with it

    def begin(self, routes: Iterable[str], matchers: Iterable[str]) -> None:
        """Count from 0: a rate needs the value before the first request.

        Requests of other routes are not counted.
        """
        self._routes = frozenset(routes)
        for route in sorted(self._routes):
            self._find_route(route, 200)
        for matcher in matchers:
            self.count_queries(matcher, 0, 0)
        self._slot.find(_name(_RELOADS, outcome=RELOADED))

    def count_in_flight(self, change: int) -> None:
        """Count a request that has begun (1) or ended (-1)."""
        self._values[self._in_flight] += change

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """Count a request and its time."""
        if route not in self._routes:
            return
        if (route, status) not in self._by_status:
            self._find_route(route, status)
        values, timed = self._values, self._by_route[route]
        values[self._by_status[route, status]] += 1
        values[timed[bisect_left(_BUCKETS, seconds)]] += 1  # `write` makes them cumulative
        values[timed[-1]] += seconds

    def _find_route(self, route: str, status: int) -> None:
        name = _name(_REQUESTS, route=route, status=str(status))
        self._by_status[route, status] = self._slot.find(name)
        if route not in self._by_route:
            names = [_name(f"{_SECONDS}_bucket", route=route, le=_show(le)) for le in _BUCKETS]
            names.append(_name(f"{_SECONDS}_sum", route=route))
            self._by_route[route] = tuple(map(self._slot.find, names))

    def count_queries(self, matcher: str, n_queries: int, n_empty: int) -> None:
        """Count queries, and those without any product."""
        known = self._by_matcher.get(matcher)
        if known is None:  # both at once: an alert needs the 0 as well
            names = (_name(family, matcher=matcher) for family in (_QUERIES, _EMPTY))
            known = self._by_matcher[matcher] = tuple(map(self._slot.find, names))
        self._values[known[0]] += n_queries
        self._values[known[1]] += n_empty

    def count_reload(self, outcome: str) -> None:
        """Count a reload."""
        self._values[self._slot.find(_name(_RELOADS, outcome=outcome))] += 1

    def count_records(self, stream: str, fault: str | None, n_records: int) -> None:
        """Count records that were kept, or dropped for a reason (disk, memory, busy, failed)."""
        if (stream, fault) not in self._by_stream:
            series = _name(_KEPT, stream=stream)
            if fault is not None:
                series = _name(_DROPPED, stream=stream, reason=fault)
            self._by_stream[stream, fault] = self._slot.find(series)
        self._values[self._by_stream[stream, fault]] += n_records

    def write(self) -> bytes:
        """The sums over all workers, in the text format of Prometheus."""
        sums: defaultdict[str, float] = defaultdict(float)
        for slot in read_slots(self._run.slots):
            for name, value in slot.values.items():
                if slot.is_live or name != _IN_FLIGHT:
                    sums[name] += value
        served = [one.version for one in read_workers(self._run).values() if one and one.is_open]
        for version in served:
            sums[_name(_WORKERS, version=version)] += 1
        lines: list[str] = []
        for family, (kind, meaning) in _FAMILIES.items():
            lines += [f"# HELP {family} {meaning}", f"# TYPE {family} {kind}"]
            found = {name: sums[name] for name in sums if name.startswith(family)}
            lines += _write_histograms(found) if kind == "histogram" else _write(found)
        return "\n".join([*lines, ""]).encode()


def _write(found: dict[str, float]) -> Iterator[str]:
    return (f"{name} {found[name]}" for name in sorted(found))


def _write_histograms(found: dict[str, float]) -> Iterator[str]:
    start = f"{_SECONDS}_sum"
    for labels in sorted(name.removeprefix(start) for name in found if name.startswith(start)):
        names = [f'{_SECONDS}_bucket{labels[:-1]},le="{_show(le)}"}}' for le in _BUCKETS]
        counts = list(accumulate(found.get(name, 0.0) for name in names))
        yield from (f"{name} {count}" for name, count in zip(names, counts, strict=True))
        yield f"{_SECONDS}_count{labels} {counts[-1]}"
        yield f"{start}{labels} {found[start + labels]}"


def _name(family: str, **labels: str) -> str:
    """A series; labels are words of ours, which need no escapes."""
    listed = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{family}{{{listed}}}"


def _show(bound: float) -> str:
    return "+Inf" if bound == float("inf") else str(bound)
