"""Change log: how is kept what came after a file was written, which itself never changes?

Beside `shop.matchset` lies `shop.matchset.changes`: 16 bytes, then records, appended one by one
and flushed. A file of its own is simpler than an appended model: nobody maps it, so a torn end may
be cut off, and folding its records into one needs no new copy of a large model.

Each file of changes names the checksum of its base. Beside another one, such as the model of a new
training, it is ignored. A record has a length and a CRC, and so has its frame; what a killed
writer left at the end is no whole record, and is ignored until the next writer cuts it off.
"""

from __future__ import annotations

import logging
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from matchset.errors import ModelFileError, UncertainWriteError
from matchset.storage.atomic import (
    Identity,
    flush_folder,
    identify,
    identify_path,
    locked_file,
    new_file,
)

logger = logging.getLogger(__name__)

_SUFFIX = ".changes"
_START = struct.Struct("<8s32s")  # of the file: a word, SHA-256 of its base
_FRAME = struct.Struct("<8sQII")  # of a record: a word, its length and CRC; CRC of these three
_FILE_MAGIC, _MAGIC = b"matchset", b"\x93change\n"


@dataclass(frozen=True, slots=True, eq=False)
class ChangeLog:
    """The records beside a file, oldest first."""

    records: tuple[bytes, ...] = ()
    end: int = 0  # of the last whole record; 0: there is no file, or one of another base
    identity: Identity | None = None  # of the file


def changes_path(path: Path) -> Path:
    """Return where the changes of a file are."""
    return path.with_name(path.name + _SUFFIX)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Hold the right to change or replace a file; other processes wait.

    The lock is on a file of its own, which is never replaced nor removed.
    """
    with locked_file(path.with_name(f".{path.name}.lock")):
        yield


def read_changes(path: Path, base: str) -> ChangeLog:
    """Return the records beside a file whose header has this checksum."""
    file = changes_path(path)
    try:
        with file.open("rb") as stream:
            identity = identify(os.fstat(stream.fileno()))
            data = stream.read()
    except FileNotFoundError:
        return ChangeLog()
    except OSError as error:
        raise ModelFileError(f"cannot be read: {error.strerror}", path=file) from None
    if not data.startswith(_START.pack(_FILE_MAGIC, bytes.fromhex(base))):
        if data:
            logger.warning("%s: belongs to another model than the one beside it: ignored", file)
        return ChangeLog(identity=identity)
    records, end = [], _START.size
    while (record := _read_record(data, end)) is not None:
        records.append(record)
        end += _FRAME.size + len(record)
    _check_rest(data, end, file)
    return ChangeLog(tuple(records), end, identity)


def _read_record(data: bytes, at: int) -> bytes | None:
    """Return the record at a place; None if there is no whole one."""
    if at + _FRAME.size > len(data):
        return None
    magic, length, crc, crc_of_frame = _FRAME.unpack_from(data, at)
    begin = at + _FRAME.size
    if magic != _MAGIC or crc_of_frame != zlib.crc32(data[at : begin - 4]):
        return None
    record = data[begin : begin + length]
    return record if len(record) == length and zlib.crc32(record) == crc else None


def _check_rest(data: bytes, end: int, file: Path) -> None:
    """Raise if a record is damaged, which another one follows; the last may be torn."""
    at = end
    while (at := data.find(_MAGIC, at + 1)) >= 0:
        if _read_record(data, at) is not None:
            raise ModelFileError(f"damaged: a change at byte {end:,} cannot be read", path=file)
    if end < len(data):
        logger.warning("%s: its last %d bytes are no whole change: ignored", file, len(data) - end)


def append_change(path: Path, base: str, log: ChangeLog, record: bytes) -> ChangeLog:
    """Add a record, and return what is there once it is on disk; the caller holds the right to.

    `log` is what was there. An error, such as a full disk, leaves it as it was, but for an
    `UncertainWriteError`: the record is there, and may not survive a crash of the system.
    """
    if log.end == 0:
        return replace_changes(path, base, record)
    file = changes_path(path)
    with file.open("r+b", buffering=0) as stream:
        stream.truncate(log.end)
        stream.seek(log.end)
        try:
            left = memoryview(_frame(record) + record)
            while left:
                left = left[stream.write(left) :]
        except BaseException:
            with suppress(OSError):
                stream.truncate(log.end)
            raise
        try:
            os.fsync(stream.fileno())
        except OSError as error:
            raise UncertainWriteError(file, error) from error
        identity = identify(os.fstat(stream.fileno()))
    end = log.end + _FRAME.size + len(record)
    return ChangeLog((*log.records, record), end, identity)


def replace_changes(path: Path, base: str, record: bytes) -> ChangeLog:
    """Put one record in the place of all; errors are those of `append_change`."""
    data = _START.pack(_FILE_MAGIC, bytes.fromhex(base)) + _frame(record) + record
    with new_file(changes_path(path)) as stream:
        stream.write(data)
    return ChangeLog((record,), len(data), identify_path(changes_path(path)))


def flush_changes(path: Path) -> None:
    """Flush what is there to disk: an earlier writer may not have come to it."""
    with suppress(FileNotFoundError), changes_path(path).open("rb") as stream:
        os.fsync(stream.fileno())
    flush_folder(path.parent)


def _frame(record: bytes) -> bytes:
    start = struct.pack("<8sQI", _MAGIC, len(record), zlib.crc32(record))
    return start + struct.pack("<I", zlib.crc32(start))
