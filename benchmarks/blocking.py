"""One heavy body, or callers who explain: how long do other requests wait for them?

    python benchmarks/blocking.py                     # a shop of 20,000 products
    python benchmarks/blocking.py --products 200000 --only explanations

One worker. A second process asks for /healthz over and over on a connection of its own, while each
body is sent a few times, one after another. The longest wait is that of the event loop: it is put
beside the same measure without any body. On a busy machine, the CPU time that the thread of the
event loop spends on a body tells more. Bodies are as large as the server takes them, and most are
refused. Then four callers explain without a pause, and before them four ask for /healthz, while the
process measures its own matches. The exit code is 1 if a body, or an explanation, takes more than
its limit.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import urllib3
from serving import Server, make_model, serve

import matchset as ms

SIZE = 3_900_000
LIMIT_MS = 20.0
EXPLAIN_MS = 5.0  # of one explanation, in this process
CALLERS = 4
SECONDS = 5
USED_UP = 10  # seconds, by when callers have used up the explanations that a quiet worker allows
JSON = {"Content-Type": "application/json"}


def fill(start: bytes, item: bytes, end: bytes) -> bytes:
    """As many items as fit into a body."""
    n_items = (SIZE - len(start) - len(end)) // (len(item) + 1)
    return start + b",".join([item] * n_items) + end


def list_ids(n: int, width: int = 8) -> bytes:
    """Ids that no product has."""
    return b",".join(b'"%0*d"' % (width, number) for number in range(n))


BODIES = {
    "no body": b"",
    "empty lists": fill(b'{"queries":[', b"[]", b"]}"),
    "empty objects": fill(b'{"queries":[', b"{}", b"]}"),
    "many keys": b"{" + b",".join(b'"%x":1' % number for number in range(380_000)) + b"}",
    "deep": b"[" * SIZE,
    "numbers": fill(b'{"queries":["a"],"where":[', b"12", b"]}"),
    "ids, too many": b'{"queries":["a"],"where":[' + list_ids(330_000) + b"]}",
    "ids, allowed": b'{"queries":["a"],"where":[' + list_ids(99_990, 34) + b"]}",
    "candidates, allowed": b'{"queries":["a"%b],"candidates":[%b]}'
    % (b',"a"' * 98, b",".join([b"[%b]" % list_ids(1000)] * 99)),
    "a long string": b'{"queries":["a"],"where":"' + b"a" * SIZE + b'"}',
    "escapes": b'{"queries":["a"],"where":"' + b"\\n" * (SIZE // 2) + b'"}',
    "cut": fill(b'{"queries":[', b'"a"', b""),
}


def ask_all_the_time(port: int, path: str, body: bytes | None, pipe: Connection) -> None:
    """Measure requests until told to stop; answers each `ask` with the times since the last."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    times: list[float] = []
    while True:
        if pipe.poll():
            if pipe.recv() == "stop":
                return
            pipe.send(times)
            times = []
        started = time.perf_counter()
        connection.request("POST" if body else "GET", path, body, JSON)
        connection.getresponse().read()
        times.append(1000 * (time.perf_counter() - started))


