"""Slots: what does each worker tell the others, even if the disk is full?

A slot is a piece of memory that all processes of a server share: the id of the worker that has it,
its status, and its counters. The main process makes all of them, whole, before the first worker
starts, so nothing has to be allocated later. A worker holds a lock on its slot, which the kernel
releases when the process dies, no matter how. The next worker takes the slot over and goes on
counting where the dead one stopped.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_STATUS = struct.Struct("<III")  # process id, length and CRC-32 of the status text
_MAX_STATUS = 4096 - _STATUS.size
_MAX_SERIES = 1024  # labels come from fixed lists; some hundreds are used
_NAME = 128  # bytes of a series' name, ended by zeros
_COUNT_AT = 4096  # how many series have a name
_NAMES_AT = 8192
_VALUES_AT = _NAMES_AT + _MAX_SERIES * _NAME
_SIZE = _VALUES_AT + (_MAX_SERIES + 1) * 8  # the last is of those that are too many
_ATTEMPTS = 100  # to read a status that is being written


@contextmanager
def make_slots(folder: Path, n: int) -> Iterator[tuple[Path, ...]]:
    """Memory for n workers, as paths that every process of this server can open.

    Where the system has no files in memory (not Linux), they are files in `folder`.
    """
    handles: list[int] = []
    try:
        paths = []
        for number in range(n):
            if hasattr(os, "memfd_create"):
                handles.append(os.memfd_create("matchset-slot"))
                paths.append(Path(f"/proc/{os.getpid()}/fd/{handles[-1]}"))
            else:
                paths.append(folder / f"slot{number}")
                handles.append(os.open(paths[-1], os.O_RDWR | os.O_CREAT, 0o600))
            _fill(handles[-1])
        yield tuple(paths)
    finally:
        for handle in handles:
            os.close(handle)


def _fill(handle: int) -> None:
    """Write every byte: a page that is first touched later may find no room."""
    view = memoryview(bytes(_SIZE))
    while view:
        view = view[os.write(handle, view) :]


class Slot:
    """The slot of this worker."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._file, self._memory = _claim(paths)
        self.values = memoryview(self._memory)[_VALUES_AT:_SIZE].cast("d")  # of series, by index
        self._series = {name: index for index, name in enumerate(_read_names(self._memory))}
        self._lock = threading.Lock()
        self.report("")

    def close(self) -> None:
        """Give the slot back."""
        fcntl.flock(self._file, fcntl.LOCK_UN)  # `mmap` has the file open too
        os.close(self._file)

    def report(self, text: str) -> None:
        """Publish a status; a text that does not fit is an error."""
        data = text.encode()
        if len(data) > _MAX_STATUS:
            raise ValueError(f"a status must have at most {_MAX_STATUS} bytes; got {len(data)}")
        self._memory[_STATUS.size : _STATUS.size + len(data)] = data
        _STATUS.pack_into(self._memory, 0, os.getpid(), len(data), zlib.crc32(data))

    def find(self, name: str) -> int:
        """The index of a series, a new one at 0; of one that nobody reads if there are too many."""
        with self._lock:
            known = self._series.get(name)
            if known is not None or len(self._series) == _MAX_SERIES:
                return _MAX_SERIES if known is None else known
            index, data = len(self._series), name.encode()[:_NAME]
            at = _NAMES_AT + index * _NAME
            self._memory[at : at + len(data)] = data
            self._series[name] = index
            struct.pack_into("<Q", self._memory, _COUNT_AT, index + 1)  # last: readers see it whole
            return index


def _claim(paths: tuple[Path, ...]) -> tuple[int, mmap.mmap]:
    for path in paths:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
        else:
            return file, mmap.mmap(file, _SIZE)
    raise RuntimeError(f"a server must have a slot for each worker; got {len(paths)}, all in use")


@dataclass(frozen=True, slots=True)
class SlotContent:
    """What a worker has left in its slot; it may be dead."""

    pid: int  # 0: no worker has had this slot
    is_live: bool
    status: str  # empty: not reported yet
    values: dict[str, float]  # by the name of the series


def read_slots(paths: tuple[Path, ...]) -> list[SlotContent]:
    """What every worker has left, dead ones too."""
    return [_read(path) for path in paths]


def _read(path: Path) -> SlotContent:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: readers do not collide
            is_live = False
        except OSError:
            is_live = True
        with mmap.mmap(file, _SIZE, prot=mmap.PROT_READ) as memory:
            pid, status = _read_status(memory)
            names = _read_names(memory)
            values = struct.unpack_from(f"<{len(names)}d", memory, _VALUES_AT)
    finally:
        os.close(file)
    return SlotContent(pid, is_live, status, dict(zip(names, values, strict=True)))


def _read_status(memory: mmap.mmap) -> tuple[int, str]:
    for _ in range(_ATTEMPTS):
        pid, length, checksum = _STATUS.unpack_from(memory, 0)
        data = memory[_STATUS.size : _STATUS.size + min(length, _MAX_STATUS)]
        if zlib.crc32(data) == checksum:
            return pid, data.decode()
    return pid, ""  # it died while it wrote


def _read_names(memory: mmap.mmap) -> list[str]:
    (n,) = struct.unpack_from("<Q", memory, _COUNT_AT)
    begins = range(_NAMES_AT, _NAMES_AT + n * _NAME, _NAME)
    return [memory[at : at + _NAME].rstrip(b"\0").decode() for at in begins]
