"""Atomic writes: how does a file or folder appear whole, or not at all?

Data is written beside its target, as `.name.TOKEN.tmp`, and replaces the target once complete. A
folder is locked by the process that writes it, and the lock ends with the process. So a folder
without a lock is left over from a killed process, and the next write to the same target removes it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from matchset.errors import TargetExistsError

_TOKEN_BYTES = 4
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_OCCUPIED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)  # by the kernel or the file system


def temporary_name(path: Path, suffix: str = "") -> Path:
    """A new name beside a path, which `remove_leftovers` recognizes."""
    return path.parent / f".{path.name}.{secrets.token_hex(_TOKEN_BYTES)}{suffix}.tmp"


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """A path to write a file to, which replaces the one at `path` unless something is raised.

    A process that has the old file open keeps reading it.
    """
    staged = temporary_name(path)
    try:
        yield staged
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)


@contextmanager
def staging_folder(path: Path) -> Iterator[Path]:
    """An empty folder beside `path`, locked until the end, removed if something is raised.

    `publish_folder` makes it the folder at `path`.
    """
    staged, handle = _make_locked(path)
    try:
        yield staged
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    finally:
        os.close(handle)


def publish_folder(
    staged: Path, path: Path, *, overwrite: bool, finish: Callable[[Path], None] | None = None
) -> None:
    """Move a folder to `path`; one that is there is exchanged for it, then removed.

    `finish` is called with the staged folder while the one that is there is locked against other
    writers; then there must be one.

    Without `overwrite`, one that is there is a TargetExistsError: of several processes that save to
    a new path, one does.

    Where the system cannot exchange two folders (not Linux, or some network file systems), the old
    one is moved away first: a process killed between the two moves leaves the new folder under its
    temporary name, the old one under a name ending with `.old.tmp`, and nothing at `path`.
    """
    if finish is None:
        try:
            staged.rename(path)  # fails where there is a folder, unless it is empty
        except OSError as error:
            if error.errno not in _OCCUPIED:
                raise
            if not overwrite:
                raise TargetExistsError(path) from None
        else:
            return
    # What another process is adding to the old folder is complete, or is not begun.
    with locked(path):
        if finish is not None:
            finish(staged)
        _replace(staged, path)


def _replace(staged: Path, path: Path) -> None:
    if exchange(staged, path):
        shutil.rmtree(staged, ignore_errors=True)
    else:
        old = temporary_name(path, ".old")
        path.rename(old)
        try:
            staged.rename(path)
        except OSError:
            old.rename(path)
            raise
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def locked(folder: Path, *, is_required: bool = True) -> Iterator[None]:
    """Hold a folder against other processes that do; waits until they are done.

    The path names the locked folder all the while. A file system without locks is an OSError where
    the lock is required.
    """
    while True:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with nullcontext() if is_required else suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            if os.path.samestat(folder.stat(), os.fstat(handle)):
                yield
                return
        finally:
            os.close(handle)


def exchange(first: Path, second: Path) -> bool:
    """Exchange two paths in one step; False where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    names = os.fsencode(first), os.fsencode(second)
    if rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], ctypes.c_uint(_RENAME_EXCHANGE)) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(second))


def remove_leftovers(path: Path) -> None:
    """Remove the folders that killed processes left beside `path`, and nothing else."""
    token = rf"[0-9a-f]{{{2 * _TOKEN_BYTES}}}"
    ours = re.compile(rf"\.{re.escape(path.name)}\.{token}(\.old)?\.tmp")
    with suppress(OSError):  # a parent that cannot be listed must not make a save fail
        for found in path.parent.iterdir():
            if ours.fullmatch(found.name) and found.is_dir() and not found.is_symlink():
                _remove_unlocked(found)


def _make_locked(path: Path) -> tuple[Path, int]:
    while True:
        staged = temporary_name(path)
        staged.mkdir()
        try:
            handle = os.open(staged, os.O_RDONLY)
        except FileNotFoundError:  # removed as a leftover before it was opened
            continue
        with suppress(OSError):  # a network file system without locks: nothing is removed there
            fcntl.flock(handle, fcntl.LOCK_EX)
        if staged.exists():
            return staged, handle
        os.close(handle)  # removed as a leftover before it was locked


def _remove_unlocked(folder: Path) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # its writer is alive, or the file system has no locks
        return
    else:
        if all(is_ours(entry) for entry in folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(handle)


def is_ours(entry: Path) -> bool:
    """Whether an entry of a folder can be one that we wrote."""
    return entry.is_dir() or entry.suffix in (".bin", ".tmp") or entry.name == "manifest.json"
