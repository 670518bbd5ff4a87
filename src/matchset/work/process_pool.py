"""Process pool: how are tasks done in other processes, some of which may be killed?

Python's own pool is broken as a whole when one of its processes dies, needs a guarded main module,
and leaves its processes alone when the process that started them is killed. Here a process reads
calls from its standard input and ends when that does; one that dies costs only its own call.
"""

from __future__ import annotations

import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from matchset.errors import DataError
from matchset.memory import current_memory, limit_memory
from matchset.work.by_path import dumps
from matchset.work.pools import ThreadPool

logger = logging.getLogger(__name__)

ATTEMPTS = 3  # of a call whose process dies
_LENGTH = 8  # bytes before a message
T = TypeVar("T")


class ProcessPool(ThreadPool):
    """An executor that calls functions in processes, which share the memory that is allowed."""

    def __init__(self, n_processes: int, folder: Path) -> None:
        super().__init__(n_processes)
        self._folder, self._is_closed = folder, False
        memory = current_memory() // n_processes
        self._workers = [_Worker(str(folder), memory) for _ in range(n_processes)]
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call a function in a process; again in another one if that dies."""
        call = dumps(partial(function, *args, **kwargs))
        return super().submit(cast("Callable[..., T]", self._call), call)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes, whatever they do."""
        self._is_closed = True
        for worker in self._workers:
            worker.kill()
        super().shutdown(wait, cancel_futures=cancel_futures)

    def _call(self, call: bytes) -> Any:
        worker = self._idle.get()
        try:
            for attempt in range(1, ATTEMPTS + 1):
                if self._is_closed:
                    raise CancelledError
                answer = worker.ask(call)
                if answer is not None:
                    value, error = pickle.loads(answer)  # noqa: S301 (of our own process)
                    if error is not None:
                        raise error
                    return value
                if not self._is_closed:
                    logger.warning("a process that did a task died, attempt %d", attempt)
        finally:
            self._idle.put(worker)
        rule = f"the process of a task died {ATTEMPTS} times, perhaps for lack of memory"
        advice = "run the same command again, with fewer {threads=1}: it goes on from there"
        raise DataError(rule, path=self._folder, advice=advice)


class _Worker:
    """A process that does one call after another, and is started when there is one."""

    def __init__(self, folder: str, memory: int) -> None:
        # Without the current folder on its path: a file there could hide a module.
        code = "from matchset.work.process_pool import main; main()"
        self._command = [sys.executable, "-P", "-c", code, folder, str(memory)]
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, call: bytes) -> bytes | None:
        """Return the answer to a call, pickled; None if the process died."""
        if self._process is None:
            self._process = subprocess.Popen(  # noqa: S603
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        process = self._process
        try:
            send(cast("BinaryIO", process.stdin), call)
            return receive(cast("BinaryIO", process.stdout))
        except (EOFError, BrokenPipeError, ValueError):  # of a stream that `kill` has closed
            self.kill()
            return None

    def kill(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(BrokenPipeError, ValueError):
                process.communicate()


def send(stream: BinaryIO, message: bytes) -> None:
    """Write a message."""
    stream.write(len(message).to_bytes(_LENGTH, "little") + message)
    stream.flush()


def receive(stream: BinaryIO) -> bytes:
    """Read a message; an EOFError if there is none, or half of one."""
    length = stream.read(_LENGTH)
    message = stream.read(int.from_bytes(length, "little"))
    if len(length) < _LENGTH or len(message) < int.from_bytes(length, "little"):
        raise EOFError
    return message


def main() -> None:
    """Do calls in a process of the pool until there are no more."""
    folder, memory = sys.argv[1:]
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a task prints is no answer
    calls: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, calls), daemon=True).start()
    with limit_memory(int(memory), folder):
        while True:
            send(answers, pickle.dumps(_answer(calls.get())))


def _listen(source: BinaryIO, calls: queue.SimpleQueue[bytes]) -> None:
    """End this process with the one that started it, even amid a call."""
    while True:
        try:
            calls.put(receive(source))
        except EOFError:
            os._exit(0)


def _answer(call: bytes) -> tuple[Any, Exception | None]:
    try:
        return pickle.loads(call)(), None  # noqa: S301 (of our own process)
    except Exception as error:
        return None, error