def main() -> None:
    """Send every body, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=20_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--only", choices=("bodies", "explanations"))
    options = parser.parse_args()
    folder = make_model(options.products)
    shutil.rmtree(folder / "served", ignore_errors=True)
    shutil.copytree(folder / "model", folder / "served")
    is_right = True
    with serve(folder / "served", workers=1) as server:
        if options.only != "explanations":
            is_right &= try_bodies(server, options.times)
        if options.only != "bodies":
            is_right &= try_explanations(server.url, folder)
    sys.exit(not is_right)


def try_bodies(server: Server, n_times: int) -> bool:
    """Send every body, and print a table; returns whether nobody waited too long."""
    pool, is_right, empty = urllib3.PoolManager(retries=False), True, 0.0
    url, spent = server.url, {}
    for name, body in BODIES.items():
        before = read_loop_ms(server)
        for _ in range(n_times):
            send(pool, url, body)
        spent[name] = (read_loop_ms(server) - before) / n_times
    print(
        "| body | MB | answer | CPU time of the event loop, ms | longest wait of others | p50 | |\n"
        "|---|---|---|---|---|---|---|"
    )
    with asking(url, "/healthz") as take:
        time.sleep(1)
        for name, body in BODIES.items():
            take()
            answers = {send(pool, url, body) for _ in range(n_times)}
            times = take()
            longest = times[-1]
            empty = empty or longest
            is_good = longest <= max(LIMIT_MS, 2 * empty)
            is_right &= is_good
            shown = "" if is_good else "**wrong**"
            print(
                f"| {name} | {len(body) / 1e6:.1f} | {', '.join(sorted(answers))} "
                f"| {spent[name]:.2f} | {longest:.1f} | {times[len(times) // 2]:.2f} | {shown} |",
                flush=True,
            )
    return is_right


def read_loop_ms(server: Server) -> float:
    """CPU time of the worker's event loop so far, in ms: that of its first thread."""
    (worker,) = server.workers()
    return int(Path(f"/proc/{worker}/task/{worker}/schedstat").read_text().split()[0]) / 1e6


def try_explanations(url: str, folder: Path) -> bool:
    """Time explanations, alone and by several callers at once, and print a table."""
    matcher, query = ms.load(folder / "model"), "sofa"
    chosen = list(matcher.products.ids)[:: max(1, len(matcher.products.ids) // 50)]
    times = []
    for product in (chosen[0], *chosen):  # the first time opens the model
        started = time.thread_time()
        matcher.explain(query, product)
        times.append(1000 * (time.thread_time() - started))
    times = sorted(times[1:])
    is_good = times[-1] <= EXPLAIN_MS
    print(
        f"\nCPU time of an explanation, {len(matcher.products.ids):,} products: p50 "
        f"{times[len(times) // 2]:.2f} ms, longest {times[-1]:.2f} ms"
        f"{'' if is_good else ' **wrong**'}\n\n| four others | match, p50 ms | p99 | longest |\n"
        "|---|---|---|---|"
    )
    body = json.dumps({"query": query, "product": chosen[-1]}).encode()
    for path, sent in ((None, None), ("/healthz", None), ("/v1/explain", body)):
        others = [(path, sent)] * CALLERS if path else []
        with ExitStack() as stack:
            take = stack.enter_context(asking(url, f"/v1/match?q={query}&k=100"))
            takes = [stack.enter_context(asking(url, *other)) for other in others]
            time.sleep(USED_UP if sent else 1)
            for each in (take, *takes):
                each()
            time.sleep(SECONDS)
            waits = take()
            rate = sum(len(other()) for other in takes) / SECONDS
        p50, p99 = (waits[int(share * len(waits))] for share in (0.5, 0.99))
        named = f"{path}, {rate:,.0f}/s in all" if path else "nobody"
        print(f"| {named} | {p50:.2f} | {p99:.2f} | {waits[-1]:.1f} |", flush=True)
    return is_good


@contextmanager
def asking(url: str, path: str, body: bytes | None = None) -> Iterator[Callable[[], list[float]]]:
    """A process that asks all the time; gives the times in ms since the last call, sorted."""
    here, there = multiprocessing.Pipe()
    port = int(url.rpartition(":")[2])
    process = multiprocessing.Process(target=ask_all_the_time, args=(port, path, body, there))
    process.start()

    def take() -> list[float]:
        here.send("ask")
        return sorted(here.recv())

    try:
        yield take
    finally:
        here.send("stop")
        process.join()


def send(pool: urllib3.PoolManager, url: str, body: bytes) -> str:
    """What the server says to a body; without one, an empty request."""
    if not body:
        time.sleep(0.3)
        return str(pool.request("GET", f"{url}/healthz").status)
    answer = pool.request("POST", f"{url}/v1/match", body=body, headers=JSON, timeout=60)
    if answer.status == 200:
        return "200"
    return f"{answer.status} {json.loads(answer.data)['error']['code']}"


if __name__ == "__main__":
    main()
