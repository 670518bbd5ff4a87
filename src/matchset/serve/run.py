"""Run: how do the processes of a server start, stay alive and stop?"""

from __future__ import annotations

import ctypes
import json
import logging
import logging.config
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.log import LogLevels
from starlette.types import ASGIApp

from matchset.config import DEFAULT_MIN_QUERY_COUNT
from matchset.data.events import EventWeights
from matchset.data.log import Log
from matchset.errors import ModelFileError
from matchset.evaluate.pair_segments import choose_rule
from matchset.matchers.registry import load
from matchset.online.definition import read_experiment
from matchset.online.record_files import EVENTS, QUERIES, SHADOW, begin_records, shadow_folder
from matchset.serve.http.access_log import log_settings
from matchset.serve.http.app import make_app
from matchset.serve.http.auth import read_keys, warn_if_readable
from matchset.serve.http.middleware import HEADER_BYTES
from matchset.serve.journals import keep_records
from matchset.serve.options import Limits, ServeConfig
from matchset.serve.purchases import store_purchases
from matchset.serve.reload.run_folder import RunFolder, make_run_folder, publish, read_workers
from matchset.serve.reload.snapshots import Sources
from matchset.serve.reload.switch import make_version, reload_trigger
from matchset.serve.supervisor import Supervisor
from matchset.serve.worker import Worker
from matchset.storage.atomic import locked
from matchset.storage.segments import sweep_segments

logger = logging.getLogger(__name__)
_EXAMPLES = 12
_CONNECTIONS = 16_384  # per worker
_POLL_SECONDS = 0.02
_PR_SET_PDEATHSIG = 1
_LISTENS = "0A"  # a state in /proc/net/tcp
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def serve(
    sources: Sources,
    config: ServeConfig,
    limits: Limits,
    *,
    read_log: Callable[[], Log] | None = None,
    events: EventWeights | None = None,
    on_ready: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until stopped; `on_ready` gets the address once every worker is ready."""
    logging.config.dictConfig(log_settings(config.log_format))
    _check_access(config)
    _raise_open_files()
    with (
        make_run_folder(sources.model, config.n_workers) as run,
        _reserve(config) as reserved,
        ExitStack() as stack,
    ):
        address, port = reserved.getsockname()[:2]  # the actual ones, of a name or port 0
        if folders := _begin_records(run, config):
            kept = keep_records(folders, config.record_bytes, config.n_workers)
            run = replace(run, journals=stack.enter_context(kept))  # noqa: PLW2901
        if config.writable:  # what a killed writer left
            with suppress(OSError), locked(sources.model):
                sweep_segments(sources.model)
        trigger = reload_trigger(run, sources, config)  # first: later changes must be loaded
        publish(run, make_version(run, sources, config, 1))
        run.write_text("attempted", trigger)
        if read_log is not None:  # read here, so that its memory is freed
            log = read_log()
            store_purchases(
                log,
                run.purchases,
                rule=choose_rule(load(sources.model), log, events=events),
                n_examples=_EXAMPLES,
                min_query_count=DEFAULT_MIN_QUERY_COUNT,
            )
        server = _make_server(run, sources, config, limits, address=address, port=port)
        shown = f"[{config.host}]" if ":" in config.host else config.host
        threading.Thread(
            target=_announce,
            args=(run, config.n_workers, port, lambda: on_ready(f"http://{shown}:{port}")),
            daemon=True,
        ).start()
        try:
            server.serve(
                target_loader=partial(_start_worker, run, sources, config, limits, os.getpid()),
                wrap_loader=False,
            )
        except SystemExit:
            # A signal to the whole group ends workers before we stop them: not an error.
            if not server.interrupt_signal:
                raise
        if server.stop_reason is not None:
            raise ModelFileError(f"cannot be served: {server.stop_reason}", path=sources.model)


def _begin_records(run: RunFolder, config: ServeConfig) -> dict[str, Path]:
    """The folder of each stream of records that this server writes."""
    if config.shadow is not None:
        return {SHADOW: shadow_folder(config.records)}
    if config.experiment is None:
        return {}
    experiment = read_experiment(config.experiment)
    folder = begin_records(config.records, experiment)
    run.write_text("experiment", json.dumps(experiment.to_dict()))
    return {QUERIES: folder, EVENTS: folder}


def _make_server(
    run: RunFolder,
    sources: Sources,
    config: ServeConfig,
    limits: Limits,
    *,
    address: str,
    port: int,
) -> Supervisor:
    server = Supervisor(
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
            header_read_timeout=int(1000 * limits.slow_seconds),
            max_buffer_size=HEADER_BYTES,
        ),
        log_level=LogLevels.warning,
        log_dictconfig=log_settings(config.log_format),
        respawn_failed_workers=True,
        workers_kill_timeout=config.stop_seconds,
    )
    server.run, server.sources, server.config = run, sources, config
    signal.signal(signal.SIGUSR1, server.signal_handler_reload)
    return server


def _start_worker(
    run: RunFolder, sources: Sources, config: ServeConfig, limits: Limits, parent: int
) -> ASGIApp:
    """Called in each worker's process."""
    _end_with(parent)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # to the group of a terminal that closes
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        return make_app(Worker(run, sources, config, limits))
    except (ValueError, OSError, MemoryError) as error:
        logger.error("a worker cannot start: %s", error)  # noqa: TRY400
        sys.exit(1)


def _end_with(parent: int) -> None:
    """Make this process end with its parent, even if that is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)


def _announce(run: RunFolder, n_workers: int, port: int, announce: Callable[[], None]) -> None:
    """Call `announce` once every worker has opened the model and listens."""
    while True:
        workers = read_workers(run).values()
        is_open = len(workers) >= n_workers and all(status and status.is_open for status in workers)
        if is_open and count_listeners(port) >= n_workers:
            return announce()
        time.sleep(_POLL_SECONDS)


def count_listeners(port: int) -> int:
    """How many sockets listen on a port: one per worker."""
    rows = [
        line.split()
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        if Path(table).exists()
        for line in Path(table).read_text().splitlines()[1:]
    ]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == _LISTENS for row in rows)


def _reserve(config: ServeConfig) -> socket.socket:
    """A socket that reserves the port; each worker opens its own on the same port."""
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
