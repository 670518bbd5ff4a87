"""A shop, its model, and real servers in processes of their own."""

import asyncio
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote, urlsplit

import matchset as ms
from matchset.baselines import BM25, TitleSimilarity

COMMAND = Path(sys.executable).with_name("matchset")
KEY = "a-key-that-is-long-enough"
HOSTILE = (
    "<script>alert(1)</script>",
    '"quotes" \\ and \n\t\x00\x1f\x7f controls',
    "\u202eright to left\u202c \u2028 \ud7ff 🛋️ ünï",
    "</title>]}'; drop table products; --",
)


def make_shop(folder: Path) -> Path:
    """Write a model, a match set, two other matchers, and a log of later purchases."""
    shop = ms.lab.simulate_shop(products=300)
    titles = list(shop.catalog.titles)
    titles[: len(HOSTILE)] = HOSTILE
    catalog = replace(shop.catalog, titles=type(shop.catalog.titles).of(titles))
    train, test = ms.split_by_time(shop.log, test_days=30)
    config = ms.TrainConfig(parts=("tree",))
    ms.train(train, catalog, config).save(folder / "model")
    other = replace(config, learn=replace(config.learn, seed=7))
    ms.train(train, catalog, other).save(folder / "other")
    ms.train(train, catalog).save(folder / "set")
    BM25.from_catalog(catalog).save(folder / "bm25")
    TitleSimilarity.from_catalog(catalog).save(folder / "titles")
    test.save(folder / "log.parquet")
    (folder / "keys").write_text(f"# keys\n{KEY}\n")
    (folder / "keys").chmod(0o600)
    return folder


@dataclass(frozen=True)
class Reply:
    """A response of a server."""

    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        return self.json["error"]["code"]


@dataclass
class Running:
    """A running server."""

    address: str
    process: subprocess.Popen
    log: Path
    n_workers: int

    @property
    def port(self):
        return urlsplit(self.address).port

    @property
    def workers(self):
        """Process ids of the workers, from the system."""
        file = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return sorted(map(int, file.read_text().split()))

    def call(self, path, *, method="GET", body=None, headers=None, timeout=90):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        sent = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            sent.setdefault("content-type", "application/json")
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, found, answer.read())
        finally:
            connection.close()

    def match(self, query, **options):
        asked = "".join(f"&{name}={quote(str(value))}" for name, value in options.items())
        return self.call(f"/v1/match?q={quote(query)}{asked}")

    def post(self, path, body, **options):
        return self.call(path, method="POST", body=body, **options)

    def lines(self):
        """The server's log, line by line, without the one that is just being written."""
        whole, _, _ = self.log.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def stop(self, by=signal.SIGTERM):
        """Stop it as an operator would; returns its exit code."""
        self.process.send_signal(by)
        return self.process.wait(90)


@contextmanager
def serving(folder: Path, *options, model="model", workers=2, port=0):
    """Run `matchset serve`, and stop it in any case."""
    log = folder / f"server-{os.getpid()}-{time.monotonic_ns()}.log"
    command = [COMMAND, "serve", folder / model, "--port", port, "--workers", workers, *options]
    with log.open("w") as errors:
        process = subprocess.Popen(
            [*map(str, command)], stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        address = process.stdout.readline().strip()
        assert address.startswith(("http://127.0.0.1:", "http://localhost:")), log.read_text()
        yield Running(address, process, log, workers)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        process.stdout.close()


@contextmanager
def working(model, *, also=(), config=None, limits=None):
    """Make a worker in this process."""
    from matchset.serve.options import Limits, ServeConfig  # other tests need no server
    from matchset.serve.prometheus import make_slots
    from matchset.serve.snapshots import Sources
    from matchset.serve.versions import make_run_folder, publish
    from matchset.serve.worker import Worker

    sources, config = Sources(model, also), config or ServeConfig()
    with make_run_folder(model) as run, make_slots(4) as slots:
        publish(run, sources, config)
        worker = Worker(run, sources, config, limits or Limits(), slots)
        yield worker
        worker.stop()


def find_port():
    """A port to serve on later: no connection gets it meanwhile, as theirs are above 32,767."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


def eventually(is_so, seconds=90):
    """Wait until something is true, on a busy machine too."""
    deadline = time.monotonic() + seconds
    while not (found := is_so()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return found


def ask(worker, path, query_string=b"", headers=(), app=None):
    """Send a GET to the application of a worker in this process, a new one if none is given."""
    from matchset.serve.app import make_app  # other tests need no server

    sent = []

    async def receive():
        return {"type": "http.request", "body": b""}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": "GET", "path": path, "query_string": query_string,
        "headers": [(b"host", b"localhost"), *headers], "root_path": "",
    }  # fmt: skip
    asyncio.run((app or make_app(worker))(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])
