"""Run: how do the processes of a server start, stay alive and stop?

granian supervises the workers: it starts one for another that died, and ends the server where they
keep dying. SIGUSR1 reloads the model; SIGHUP also replaces the workers, one by one.
"""

from __future__ import annotations

import http.client
import json
import logging
import logging.config
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from granian.server.mp import MPServer
from starlette.types import ASGIApp

from matchset.config import DEFAULT_MIN_QUERY_COUNT
from matchset.data.log import Log
from matchset.evaluate.pair_segments import choose_rule
from matchset.matchers.saved import load
from matchset.online.definition import read_experiment
from matchset.online.record_files import begin_records, shadow_folder
from matchset.serve.access_log import log_settings
from matchset.serve.app import make_app
from matchset.serve.auth import read_keys, warn_if_readable
from matchset.serve.middleware import HEADER_BYTES
from matchset.serve.options import Limits, ServeConfig
from matchset.serve.prometheus import Metrics, make_slots, read_versions
from matchset.serve.purchases import store_purchases
from matchset.serve.reloading import Watcher
from matchset.serve.snapshots import Sources
from matchset.serve.versions import RunFolder, make_run_folder, publish
from matchset.serve.worker import Worker

logger = logging.getLogger(__name__)
_EXAMPLES = 12
_CONNECTIONS = 16_384  # per worker
_STOP_SECONDS = 30  # for requests in flight to finish when the server stops
_POLL_SECONDS = 0.02
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


def serve(
    sources: Sources,
    config: ServeConfig,
    limits: Limits,
    *,
    read_log: Callable[[], Log] | None = None,
    on_ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until stopped; `on_ready` gets the address once every worker is ready."""
    logging.config.dictConfig(log_settings())
    _check_access(config)
    _raise_open_files()
    with (
        make_run_folder(sources.model) as run,
        _reserve(config) as reserved,
        # Twice as many as workers: while one is replaced, both live.
        make_slots(2 * config.n_workers + 1) as slots,
    ):
        address, port = reserved.getsockname()[:2]  # the actual ones, of a name or port 0
        records = _begin_records(run, config)
        publish(run, sources, config)
        if read_log is not None:  # read here, so that its memory is freed
            log = read_log()
            store_purchases(
                log,
                run.purchases,
                rule=choose_rule(load(sources.model), log),
                n_examples=_EXAMPLES,
                min_query_count=DEFAULT_MIN_QUERY_COUNT,
            )
        server = _make_server(config, limits, address=address, port=port)
        watcher = Watcher(run, sources, config, Metrics(slots))
        server.on_reload(watcher.try_reload)
        server.on_startup(lambda: signal.signal(signal.SIGUSR1, watcher.ask))
        ready = partial(_announce, config, slots, port, on_ready)
        threading.Thread(target=ready, daemon=True).start()
        make_worker = partial(Worker, run, sources, config, limits, slots, records)
        try:
            server.serve(target_loader=partial(_start_worker, make_worker), wrap_loader=False)
        except SystemExit:
            # A signal to the whole group ends workers before we stop them: not an error.
            if not server.interrupt_signal:
                raise


def _begin_records(run: RunFolder, config: ServeConfig) -> Path | None:
    """Return the folder of the records that this server writes."""
    if config.shadow is not None:
        return shadow_folder(config.records)
    if config.experiment is None:
        return None
    experiment = read_experiment(config.experiment)
    folder = begin_records(config.records, experiment)
    (run.path / "experiment").write_text(json.dumps(experiment.to_dict()))
    return folder


def _make_server(config: ServeConfig, limits: Limits, *, address: str, port: int) -> MPServer:
    return MPServer(
        "matchset",
        address=address,
        port=port,
        interface=Interfaces.ASGI,
        workers=config.n_workers,
        http=HTTPModes.http1,
        websockets=False,
        backlog=4096,
        # Granian counts connections, idle ones too, and lets others wait without a word; our
        # middleware rejects excess requests long before, with an error code.
        backpressure=max(4 * limits.concurrency, _CONNECTIONS),
        http1_settings=HTTP1Settings(
            header_read_timeout=int(1000 * limits.slow_seconds), max_buffer_size=HEADER_BYTES
        ),
        log_level=LogLevels.warning,
        log_dictconfig=log_settings(),
        respawn_failed_workers=True,
        workers_kill_timeout=_STOP_SECONDS,
        workers_max_rss=config.worker_megabytes,
    )


def _start_worker(make: Callable[[], Worker]) -> ASGIApp:
    """Called in each worker's process."""
    for number in (signal.SIGHUP, signal.SIGUSR1):  # to the group of a terminal that closes
        signal.signal(number, signal.SIG_IGN)
    try:
        return make_app(make())
    except (ValueError, OSError, MemoryError) as error:
        logger.error("a worker cannot start: %s", error)  # noqa: TRY400
        sys.exit(1)


def _announce(config: ServeConfig, slots: Path, port: int, on_ready: Callable[[str], None]) -> None:
    """Call `on_ready` once every worker serves a version, and one answers."""
    shown = f"[{config.host}]" if ":" in config.host else config.host
    while sum(map(bool, read_versions(slots).values())) < config.n_workers:
        time.sleep(_POLL_SECONDS)
    while not _is_ready(_ANY.get(config.host, config.host), port):
        time.sleep(_POLL_SECONDS)
    on_ready(f"http://{shown}:{port}")


def _is_ready(host: str, port: int) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=1)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _reserve(config: ServeConfig) -> socket.socket:
    """Return a socket that reserves the port; each worker opens its own on the same port."""
    kind = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        if config.port:
            # Without SO_REUSEPORT: we must not share the port with another server.
            with socket.socket(kind) as alone:
                alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                alone.bind((config.host, config.port))
        reserved = socket.socket(kind)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind((config.host, config.port))
    except OSError as error:
        rule = f"cannot listen: {error.strerror}; choose another --host or --port"
        raise OSError(f"{config.host}:{config.port}: {rule}") from None
    return reserved


def _check_access(config: ServeConfig) -> None:
    if config.api_key_file is not None:
        read_keys(config.api_key_file)
        warn_if_readable(config.api_key_file)
    elif config.host not in _LOOPBACK:
        logger.warning(
            "no API key: anyone who can reach %s can query this server; set --api-key-file",
            config.host,
        )


def _raise_open_files() -> None:
    """Allow as many open files as possible: every connection is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
