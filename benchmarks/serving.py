"""Serving: how is a server started for a benchmark, loaded with queries, and watched?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import numpy as np
import urllib3
from problems import ROOT

QUERIES = 10_000
KEY = "a-key-for-the-benchmark"
# Prepared requests, one after another; with DELAY each connection waits a random time of that many
# milliseconds on average between an answer and its next request, so that the load is steady.
SCRIPT = """
local requests, index = {}, 0
local mean = tonumber(os.getenv("DELAY"))
if mean then
  function delay() return 2 * mean * math.random() + 0.5 end  -- wrk drops the fraction
end
function init(arguments)
  for path in io.lines(arguments[1]) do requests[#requests + 1] = wrk.format("GET", path) end
  math.randomseed(1)
end
function request()
  index = index % #requests + 1
  return requests[index]
end
function done(summary, latency)
  local errors = summary.errors
  io.write(string.format('\\n{"requests": %d, "seconds": %f, "p50": %f, "p99": %f, ' ..
    '"refused": %d, "broken": %d}\\n', summary.requests, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout))
end
"""


@dataclass(frozen=True)
class Load:
    """What a generator of load saw; times in milliseconds."""

    requests: int
    seconds: float
    p50: float
    p99: float
    refused: int  # answers that are not 2xx or 3xx
    broken: int  # connections that failed, requests without an answer

    @property
    def rate(self) -> float:
        """Answers per second."""
        return self.requests / self.seconds

    @property
    def errors(self) -> int:
        """Everything that a customer would notice."""
        return self.refused + self.broken


@dataclass(frozen=True)
class Server:
    """A running `matchset serve`."""

    url: str
    pid: int

    def workers(self) -> list[int]:
        """Processes that answer: children that have the port open."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [int(child) for child in children if "resource_tracker" not in _command(child)]

    def memory(self) -> dict[int, float]:
        """MB of each worker that are its own: not mapped from files, not shared."""
        return {pid: _status(pid, "RssAnon") / 1024 for pid in self.workers()}

    def cpu_seconds(self) -> float:
        """CPU time of the workers so far."""
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2] for pid in self.workers()]
        ticks = sum(int(field) for stat in stats for field in stat.split()[11:13])
        return ticks / os.sysconf("SC_CLK_TCK")


def _command(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:  # gone meanwhile
        return "resource_tracker"


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise LookupError(f"a process must have {name}; got none of {pid}")


def make_model(n_products: int, parts: Sequence[str] | None = None) -> Path:
    """A folder with a model, paths of queries to ask it, and a second model that answers alike.

    The model is the default match set, or one of these parts.
    """
    import matchset as ms

    config = ms.TrainConfig() if parts is None else ms.TrainConfig(parts=tuple(parts))
    folder = ROOT / "build" / "problems" / f"serve-{n_products}-{'-'.join(config.parts)}"
    if not (folder / "paths.txt").exists():
        shop = ms.lab.simulate_shop(products=n_products, queries=2 * n_products)
        matcher = ms.train(shop.log, shop.catalog, config)
        matcher.save(folder / "model", overwrite=True)
        other = replace(matcher, provenance={**matcher.provenance, "is_other": True})
        other.save(folder / "other", overwrite=True)
        queries = shop.log.queries
        chosen = np.random.default_rng(0).permutation(len(queries))[:QUERIES]
        paths = [f"/v1/match?k=100&q={quote(query)}" for query in queries.take(chosen)]
        (folder / "paths.txt").write_text("\n".join(paths) + "\n")
    (folder / "empty.txt").write_text("/healthz\n")
    (folder / "load.lua").write_text(SCRIPT)
    return folder


@contextmanager
def serve(model: Path, *options: object, workers: int = 2) -> Iterator[Server]:
    """A server on a free port of this machine alone, stopped afterwards."""
    command = [Path(sys.executable).with_name("matchset"), "serve", model, "--port", 0]
    command += ["--workers", workers, "--no-access-log", *options]
    log = (model.parent / "server.log").open("w")
    with (
        log,
        subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        try:
            url = process.stdout.readline().strip() if process.stdout else ""
            if not url.startswith("http://127.0.0.1:"):
                raise SystemExit(f"the server did not start: {Path(log.name).read_text()}")
            wait_for(url)
            yield Server(url, process.pid)
        finally:
            process.terminate()
            process.wait(60)


def wait_for(url: str) -> None:
    """Return when somebody listens."""
    again = urllib3.Retry(connect=100, backoff_factor=0.01, backoff_max=0.1)
    urllib3.request("GET", f"{url}/readyz", retries=again, timeout=10)


@contextmanager
def start_load(
    folder: Path,
    url: str,
    what: str,
    *,
    seconds: int,
    connections: int = 16,
    rate: float | None = None,
) -> Iterator[subprocess.Popen[str]]:
    """Run wrk in a process of its own: as fast as it goes, or about `rate` requests per second.

    `what` is the file of paths in turn: paths or empty.
    """
    options = ["-t", 1, "-c", connections, "-d", f"{seconds}s", "--timeout", "10s"]
    options += ["-H", f"Authorization: Bearer {KEY}", "-s", folder / "load.lua"]
    command = ["wrk", *options, url, "--", folder / f"{what}.txt"]
    environment = dict(os.environ)
    if rate is not None:
        environment["DELAY"] = str(1000 * connections / rate)
    with subprocess.Popen(
        list(map(str, command)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def read_load(process: subprocess.Popen[str]) -> Load:
    """What wrk saw, once it is done."""
    output, said = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"wrk failed: {said.strip() or output.strip()}")
    return Load(**json.loads(output.splitlines()[-1]))


def load(folder: Path, url: str, what: str, **options: object) -> Load:
    """Load a server, and wait for what comes of it."""
    with start_load(folder, url, what, **options) as process:  # type: ignore[arg-type]
        return read_load(process)
