"""Recorder: how are records written before an answer is sent, without making it wait for a disk?

A thread writes; whoever records waits for it, at most `WAIT_SECONDS`. So records outlive a worker
that is killed after its answer, and a slow disk costs records, which are counted, not answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

from matchset.online.record_files import RecordFile, RecordsFullError
from matchset.serve.http.prometheus import Metrics

WAIT_SECONDS = 0.005
_AGAIN_SECONDS = 1.0  # until a folder that was full, or a disk that failed, is tried again


class Recorder:
    """The records of one worker; used by one thread alone, that of the event loop."""

    def __init__(self, folders: Mapping[str, Path], total_bytes: int, metrics: Metrics) -> None:
        """`folders` are those of each stream."""
        self._files = {
            stream: RecordFile(folder, stream, total_bytes) for stream, folder in folders.items()
        }
        self._metrics = metrics
        for stream in folders:
            metrics.count_records(stream, None, 0)
        self._job: tuple[str, bytes] | None = None
        self._fault: str | None = None  # why the last job was not done
        self._blocked: dict[str, tuple[float, str]] = {}  # streams that are not tried until then
        self._todo, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self._is_late = False  # the thread still writes what nobody waits for
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def write(self, stream: str, data: bytes, n_records: int = 1) -> bool:
        """Append whole lines; whether they are written now. What is not, is counted."""
        fault = self._write(stream, data)
        self._metrics.count_records(stream, fault, n_records)
        return fault is None

    def close(self) -> None:
        """End the thread and close the files."""
        self._job = None
        self._todo.release()
        self._thread.join(WAIT_SECONDS)

    def _write(self, stream: str, data: bytes) -> str | None:
        """Why it was not written in time, or None."""
        if self._is_late and not self._done.acquire(blocking=False):
            return "slow"
        self._is_late = False
        until, fault = self._blocked.get(stream, (0.0, ""))
        if until > time.monotonic():
            return fault
        self._job = (stream, data)
        self._todo.release()
        if not self._done.acquire(timeout=WAIT_SECONDS):
            self._is_late = True
            return "slow"
        if self._fault is not None:
            self._blocked[stream] = (time.monotonic() + _AGAIN_SECONDS, self._fault)
        return self._fault

    def _run(self) -> None:
        while True:
            self._todo.acquire()
            if self._job is None:
                break
            stream, data = self._job
            try:
                self._files[stream].append(data)
                self._fault = None
            except RecordsFullError:
                self._fault = "full"
            except OSError:
                self._fault = "failed"
            self._done.release()
        for file in self._files.values():
            file.close()
