"""Worker: what does one process of the server hold, and how does it follow a reload?"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from typing import TypeVar

from matchset.serve.connections import close_unread, count_connections
from matchset.serve.http.access_log import AccessLog
from matchset.serve.http.prometheus import RELOADED, Metrics
from matchset.serve.http.request_errors import RequestError
from matchset.serve.http.requests import ProductsRequest
from matchset.serve.journals import Recorder
from matchset.serve.loaded_model import LoadedModel, open_version
from matchset.serve.options import Limits, ServeConfig
from matchset.serve.purchases import Purchases, open_purchases
from matchset.serve.reload.run_folder import (
    ModelVersion,
    Registration,
    RunFolder,
    WorkerStatus,
    current_version,
    read_workers,
)
from matchset.serve.reload.snapshots import Sources
from matchset.serve.reload.switch import (
    ReloadResult,
    is_reloading,
    needs_reload,
    reload,
    reload_if_needed,
    reload_trigger,
)
from matchset.serve.turns import Turns
from matchset.serve.writer import Writer, Written

logger = logging.getLogger(__name__)
T = TypeVar("T")
_EXPLAIN_SHARE = 0.02  # of a worker's time, after a burst of some hundred explanations
_POLL_SECONDS = 0.05
_CHECKS = 40  # after a change: a folder may still be copied, a worker that reloads may be killed
_SHARE_POLLS = 20  # between two looks at the other workers
_COLLECT = (20_000, 20, 100)  # rarely: a collection stops every thread
_SWITCH_SECONDS = 0.0005  # the longest that a request waits for a thread that runs Python


class Worker:
    """The state of one process; `model` is the one thing that changes, by one assignment."""

    def __init__(
        self, run: RunFolder, sources: Sources, config: ServeConfig, limits: Limits
    ) -> None:
        self.run, self.sources, self.config, self.limits = run, sources, config, limits
        self._registration = Registration(run)
        self.metrics = Metrics(run, self._registration.slot)
        self.access_log = AccessLog(config.log_format)
        self.purchases: Purchases | None = (
            open_purchases(run.purchases) if run.purchases.exists() else None
        )
        self._recorder = None if run.journals is None else Recorder(run.journals, self.metrics)
        self._pool = ThreadPoolExecutor(config.threads, thread_name_prefix="matchset")
        self._metrics_pool = ThreadPoolExecutor(1, thread_name_prefix="metrics")
        self.turns = Turns(_EXPLAIN_SHARE)
        version = self._registration.claim()
        self.model: LoadedModel = open_version(run, version, sources, config)
        self.writer = Writer(run, sources, config)
        self._is_listening = False
        self._reported = 0  # number of the last model version in a status report
        self._report(version)
        self._trigger = ""
        self._n_to_close = 0  # connections
        self._known: set[int] | None = (
            None  # process ids of the workers, None before the first look
        )
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="reload watcher", daemon=True)

    def start(self) -> None:
        """Follow reloads from now on."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        gc.collect()
        gc.freeze()  # what is there now stays: no collection has to look at it again
        gc.set_threshold(*_COLLECT)
        self._watcher.start()

    def stop(self) -> None:
        """End what was started."""
        self._stop.set()
        if self._watcher.ident is not None:
            self._watcher.join()
        for pool in (self._pool, self._metrics_pool, self.turns.pool):
            pool.shutdown(wait=False, cancel_futures=True)
        self.access_log.flush()
        if self._recorder is not None:
            self._recorder.close()
        self._registration.close()

    def should_close(self) -> bool:
        """Whether to close the connection of the next response; asked once for each."""
        if self._n_to_close <= 0:
            return False
        self._n_to_close -= 1
        return True

    def record(self, stream: str, lines: bytes, n_records: int = 1) -> bool:
        """Keep records before an answer is sent; whether they are kept. Waits for no disk."""
        return self._recorder is not None and self._recorder.write(stream, lines, n_records)

    async def in_thread(self, do: Callable[[], T]) -> T:
        """Run longer work in a thread, so that short requests go on; limited in time."""
        return await self._run_in(self._pool, do)

    async def write_metrics(self) -> bytes:
        """Metrics of all workers, even while batches keep every other thread busy."""
        return await self._run_in(self._metrics_pool, self.metrics.write)

    async def explain_in_turn(self, do: Callable[[], T]) -> T:
        """Explain something, one at a time; see `turns`."""
        with self.turns.wait() as is_over:
            return await self._run_in(self.turns.pool, partial(self.turns.take, do, is_over))

    async def _run_in(self, pool: ThreadPoolExecutor, do: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        try:
            return await asyncio.wait_for(loop.run_in_executor(pool, do), self.limits.seconds)
        except TimeoutError:
            rule = f"a request must take at most {self.limits.seconds:g} s; got more"
            raise RequestError("timeout", rule) from None

    async def write_in_thread(self, wanted: ProductsRequest) -> Written:
        """Write products while requests are answered; one writer at a time."""
        return await asyncio.to_thread(self.writer.write, wanted, self.model)

    def reload(self) -> ReloadResult:
        """Load the model's folder again, in all workers."""
        done = self._log_reload(reload)
        assert done is not None  # noqa: S101  # only reload_if_needed returns None
        return done

    async def reload_in_thread(self) -> ReloadResult:
        """Reload while requests are answered."""
        return await asyncio.to_thread(self.reload)

    def _watch(self) -> None:
        seen, n_checks, n_polls = "", 0, 0
        while not self._stop.wait(_POLL_SECONDS):
            try:
                if not self._is_listening and close_unread(self.limits.slow_seconds):
                    self._is_listening = True
                    self._report(self.model.opened_from)
                n_polls += 1
                if n_polls % _SHARE_POLLS == 1:
                    self._share()
                found = self._poll()
                n_checks = _CHECKS if found != seen else n_checks - 1
                seen = found
                if n_checks > 0:
                    self._switch()
                    self._maybe_reload()
            except Exception:
                logger.exception("the reload watcher failed")

    def _share(self) -> None:
        """Let callers connect again when there is a new worker, which has no connection yet.

        Callers of a worker that died are with the others, and would stay there.
        """
        workers = read_workers(self.run).items()
        live = {pid for pid, status in workers if status and status.is_listening}
        if self._known is not None and live - self._known:
            self._n_to_close = count_connections()
        self._known = live

    def _poll(self) -> str:
        """A text that changes when there is something to do; cheap, as it is made often."""
        shared = self.run.identity("current", "requested", "attempted")
        return shared + (self.sources.identity() if self.config.watch else "")

    def _switch(self) -> None:
        """Switch to the published model version."""
        published = current_version(self.run)
        if published.number == self._reported:
            return
        if published.number != self.model.opened_from.number:
            try:
                model = open_version(self.run, published, self.sources, self.config, self.model)
            except (ValueError, OSError, MemoryError) as error:
                if current_version(self.run) == published:
                    self._report(published, error=str(error))
                return
            self.model = model  # requests in flight keep the one they began with
        self._report(published)

    def _maybe_reload(self) -> None:
        """Reload if a signal or the folder calls for it."""
        trigger = reload_trigger(self.run, self.sources, self.config)
        is_settled, self._trigger = trigger == self._trigger, trigger  # not while files change
        is_due = is_settled and needs_reload(self.run, self.sources, self.config)
        if is_due and not is_reloading(self.run):
            # In another thread: this one must switch for the reload to end.
            threading.Thread(target=self._try_reload, name="reload", daemon=True).start()

    def _try_reload(self) -> None:
        try:
            self._log_reload(reload_if_needed)
        except RequestError:
            return  # already logged
        except Exception:
            logger.exception("a reload failed")

    def _log_reload(
        self, do: Callable[[RunFolder, Sources, ServeConfig], ReloadResult | None]
    ) -> ReloadResult | None:
        try:
            done = do(self.run, self.sources, self.config)
        except RequestError as error:
            self.metrics.count_reload(error.code)
            fields = {"code": error.code, "reason": error.message}
            logger.warning("reload failed", extra={"fields": fields})
            raise
        if done is not None:
            self.metrics.count_reload(RELOADED)
            logger.info("reloaded", extra={"fields": asdict(done)})
        return done

    def _report(self, published: ModelVersion, error: str | None = None) -> None:
        now = self.model.opened_from
        status = WorkerStatus(published.number, now.folder, now.name, error=error)
        self._registration.report(replace(status, is_listening=self._is_listening))
        self._reported = published.number
