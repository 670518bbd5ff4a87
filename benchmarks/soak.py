"""A server for half an hour: does it stay right under load, reloads, kills and a full disk?

    python benchmarks/soak.py                         # 30 minutes, a shop of 20,000 products
    python benchmarks/soak.py --minutes 3 --products 5000

Callers ask without a pause, each over a connection that it keeps: queries, filters, batches,
explanations. A shop adds products and removes some, and each must be found, or not, at once.
Meanwhile, in turn: the model is replaced and reloaded, a worker is killed, segments are merged, the
disk is full for a while (where this user may mount one), and callers stop reading their responses.
Only requests on a killed worker's connections, or sent to it before the kernel noticed, may fail.
The exit code is 1 if others did, or if memory, open files or left-over files kept growing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import urllib3
from serving import KEY, Server, make_model, serve
from soak_load import HEADERS, Soak

import matchset as ms

CALLERS = 16
KILL_SECONDS = 1.5  # around a kill, in which requests may fail
LARGE = json.dumps({"queries": ["sofa"] * 250, "k": 500}).encode()


def reload_model(soak: Soak) -> None:
    """Replace the model, and reload it; on a full disk it may be refused."""
    source = soak.models[soak.counts["reloads"] % len(soak.models)]
    with soak.writing:
        with contextlib.suppress(OSError):
            ms.load(source).save(soak.model, overwrite=True)
        reload_now(soak)


def reload_now(soak: Soak) -> None:
    """Let the server open what is there now."""
    pool = urllib3.PoolManager(retries=False)
    try:
        answer = pool.request("POST", f"{soak.server.url}/v1/reload", headers=HEADERS, timeout=120)
        name = "reloads" if answer.status == 200 else f"reloads refused ({answer.status})"
        soak.counts[name] += 1
    except urllib3.exceptions.HTTPError:
        soak.counts["reloads cut off"] += 1  # by the kill of the worker that did it


def merge_segments(soak: Soak) -> None:
    """Fold what was written since the last reload into one segment, beside the server."""
    with soak.writing:
        ms.load(soak.model).merge()
        soak.counts["merges"] += 1


def kill_worker(soak: Soak) -> None:
    """`kill -9` one worker."""
    victim = random.choice(soak.server.workers())
    soak.kills.append(time.monotonic())
    os.kill(victim, signal.SIGKILL)
    soak.counts["kills"] += 1
    time.sleep(3)


def fill_disk(soak: Soak) -> None:
    """Leave no room beside the model for some seconds; a worker starts meanwhile."""
    filler = soak.model.parent / "filler"
    with contextlib.suppress(OSError), filler.open("wb") as stream:
        while True:
            stream.write(bytes(1 << 16))
            stream.flush()
    kill_worker(soak)
    reload_model(soak)
    os.truncate(filler, 0)  # the disk is free before its name is gone
    filler.unlink()
    soak.counts["times that the disk was full"] += 1


def read_slowly(soak: Soak) -> None:
    """Some callers ask for much and read nothing, until they are disconnected."""
    head = f"POST /v1/match HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(LARGE)}\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            one = stack.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(("127.0.0.1", soak.port))
            one.sendall(head.encode() + LARGE)
        time.sleep(4)
    soak.counts["slow readers"] += 5


@contextmanager
def own_disk() -> Iterator[tuple[Path, bool]]:
    """A small disk, if this user may mount one, and whether it is one."""
    folder = Path(tempfile.mkdtemp(prefix="matchset-soak-"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=512m", "matchset-soak", str(folder)]
    is_disk = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield folder, is_disk
    finally:
        if is_disk:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def measure(server: Server, folder: Path) -> dict[str, float]:
    """Memory, open files and files beside the model."""
    pids = [server.pid, *server.workers()]
    n_open = sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids)
    memory = server.memory()
    n_files = sum(len(files) for _, _, files in os.walk(folder))
    return {
        "MB of the largest worker": max(memory.values()),
        "open files": n_open,
        "files": n_files,
    }


def main() -> None:
    """Run a server through all of it, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--products", type=int, default=20_000)
    options = parser.parse_args()
    made = make_model(options.products)
    with own_disk() as (folder, is_disk):
        shutil.copytree(made / "model", folder / "served")
        (folder / "key").write_text(KEY)
        (folder / "key").chmod(0o600)
        flags = ["--api-key-file", folder / "key", "--writable", "--limits.slow-seconds", 2]
        with serve(folder / "served", *flags) as server:
            faults = [reload_model, kill_worker, merge_segments, read_slowly]
            faults += [fill_disk] if is_disk else []
            paths = (made / "paths.txt").read_text().splitlines()
            soak = Soak(server, paths, folder / "served", [made / "other", made / "model"])
            soak.explains = ms.load(made / "model").can_explain
            is_right = run(soak, faults, folder, 60 * options.minutes)
        left = [one.name for one in folder.iterdir() if one.name.startswith(".")]
    print(f"| left over after the end | {', '.join(left) or 'nothing'} |")
    sys.exit(not (is_right and not left))


def run(soak: Soak, faults: list[Callable[[Soak], None]], folder: Path, seconds: float) -> bool:
    """Do one fault after another under load; returns whether all was right."""
    asked = [soak.call] * CALLERS + [soak.write]
    callers = [threading.Thread(target=one, daemon=True) for one in asked]
    for caller in callers:
        caller.start()
    end, n_faults = time.monotonic() + seconds, 0
    time.sleep(min(5, seconds / 10))
    seen = [measure(soak.server, folder)]
    while time.monotonic() < end:
        faults[n_faults % len(faults)](soak)
        n_faults += 1
        time.sleep(1)
        if n_faults % len(faults) == 0:
            time.sleep(3)  # the disk is free, workers are back, slow readers gone
            seen.append(measure(soak.server, folder))
    soak.stopped.set()
    for caller in callers:
        caller.join()
    return report(soak, seen)


def report(soak: Soak, seen: list[dict[str, float]]) -> bool:
    """Print a table; returns whether it is as it must be."""
    other = [what for at, what in soak.failures if not is_near_kill(at, soak.kills)]
    print("| what | value |\n|---|---|")
    for name, count in soak.counts.most_common():
        print(f"| {name} | {count:,} |")
    print(f"| failed around a kill | {len(soak.failures) - len(other):,} |")
    print(f"| failed otherwise | {len(other):,} {dict(Counter(other)) or ''} |")
    is_steady = True
    for name in seen[0]:
        values = [one[name] for one in seen]
        shown = " to ".join(f"{value:.0f}" for value in (min(values), max(values)))
        print(f"| {name} | {values[0]:.0f} at first, {values[-1]:.0f} at last, {shown} |")
        is_steady &= values[-1] <= 1.5 * values[0] + 50
    return not other and is_steady


def is_near_kill(at: float, kills: list[float]) -> bool:
    """Whether a failure may come from a kill."""
    return any(0 <= at - kill <= KILL_SECONDS for kill in kills)


if __name__ == "__main__":
    main()
