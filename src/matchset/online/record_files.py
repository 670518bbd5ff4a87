"""Record files: how do records get to disk, whole, by several servers, and not without end?

Each server appends to a file of its own, which it holds a lock on, by one write per group of
records. A file that has its size is left for the next one. What a server that died has left is
taken over: the kernel releases its lock, and a record that it wrote in part is cut off.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

from matchset.errors import DataError
from matchset.online.definition import Experiment
from matchset.storage.atomic import atomic_file

QUERIES, EVENTS, SHADOW = "queries", "events", "shadow"  # streams of records
_DEFINITION = "experiment.json"
_LOCK = ".lock"
_FILE_BYTES = 64_000_000  # of a file, at most
_FILES = 64  # that the bytes of a folder allow at least
_BLOCK = 65_536


class RecordsFullError(OSError):
    """A folder has as many bytes of records as it may have."""


def begin_records(folder: Path, experiment: Experiment) -> Path:
    """The folder of an experiment's records; a DataError if it began as another experiment."""
    target = folder / experiment.name
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    file, now = target / _DEFINITION, _describe(experiment)
    if file.exists():
        _check_same(file, now)
    else:
        with atomic_file(file) as staged:
            staged.write_text(json.dumps(now, indent=2) + "\n", "utf-8")
    return target


def shadow_folder(folder: Path) -> Path:
    """The folder of the records of shadows, made if there is none."""
    target = folder / SHADOW
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    return target


class RecordFile:
    """The records of one stream that this process writes.

    All files of the folder together have at most `total_bytes`.
    """

    def __init__(self, folder: Path, stream: str, total_bytes: int) -> None:
        self._folder, self._stream, self._total = folder, stream, total_bytes
        self.limit = min(_FILE_BYTES, total_bytes // _FILES)  # bytes of a file, and of an append
        self._file: int | None = None
        self._size = 0

    def append(self, data: bytes) -> None:
        """Write whole lines by one append; an OSError says why they are not there."""
        if self._file is not None and os.fstat(self._file).st_nlink == 0:
            self.close()  # somebody has removed it
        if self._file is None or self._size + len(data) > self.limit:
            self._open_next(len(data))
        file = self._file
        assert file is not None  # noqa: S101  # opened above, or an error
        n_written = os.write(file, data)
        if n_written < len(data):  # the disk is full
            os.ftruncate(file, self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += n_written

    def close(self) -> None:
        """Leave the file to others."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open_next(self, n_bytes: int) -> None:
        """Take over a file with room, or make one; a RecordsFullError if there may be no more."""
        if n_bytes > self.limit:
            raise RecordsFullError(errno.EFBIG, f"records must have at most {self.limit} bytes")
        self.close()
        with _locked(self._folder / _LOCK):
            held, left = 0, []  # files that grow, and bytes of those that nobody holds
            for path in sorted(self._folder.glob("*.jsonl")):
                file = _try_hold(path)
                if file is None:
                    held += 1
                    continue
                size = os.fstat(file).st_size
                has_room = size + n_bytes <= self.limit
                is_ours = path.name.startswith(f"{self._stream}-")
                if self._file is None and is_ours and has_room:
                    self._file, self._size = file, cut_torn(file)
                    held += 1
                else:
                    left.append(size)
                    os.close(file)
            if sum(left) + held * self.limit + (self._file is None) * self.limit > self._total:
                self.close()
                raise RecordsFullError(errno.EDQUOT, f"{self._folder} has all its records")
            if self._file is None:
                self._file, self._size = self._make(), 0

    def _make(self) -> int:
        """A new file, with the next number."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        names = sorted(path.stem for path in self._folder.glob(f"{self._stream}-*.jsonl"))
        number = int(names[-1].rpartition("-")[2]) + 1 if names else 1
        file = os.open(self._folder / f"{self._stream}-{number:06}.jsonl", flags, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file


def _describe(experiment: Experiment) -> dict[str, Any]:
    """What must stay; the salt as a digest, as the hashed units lie beside it."""
    values = json.loads(json.dumps(experiment.to_dict()))
    values["salt"] = blake2b(experiment.key, digest_size=16).hexdigest()
    return dict(values)


def _check_same(file: Path, now: dict[str, Any]) -> None:
    try:
        before = json.loads(file.read_bytes())
    except ValueError:
        before = None
    if not isinstance(before, dict):
        rule = "must be the definition that the experiment began with"
        raise DataError(f"{rule}; got something else", path=file)
    for name in now:
        if before.get(name) != now[name]:
            raise DataError(
                f"{name} must stay as when the experiment began; got a change; "
                "give what you changed another name, as a new experiment",
                path=file,
            )


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _try_hold(path: Path) -> int | None:
    """The file, if nobody holds it."""
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file


def cut_torn(file: int, begin: Callable[[], int] = lambda: 0) -> int:
    """Cut off what stands behind the last whole line; returns where that ends.

    `begin` is where the first line begins; it may grow meanwhile, from line to line.
    """
    first = begin()
    end = size = os.fstat(file).st_size
    while end > first:
        block = max(first, end - _BLOCK)
        found = os.pread(file, end - block, block).rfind(b"\n")
        if found >= 0:
            end = block + found + 1
            break
        end = block
    end = max(end, begin())
    if end < size:
        os.ftruncate(file, end)
    return end
