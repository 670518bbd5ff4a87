"""A server under attack: does it answer or refuse clearly, and stay up?

    python benchmarks/faults.py                       # a shop of 20,000 products
    python benchmarks/faults.py --only reloads kill   # some faults alone

Reloads under load, a corrupted model, a killed worker, requests that are wrong, large or slow, and
many connections at once, each against the same two workers over loopback; last, Schemathesis tries
the server against its own OpenAPI schema. Everything is bounded in number and time. The exit code
is 1 if a fault did more than it may.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import urllib3
from environments import SideError, peer_python
from hostile import (
    LIMIT_SECONDS,
    Outcome,
    Target,
    connect_many,
    is_alive,
    send_large,
    send_slowly,
    send_wrong,
)
from serving import KEY, make_model, read_load, serve, start_load


def reload_under_load(target: Target) -> Outcome:
    """Two models in turn; every reload must succeed, every request be answered."""
    seconds, done, versions = target.options.seconds, 0, set()
    with start_load(target.folder, target.server.url, "paths", seconds=seconds) as wrk:
        while done < target.options.reloads and wrk.poll() is None:
            target.replace(("other", "model")[done % 2])
            answer = target.post("/v1/reload")
            if answer.status != 200:
                return Outcome(f"reload {done + 1}: {answer.data.decode()}", is_right=False)
            versions.add(answer.json()["model_version"])
            done += 1
        wrk.send_signal(signal.SIGINT)  # it reports what it has seen so far
        seen = read_load(wrk)
    what = f"{done} reloads of {len(versions)} models, {seen.requests:,} requests at "
    what += f"{seen.rate:,.0f}/s, {seen.errors} failed"
    return Outcome(what, is_right=seen.errors == 0 and done == target.options.reloads)


def reload_corrupted(target: Target) -> Outcome:
    """A flipped byte in the new model: refused, and the old one answers on."""
    target.replace("model")
    target.post("/v1/reload")
    before = target.version()
    target.replace("other")
    largest = max((target.folder / "served").iterdir(), key=lambda file: file.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 0x10
    largest.unlink()  # others may hold a link to it
    largest.write_bytes(data)
    answer = target.post("/v1/reload")
    after = target.version()
    target.replace("model")
    code = answer.json()["error"]["code"] if answer.status != 200 else "accepted"
    kept = "the old model answers on" if after == before else "another model answers"
    return Outcome(f"{answer.status} {code}; {kept}", answer.status == 409 and after == before)


def kill_worker(target: Target) -> Outcome:
    """`kill -9` of one worker under load: how long until there are two again, at what cost?"""
    seconds = min(target.options.seconds, 15)
    with start_load(target.folder, target.server.url, "paths", seconds=seconds) as wrk:
        time.sleep(seconds / 3)
        before = set(target.server.workers())
        os.kill(min(before), signal.SIGKILL)
        killed = time.perf_counter()
        while time.perf_counter() - killed < 30:
            answering = {pid for pid in target.server.workers() if is_listening(pid)}
            if len(answering) == len(before) and min(before) not in answering:
                break
            time.sleep(0.01)
        back = time.perf_counter() - killed
        seen = read_load(wrk)
    what = f"back after {back:.1f} s; {seen.errors} of {seen.requests:,} requests failed"
    # A request in flight dies with its process, on each of its connections at most one.
    return Outcome(what, is_right=back < 30 and seen.errors <= 16 and is_alive(target))


def is_listening(pid: int) -> bool:
    """Whether a process has a socket that waits for connections."""
    try:
        table = Path(f"/proc/{pid}/net/tcp").read_text()
        own = {str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:  # gone, or going
        return False
    rows = [line.split() for line in table.splitlines()[1:]]
    return any(row[3] == "0A" and f"socket:[{row[9]}]" in own for row in rows)


def try_schema(target: Target) -> Outcome:
    """Schemathesis makes requests from the server's own schema, right and wrong ones."""
    url = f"{target.server.url}/openapi.json"
    try:
        python = peer_python("schemathesis")
    except SideError as error:
        return Outcome(f"left out: {error}", is_right=True)
    command = [
        python.absolute().with_name("schemathesis"),
        "run",
        url,
        "--exclude-path",
        "/v1/reload",
    ]
    command += ["--header", f"Authorization: Bearer {KEY}", "--max-examples", "50", "--seed", "0"]
    # No schema tells which texts are filters, or which names are matchers.
    command += ["--exclude-checks", "positive_data_acceptance"]
    done = subprocess.run(
        list(map(str, command)),
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
        cwd=target.folder,  # where it may leave what it found
    )
    (target.folder / "schemathesis.log").write_text(done.stdout + done.stderr)
    found = re.findall(r"=+ (.*) =+", done.stdout)
    what = found[-1] if found else f"exit code {done.returncode}"
    where = "" if done.returncode == 0 else f" (see {target.folder / 'schemathesis.log'})"
    return Outcome(what + where, is_right=done.returncode == 0 and is_alive(target))


FAULTS: dict[str, tuple[str, Callable[[Target], Outcome]]] = {
    "reloads": ("reloads under load", reload_under_load),
    "corrupted": ("reload of a corrupted model", reload_corrupted),
    "kill": ("kill -9 of a worker under load", kill_worker),
    "wrong": ("malformed JSON, wrong types", send_wrong),
    "large": ("a body of 100 MB", send_large),
    "slow": ("slow clients", send_slowly),
    "many": ("many connections at once", connect_many),
    "schema": ("Schemathesis", try_schema),
}


def main() -> None:
    """Do one thing after another to a server, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--products", type=int, default=20_000)
    parser.add_argument("--reloads", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=120, help="that reloads may take")
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--only", nargs="+", choices=FAULTS, default=list(FAULTS))
    options = parser.parse_args()
    folder = make_model(options.products)
    key = folder / "key"
    key.write_text(KEY)
    key.chmod(0o600)
    shutil.rmtree(folder / "served", ignore_errors=True)
    shutil.copytree(folder / "model", folder / "served")
    limits = ["--limits.slow-seconds", LIMIT_SECONDS]
    is_right = True
    print("| fault | what happened | |\n|---|---|---|", flush=True)
    with serve(folder / "served", "--api-key-file", key, *limits) as server:
        target = Target(server, folder, urllib3.PoolManager(retries=False), options)
        for name in options.only:
            title, inflict = FAULTS[name]
            outcome = inflict(target)
            is_right &= outcome.is_right
            print(
                f"| {title} | {outcome.what} | {'' if outcome.is_right else '**wrong**'} |",
                flush=True,
            )
    sys.exit(not is_right)


if __name__ == "__main__":
    main()
