"""Engines: in which threads or processes of this machine do tasks run?"""

from __future__ import annotations

import logging
import pickle
import queue
import subprocess
import sys
from collections.abc import Collection
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_futures
from contextlib import suppress
from contextvars import copy_context
from typing import BinaryIO, cast

from matchset.errors import DataError
from matchset.memory import current_memory
from matchset.work.results import WorkFolder
from matchset.work.tasks import Report, Results, Task
from matchset.work.worker_process import receive, send

logger = logging.getLogger(__name__)

ATTEMPTS = 3  # of a task whose process dies


def ignore(_: int, __: int) -> None:
    """A report that nobody hears."""


class ThreadEngine:
    """Runs tasks in this process: as many at once as there are threads, or a wide one alone."""

    def __init__(self, results: Results, threads: int) -> None:
        self.results, self.threads = results, threads
        self._pool = ThreadPoolExecutor(threads)
        self._running: dict[Future[None], Task] = {}
        self._ended: list[Task] = []  # of those that ran at once

    def has_room(self, task: Task) -> bool:
        """Whether a thread is free, or soon will be; a wide task waits until all are."""
        if not self._running:
            return not self._ended
        return not task.is_wide and len(self._running) < 2 * self.threads

    def submit(self, task: Task, report: Report) -> None:
        """Run a wide task at once, and hand others to a thread."""
        if task.is_wide or self.threads == 1:
            self._run(task, self.threads, report)
            self._ended.append(task)
        else:
            threads = min(task.threads, self.threads)
            future = self._pool.submit(copy_context().run, self._run, task, threads, ignore)
            self._running[future] = task

    def wait(self) -> Collection[Task]:
        """Tasks that have ended."""
        ended, self._ended = self._ended, []
        if ended:
            return ended
        done, _ = wait_for_futures(self._running, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()
        return [self._running.pop(future) for future in done]

    def close(self) -> None:
        """Let what is running end."""
        self._pool.shutdown(cancel_futures=True)

    def _run(self, task: Task, threads: int, report: Report) -> None:
        task(self.results, threads, report)


class ProcessEngine(ThreadEngine):
    """Runs tasks in other processes of this machine; one that is killed is replaced."""

    def __init__(self, results: WorkFolder, threads: int) -> None:
        super().__init__(results, threads)
        self._folder = results
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._workers = [_Worker() for _ in range(threads)]
        for worker in self._workers:
            self._idle.put(worker)

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.end()
        super().close()

    def _run(self, task: Task, threads: int, report: Report) -> None:
        worker = self._idle.get()
        memory = current_memory() // (1 if task.is_wide else self.threads)
        try:
            for attempt in range(1, ATTEMPTS + 1):
                if worker.run(task, self._folder, threads, memory, report):
                    return
                logger.warning("%s: its process died, attempt %d", task.name, attempt)
        finally:
            self._idle.put(worker)
        rule = f"the process of {task.name!r} died {ATTEMPTS} times, perhaps for lack of memory"
        advice = "run the same command again, with fewer {threads=1}: it goes on from there"
        raise DataError(rule, path=self._folder.path, advice=advice)


class _Worker:
    """A process that does one task after another, and is started when there is one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ended = False

    def run(
        self, task: Task, results: WorkFolder, threads: int, memory: int, report: Report
    ) -> bool:
        """Do a task; False if the process died."""
        if self._is_ended:
            return True
        self._process = self._process or _start_process()
        stdin = cast("BinaryIO", self._process.stdin)
        stdout = cast("BinaryIO", self._process.stdout)
        try:
            send(stdin, (task, results, threads, memory))
            while True:
                what, value = pickle.loads(receive(stdout))  # noqa: S301 (of our own process)
                if what == "step":
                    report(*value)
                elif what == "error":
                    raise value
                else:
                    return True
        except (EOFError, BrokenPipeError):
            self._kill()
            return self._is_ended

    def end(self) -> None:
        """End the process, whatever it does."""
        self._is_ended = True
        self._kill()

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(BrokenPipeError):
                process.communicate()


def _start_process() -> subprocess.Popen[bytes]:
    # Without the current folder on its path: a file there could hide a module.
    command = [sys.executable, "-P", "-c", "from matchset.work.worker_process import main; main()"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
