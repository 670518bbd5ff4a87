"""One heavy body: how long do other requests wait for it?

    python benchmarks/blocking.py                     # a shop of 20,000 products

One worker. A second process asks for /healthz over and over on a connection of its own, while each
body is sent a few times, one after another. The longest wait is that of the event loop: it is put
beside the same measure without any body. Bodies are as large as the server takes them, and most
are refused. The exit code is 1 if a body added more than the limit.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import shutil
import sys
import time
from multiprocessing.connection import Connection

import urllib3
from serving import make_model, serve

SIZE = 3_900_000
LIMIT_MS = 20.0


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


def ask_all_the_time(port: int, pipe: Connection) -> None:
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
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        times.append(1000 * (time.perf_counter() - started))


def main() -> None:
    """Send every body, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=20_000)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()
    folder = make_model(options.products)
    shutil.rmtree(folder / "served", ignore_errors=True)
    shutil.copytree(folder / "model", folder / "served")
    pool, is_right, empty = urllib3.PoolManager(retries=False), True, 0.0
    print("| body | MB | answer | longest wait of others, ms | p50 | |\n|---|---|---|---|---|---|")
    with serve(folder / "served", workers=1) as server:
        here, there = multiprocessing.Pipe()
        port = int(server.url.rpartition(":")[2])
        asking = multiprocessing.Process(target=ask_all_the_time, args=(port, there), daemon=True)
        asking.start()
        time.sleep(1)
        for name, body in BODIES.items():
            here.send("ask")
            here.recv()
            answers = {send(pool, server.url, body) for _ in range(options.times)}
            here.send("ask")
            times = sorted(here.recv())
            longest = times[-1]
            empty = empty or longest
            is_good = longest <= max(LIMIT_MS, 2 * empty)
            is_right &= is_good
            shown = "" if is_good else "**wrong**"
            print(
                f"| {name} | {len(body) / 1e6:.1f} | {', '.join(sorted(answers))} | {longest:.1f} "
                f"| {times[len(times) // 2]:.2f} | {shown} |",
                flush=True,
            )
        here.send("stop")
    sys.exit(not is_right)


def send(pool: urllib3.PoolManager, url: str, body: bytes) -> str:
    """What the server says to a body; without one, an empty request."""
    if not body:
        time.sleep(0.3)
        return str(pool.request("GET", f"{url}/healthz").status)
    headers = {"Content-Type": "application/json"}
    answer = pool.request("POST", f"{url}/v1/match", body=body, headers=headers, timeout=60)
    if answer.status == 200:
        return "200"
    return f"{answer.status} {json.loads(answer.data)['error']['code']}"


if __name__ == "__main__":
    main()
