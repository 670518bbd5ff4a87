"""Journals: how does a record outlive the worker that answered, without any wait for a disk?

Before an answer is sent, its record is appended, by one write, to memory that the main process
owns: that never waits for a disk, and a worker that is killed takes nothing with it. A thread of
the main process moves what is there to files, every few milliseconds. Where the disk is full or
slow, `_BACKLOG` bytes per worker wait for it; what comes then is dropped, and counted.
"""

from __future__ import annotations

import ctypes
import fcntl
import logging
import mmap
import os
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from matchset.online.record_files import RecordFile, cut_torn
from matchset.serve.http.prometheus import Metrics
from matchset.serve.reload.run_folder import Journals

logger = logging.getLogger(__name__)
_BACKLOG = 16_000_000  # bytes of a stream of a worker that may wait for the disk
_CHUNK = 1_000_000  # bytes that are moved at once, at most
_MOVE_SECONDS = 0.02
_AGAIN_SECONDS = 1.0  # after a fault of the disk
_LAST_SECONDS = 5.0  # for a disk that hangs when the server stops
_MOVED = struct.Struct("<q")  # bytes of a journal that are on disk
_PUNCH_HOLE = 0x03  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE


class Recorder:
    """The records of one worker; used by one thread alone, that of the event loop."""

    def __init__(self, journals: Journals, metrics: Metrics) -> None:
        self._metrics = metrics
        group, files = _claim(journals)
        with journals.board.open("rb") as board:
            self._board = mmap.mmap(board.fileno(), 0, prot=mmap.PROT_READ)
        self._files: dict[str, _Open] = {}
        for number, (stream, file) in enumerate(files.items()):
            journal = _Open(file, _MOVED.size * (group * len(files) + number))
            self._files[stream] = journal
            self._cut(journal)
        for stream in self._files:
            metrics.count_records(stream, None, 0)

    def write(self, stream: str, lines: bytes, n_records: int = 1) -> bool:
        """Append whole lines; whether they are kept. What is not, is counted."""
        fault = self._write(self._files[stream], lines)
        self._metrics.count_records(stream, fault, n_records)
        return fault is None

    def close(self) -> None:
        """Give the journals back; the main process moves what is in them."""
        for journal in self._files.values():
            os.close(journal.file)

    def _write(self, journal: _Open, lines: bytes) -> str | None:
        if journal.size + len(lines) - self._count_moved(journal) > _BACKLOG:
            return "disk"
        try:
            n_written = os.write(journal.file, lines)
        except OSError:
            n_written = 0
        if n_written < len(lines):  # no memory
            self._cut(journal)
            return "memory"
        journal.size += n_written
        return None

    def _count_moved(self, journal: _Open) -> int:
        moved: int = _MOVED.unpack_from(self._board, journal.at)[0]
        return moved

    def _cut(self, journal: _Open) -> None:
        """Cut off a line that was written in part, by this worker or by one that was killed."""
        journal.size = cut_torn(journal.file, lambda: self._count_moved(journal))


@dataclass(slots=True)
class _Open:
    """A journal of this worker."""

    file: int
    at: int  # its place on the board
    size: int = 0


@contextmanager
def keep_records(
    folders: Mapping[str, Path], total_bytes: int, n_workers: int
) -> Iterator[Journals]:
    """Journals for each stream, whose records are moved to its folder until the end, and then too.

    Called in the main process. There are twice as many journals as workers: one that dies may
    still hold its own when the next starts.
    """
    n_groups = 2 * n_workers + 2
    handles = [os.memfd_create("matchset-journal") for _ in range(n_groups * len(folders) + 1)]
    paths = [Path(f"/proc/{os.getpid()}/fd/{handle}") for handle in handles]
    os.ftruncate(handles[-1], _MOVED.size * n_groups * len(folders))
    streams = list(folders)
    files = [RecordFile(folder, stream, total_bytes) for stream, folder in folders.items()]
    mover = _Mover(list(zip(handles, files * n_groups, strict=False)), handles[-1])
    begins = range(0, len(paths) - 1, len(streams))
    groups = tuple(dict(zip(streams, paths[begin:], strict=False)) for begin in begins)
    try:
        yield Journals(paths[-1], groups)
    finally:
        mover.stop()
        for handle in handles:
            os.close(handle)
        for file in files:
            file.close()


class _Mover:
    """The thread that moves records from memory to files."""

    def __init__(self, journals: list[tuple[int, RecordFile]], board: int) -> None:
        self._journals, self._board = journals, board
        self._moved = [0] * len(journals)
        self._fault: str | None = None  # of the disk; said once
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="records", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Move what is left, if the disk takes it."""
        self._stop.set()
        self._thread.join(_LAST_SECONDS)
        n_left = sum(
            os.fstat(file).st_size - moved
            for (file, _), moved in zip(self._journals, self._moved, strict=True)
        )
        if n_left:
            logger.error("%d bytes of records were not written to disk", n_left)

    def _run(self) -> None:
        while not self._stop.wait(_MOVE_SECONDS):
            if not self._move_all():
                self._stop.wait(_AGAIN_SECONDS)
        self._move_all()

    def _move_all(self) -> bool:
        """Move every whole line; whether the disk took it."""
        try:
            for number in range(len(self._journals)):
                while self._move(number):
                    pass
        except OSError as error:
            if str(error) != self._fault:
                self._fault = str(error)
                logger.warning("records wait for the disk: %s", error)
            return False
        self._fault = None
        return True

    def _move(self, number: int) -> bool:
        """Move some lines of a journal; whether there may be more."""
        (journal, file), moved = self._journals[number], self._moved[number]
        n_waiting = os.fstat(journal).st_size - moved
        if n_waiting <= 0:
            return False
        data = os.pread(journal, min(n_waiting, _CHUNK, file.limit), moved)
        lines = data[: data.rfind(b"\n") + 1]
        if not lines:  # one is being written
            return False
        file.append(lines)
        self._moved[number] = moved + len(lines)
        os.pwrite(self._board, _MOVED.pack(self._moved[number]), _MOVED.size * number)
        _free(journal, moved, len(lines))
        return len(data) < n_waiting


def _claim(journals: Journals) -> tuple[int, dict[str, int]]:
    """Journals that no other worker has, opened; the lock ends with the process."""
    for number, group in enumerate(journals.groups):
        files = {
            stream: os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
            for stream, path in group.items()
        }
        try:
            fcntl.flock(next(iter(files.values())), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            for file in files.values():
                os.close(file)
        else:
            return number, files
    n_groups = len(journals.groups)
    raise RuntimeError(f"a server must have a journal for each worker; got {n_groups}, all in use")


def _free(journal: int, begin: int, n_bytes: int) -> None:
    """Give memory back; the rest of the journal stays where it is."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate(journal, _PUNCH_HOLE, ctypes.c_long(begin), ctypes.c_long(n_bytes))
