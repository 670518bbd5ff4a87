"""Fresh, behind a server: how soon is a product found, and what do callers notice of a merge?

    python benchmarks/fresh_serving.py --products 20000

Two workers of `matchset serve --writable`. First products by POST /v1/products, which answers when
the change is on disk and every worker serves it: one by one, then in batches. Then GET /v1/match at
half of the rate that saturates it, three times: alone, while batches are written and segments are
merged and served over and over, and alone again. Load generator, writer and server share the
machine.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import urllib3
from serve import connections_for
from serving import KEY, Load, Server, load, make_model, read_load, serve, start_load

import matchset as ms
from matchset.storage.change_log import changes_path

HEADERS = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
SINGLES = 20


def main() -> None:
    """Two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=20_000)
    parser.add_argument("--seconds", type=int, default=10, help="of each load")
    options = parser.parse_args()
    folder = make_model(options.products)
    model, keys = folder / "fresh", folder / "keys"
    changes_path(model).unlink(missing_ok=True)
    shutil.copy(folder / "model", model)
    keys.write_text(f"{KEY}\n")
    keys.chmod(0o600)
    titles = list(ms.load(model).products.titles[:1000])
    with serve(model, "--writable", "--api-key-file", keys) as server:
        print(f"{options.products:,} products\n", flush=True)
        show_writes(server, titles)
        load(folder, server.url, "paths", seconds=1)
        rate = load(folder, server.url, "paths", seconds=3).rate / 2
        seen = {"before": hold(folder, server, rate, options.seconds)}
        with start(folder, server, rate, options.seconds) as process:
            n_merges = 0
            while process.poll() is None:
                merge(server, titles[:100])
                n_merges += 1
            seen[f"during {n_merges} merges"] = read_load(process)
        seen["after"] = hold(folder, server, rate, options.seconds)
        show_loads(seen, rate)
    model.unlink()


def post(server: Server, path: str, body: object) -> None:
    """Send a request that must succeed."""
    data = json.dumps(body).encode()
    reply = urllib3.request("POST", f"{server.url}{path}", body=data, headers=HEADERS, timeout=120)
    if reply.status != 200:
        raise SystemExit(f"{path} must be answered with 200; got {reply.status}: {reply.data!r}")


def write(server: Server, titles: list[str], prefix: str) -> float:
    """Write products, and return the seconds until every worker serves them."""
    told = [{"id": f"{prefix}-{i}", "title": title} for i, title in enumerate(titles)]
    began = time.perf_counter()
    post(server, "/v1/products", {"products": told})
    return time.perf_counter() - began


def show_writes(server: Server, titles: list[str]) -> None:
    """Time to visible, and products per second."""
    print("| products a request | until all workers serve them, median ms | most | a second |")
    print("|---|---|---|---|")
    for size, n_requests in ((1, SINGLES), (100, 10), (1000, 5)):
        taken = [write(server, titles[:size], f"w{size}-{i}") for i in range(n_requests)]
        rate = size * n_requests / sum(taken)
        cells = f"{1000 * np.median(taken):.0f} | {1000 * max(taken):.0f} | {rate:,.0f}"
        print(f"| {size:,} | {cells} |", flush=True)


def merge(server: Server, titles: list[str]) -> None:
    """Write two changes and reload; every ninth time all changes are folded into one."""
    write(server, titles, f"m{time.time_ns()}")
    write(server, titles, "again")
    post(server, "/v1/reload", {})


def start(
    folder: Path, server: Server, rate: float, seconds: int
) -> AbstractContextManager[subprocess.Popen[str]]:
    """Begin to load at a rate."""
    settings = {"seconds": seconds, "connections": connections_for(rate)}
    return start_load(folder, server.url, "paths", rate=rate, **settings)


def hold(folder: Path, server: Server, rate: float, seconds: int) -> Load:
    """Load at a rate, and wait for what comes of it."""
    with start(folder, server, rate, seconds) as process:
        return read_load(process)


def show_loads(seen: dict[str, Load], rate: float) -> None:
    """What callers saw."""
    print(f"\nasked for {rate:,.0f} requests a second\n")
    print("| | answered | failed | a second | p50 ms | p99 ms |\n|---|---|---|---|---|---|")
    for name, one in seen.items():
        cells = f"{one.requests:,} | {one.errors} | {one.rate:,.0f} | {one.p50:.2f} | {one.p99:.2f}"
        print(f"| {name} | {cells} |")


if __name__ == "__main__":
    main()
