"""Atomic writes: how does a file appear whole, or not at all?

Data is written beside its target and takes its place by a rename, which leaves those who have the
old file open with what they opened.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, TypeAlias

from matchset.errors import UncertainWriteError

Identity: TypeAlias = tuple[int, int, int, int]  # device, inode, size, nanoseconds
_TOKEN_BYTES = 4


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a path to write to, which replaces the one at `path` unless something is raised.

    A process that has the old file open keeps reading it.
    """
    staged = path.parent / f".{path.name}.{secrets.token_hex(_TOKEN_BYTES)}.tmp"
    try:
        yield staged
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)


def identify(found: os.stat_result) -> Identity:
    """Return what tells a file from others that its path named before, or had longer ago."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def identify_path(path: Path) -> Identity | None:
    """Return the identity of the file that a path names; None if there is none."""
    try:
        return identify(path.stat())
    except OSError:
        return None


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a stream whose bytes become the file at `path`, flushed, unless something is raised.

    An error leaves what was there, but for an `UncertainWriteError`: the file is the new one, and
    may not survive a crash of the system.

    They are written to `.name.tmp` beside it, which is locked, so that of two processes one waits.
    What a killed one left there, the next one writes over.
    """
    staged = path.parent / f".{path.name}.tmp"
    with locked_file(staged, is_required=False) as handle:
        try:
            os.ftruncate(handle, 0)
            with open(handle, "r+b", closefd=False) as stream:
                yield stream
            os.fsync(handle)
            staged.replace(path)
        except BaseException:
            staged.unlink(missing_ok=True)
            raise
    try:
        flush_folder(path.parent)
    except OSError as error:
        raise UncertainWriteError(path, error) from error


@contextmanager
def locked_file(path: Path, *, is_required: bool = True) -> Iterator[int]:
    """Hold a file, made if need be, against other processes that do; waits until they are done.

    The path names the locked file all the while. A file system without locks is an OSError where
    the lock is required.
    """
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            with nullcontext() if is_required else suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            if _is_named(path, handle):
                yield handle
                return
        finally:
            os.close(handle)


def _is_named(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
