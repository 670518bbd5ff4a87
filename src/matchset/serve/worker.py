"""Worker: what does one process of the server hold, and how does it follow a reload?"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from matchset.online.record_files import RecordLog
from matchset.serve.access_log import AccessLog
from matchset.serve.loaded_model import LoadedModel
from matchset.serve.options import Limits, ServeConfig
from matchset.serve.product_writer import Writer, Written
from matchset.serve.prometheus import Metrics
from matchset.serve.purchases import Purchases, open_purchases
from matchset.serve.reloading import reload
from matchset.serve.request_errors import RequestError
from matchset.serve.requests import ProductsRequest
from matchset.serve.snapshots import Sources
from matchset.serve.turns import Turns
from matchset.serve.versions import RunFolder, open_current

logger = logging.getLogger(__name__)
T = TypeVar("T")
_POLL_SECONDS = 0.1
_THREADS = 4  # for longer work: batches, new filters
_COLLECT = (20_000, 20, 100)  # rarely: a collection stops every thread
_SWITCH_SECONDS = 0.0005  # the longest that a request waits for a thread that runs Python


class Worker:
    """The state of one process; `model` is the one thing that changes, by one assignment."""

    def __init__(
        self,
        run: RunFolder,
        sources: Sources,
        config: ServeConfig,
        limits: Limits,
        slots: Path,
        records: Path | None = None,
    ) -> None:
        self.run, self.sources, self.config, self.limits = run, sources, config, limits
        self.metrics = Metrics(slots)
        self.access_log = AccessLog()
        self.purchases: Purchases | None = (
            open_purchases(run.purchases) if run.purchases.exists() else None
        )
        self._records = None if records is None else RecordLog(records)
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="matchset")
        self._metrics_pool = ThreadPoolExecutor(1, thread_name_prefix="metrics")
        self.turns = Turns()
        self.model: LoadedModel = open_current(run, config)
        self._writer = Writer(run, sources, config)
        self._failed = ""  # the version that could not be opened
        self._stop = threading.Event()
        self._watcher = threading.Thread(
            target=self._watch, args=(os.getppid(),), name="reload watcher", daemon=True
        )

    def start(self) -> None:
        """Serve, and follow reloads from now on."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        gc.collect()
        gc.freeze()  # what is there now stays: no collection has to look at it again
        gc.set_threshold(*_COLLECT)
        self.metrics.serve(self.model.version)
        self._watcher.start()

    def stop(self) -> None:
        """End what was started."""
        self._stop.set()
        if self._watcher.ident is not None:
            self._watcher.join()
        for pool in (self._pool, self._metrics_pool, self.turns.pool):
            pool.shutdown(wait=False, cancel_futures=True)
        self.access_log.flush()
        self.metrics.close()

    def record(self, stream: str, lines: bytes, n_records: int = 1) -> bool:
        """Keep records before an answer is sent, and count them; return whether they are kept."""
        is_kept = self._records is not None and self._records.write(stream, lines)
        self.metrics.count_records(stream, None if is_kept else "disk", n_records)
        return is_kept

    async def in_thread(self, do: Callable[[], T]) -> T:
        """Run longer work in a thread, so that short requests go on; limited in time."""
        return await self._run_in(self._pool, do)

    async def write_metrics(self) -> bytes:
        """Return metrics of all workers, even while batches keep every other thread busy."""
        return await self._run_in(self._metrics_pool, self.metrics.write)

    async def explain_in_turn(self, do: Callable[[], T]) -> T:
        """Explain something, one at a time; see `turns`."""
        with self.turns.wait():
            return await self._run_in(self.turns.pool, lambda: self.turns.take(do))

    async def _run_in(self, pool: ThreadPoolExecutor, do: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        try:
            return await asyncio.wait_for(loop.run_in_executor(pool, do), self.limits.seconds)
        except TimeoutError:
            rule = f"a request must take at most {self.limits.seconds:g} s; got more"
            raise RequestError("timeout", rule) from None

    async def write_in_thread(self, wanted: ProductsRequest) -> Written:
        """Write products while requests are answered, and serve them here."""
        return await asyncio.to_thread(self._write, wanted)

    def _write(self, wanted: ProductsRequest) -> Written:
        written = self._writer.write(wanted, self.model)
        self._switch()
        return written

    async def reload_in_thread(self) -> LoadedModel:
        """Reload while requests are answered, and serve the new model here."""
        await asyncio.to_thread(reload, self.run, self.sources, self.config, self.metrics)
        await asyncio.to_thread(self._switch)
        return self.model

    def _watch(self, parent: int) -> None:
        """Follow what is published, until the server ends, however it does."""
        while not self._stop.wait(_POLL_SECONDS):
            if os.getppid() != parent:
                os.kill(os.getpid(), signal.SIGTERM)
                return
            self._switch()

    def _switch(self) -> None:
        """Switch to the version that is published; requests in flight keep theirs."""
        current = self.run.current
        if current in (str(self.model.opened_from.number), self._failed):
            return
        try:
            model = open_current(self.run, self.config, self.model)
        except (ValueError, OSError, MemoryError) as error:
            self._failed = current
            logger.error("a worker cannot open the new model: %s", error)  # noqa: TRY400
            return
        if model.opened_from.number > self.model.opened_from.number:
            self.model = model
            self.metrics.serve(model.version)
