"""Worker: what does one process of the server hold, and how does it follow a reload?"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TypeVar

from matchset.serve.http.access_log import AccessLog
from matchset.serve.http.problems import RequestError
from matchset.serve.http.prometheus import Metrics
from matchset.serve.loaded_model import Served, open_generation
from matchset.serve.options import Limits, ServeConfig
from matchset.serve.purchases import Bought, open_bought
from matchset.serve.reload.generations import (
    Acknowledgement,
    Generation,
    Registration,
    RunFolder,
    current,
)
from matchset.serve.reload.snapshots import Sources
from matchset.serve.reload.switch import (
    Reloaded,
    is_running,
    is_wanted,
    reload,
    reload_if_wanted,
    wanted,
)

logger = logging.getLogger(__name__)
T = TypeVar("T")
_POLL_SECONDS = 0.05
_LOOKS = 40  # after a change: a folder comes to rest, a worker that reloads may be killed
_SWITCH_SECONDS = 0.0005  # a request waits so long at most for a thread that runs Python


class Worker:
    """The state of one process; `served` is the one thing that changes, by one assignment."""

    def __init__(
        self, run: RunFolder, sources: Sources, config: ServeConfig, limits: Limits
    ) -> None:
        self.run, self.sources, self.config, self.limits = run, sources, config, limits
        self._registration = Registration(run)  # before anything that is kept of live workers alone
        self.metrics = Metrics(run)
        self.access_log = AccessLog(config.log_format)
        self.bought: Bought | None = open_bought(run.bought) if run.bought.exists() else None
        self._pool = ThreadPoolExecutor(config.threads, thread_name_prefix="matchset")
        self._counting = ThreadPoolExecutor(1, thread_name_prefix="metrics")
        generation = self._registration.claim()
        self.served: Served = open_generation(run, generation, sources, config)
        self._told = 0  # number of the generation that was acknowledged last
        self._acknowledge(generation)
        self._asked = ""
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="generations", daemon=True)

    def start(self) -> None:
        """Follow reloads from now on."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._watcher.start()

    def stop(self) -> None:
        """End what was started."""
        self._stop.set()
        if self._watcher.ident is not None:
            self._watcher.join()
        for pool in (self._pool, self._counting):
            pool.shutdown(wait=False, cancel_futures=True)
        self.access_log.flush()
        self._registration.close()

    async def in_thread(self, do: Callable[[], T]) -> T:
        """Do what takes longer beside the requests that take microseconds, within its time."""
        return await self._wait_for(self._pool, do)

    async def write_metrics(self) -> bytes:
        """The sums over all workers, also while batches keep every other thread busy."""
        return await self._wait_for(self._counting, self.metrics.write)

    async def _wait_for(self, pool: ThreadPoolExecutor, do: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        try:
            return await asyncio.wait_for(loop.run_in_executor(pool, do), self.limits.seconds)
        except TimeoutError:
            rule = f"a request must take at most {self.limits.seconds:g} s; got more"
            raise RequestError("timeout", rule) from None

    def reload(self) -> Reloaded:
        """Serve what lies in the model's folder now, in all workers."""
        done = self._report(reload)
        assert done is not None  # noqa: S101  # an unconditional reload tells what it did
        return done

    async def reload_in_thread(self) -> Reloaded:
        """Reload while requests are answered."""
        return await asyncio.to_thread(self.reload)

    def _watch(self) -> None:
        seen, n_looks = "", 0
        while not self._stop.wait(_POLL_SECONDS):
            try:
                found = self._glance()
                n_looks = _LOOKS if found != seen else n_looks - 1
                seen = found
                if n_looks > 0:
                    self._follow()
                    self._obey()
            except Exception:
                logger.exception("the watcher of generations failed")

    def _glance(self) -> str:
        """What changes when there is something to do; it is looked at twenty times a second."""
        shared = self.run.identity("current", "asked", "tried")
        return shared + (self.sources.identity() if self.config.watch else "")

    def _follow(self) -> None:
        """Switch to what is published."""
        published = current(self.run)
        if published.number == self._told:
            return
        if published.number != self.served.generation.number:
            try:
                served = open_generation(self.run, published, self.sources, self.config)
            except (ValueError, OSError, MemoryError) as error:
                if current(self.run) == published:
                    self._acknowledge(published, error=str(error))
                return
            self.served = served  # requests in flight keep the one they began with
        self._acknowledge(published)

    def _obey(self) -> None:
        """Reload if a signal or the folder asks for it."""
        asked = wanted(self.run, self.sources, self.config)
        is_at_rest, self._asked = asked == self._asked, asked  # a folder that changes is let alone
        is_due = is_at_rest and is_wanted(self.run, self.sources, self.config)
        if is_due and not is_running(self.run):
            # A thread of its own: this one must follow, for the reload to end.
            threading.Thread(target=self._try_reload, name="reload", daemon=True).start()

    def _try_reload(self) -> None:
        try:
            self._report(reload_if_wanted)
        except RequestError:
            return  # it is in the log
        except Exception:
            logger.exception("a reload failed")

    def _report(
        self, do: Callable[[RunFolder, Sources, ServeConfig], Reloaded | None]
    ) -> Reloaded | None:
        try:
            done = do(self.run, self.sources, self.config)
        except RequestError as error:
            self.metrics.count_reload(error.code)
            fields = {"code": error.code, "reason": error.message}
            logger.warning("reload failed", extra={"fields": fields})
            raise
        if done is not None:
            self.metrics.count_reload("done")
            logger.info("reloaded", extra={"fields": asdict(done)})
        return done

    def _acknowledge(self, published: Generation, error: str | None = None) -> None:
        now = self.served.generation
        self._registration.acknowledge(
            Acknowledgement(published.number, now.folder, now.version, error=error)
        )
        self._told = published.number
