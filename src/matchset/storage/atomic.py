"""Building: where does a folder lie until it is complete, and who clears up after the killed?

A folder is built beside its target, as `.name.TOKEN.tmp`, and locked by who builds it. The lock
ends with the process, however that ends: what nobody has locked is left over, and the next save to
the same target removes it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_TOKEN_BYTES = 4


def name_temporary(path: Path, suffix: str = "") -> Path:
    """A new name beside a path, which `sweep` knows as ours."""
    return path.parent / f".{path.name}.{secrets.token_hex(_TOKEN_BYTES)}{suffix}.tmp"


@contextmanager
def build_beside(path: Path) -> Iterator[Path]:
    """An empty folder beside `path`, locked until the end; whatever fails removes it."""
    building, handle = _make_locked(path)
    try:
        yield building
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    finally:
        os.close(handle)


def sweep(path: Path) -> None:
    """Remove what killed processes left beside `path`, and nothing else."""
    token = rf"[0-9a-f]{{{2 * _TOKEN_BYTES}}}"
    ours = re.compile(rf"\.{re.escape(path.name)}\.{token}(\.old)?\.tmp")
    with suppress(OSError):  # a folder that cannot be listed is not worth a failed save
        for found in path.parent.iterdir():
            if ours.fullmatch(found.name) and found.is_dir() and not found.is_symlink():
                _remove_unlocked(found)


def _make_locked(path: Path) -> tuple[Path, int]:
    while True:
        building = name_temporary(path)
        building.mkdir()
        try:
            handle = os.open(building, os.O_RDONLY)
        except FileNotFoundError:  # swept between the making and the opening
            continue
        with suppress(OSError):  # some network file systems have no locks: nothing is swept there
            fcntl.flock(handle, fcntl.LOCK_EX)
        if building.exists():
            return building, handle
        os.close(handle)  # swept between the making and the locking


def _remove_unlocked(folder: Path) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # its builder lives, or the file system cannot tell
        return
    else:
        if all(_is_ours(entry) for entry in folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(handle)


def _is_ours(entry: Path) -> bool:
    return entry.is_dir() or entry.suffix == ".bin" or entry.name == "manifest.json"


AT_FDCWD = -100
RENAME_EXCHANGE = 2
CANNOT = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)  # of a kernel or file system


def put_in_place(building: Path, path: Path) -> None:
    """Move `building` to `path`; a folder that is there is exchanged for it, then removed.

    Where the system cannot exchange two folders (not Linux, or some network file systems), the old
    one is moved away first: a process killed between the two moves leaves the new folder under its
    temporary name, the old one under a name ending with `.old.tmp`, and nothing at `path`.
    """
    if not path.exists():
        building.rename(path)
    elif exchange(building, path):
        shutil.rmtree(building, ignore_errors=True)
    else:
        old = name_temporary(path, ".old")
        path.rename(old)
        try:
            building.rename(path)
        except OSError:
            old.rename(path)
            raise
        shutil.rmtree(old, ignore_errors=True)


def exchange(first: Path, second: Path) -> bool:
    """Exchange two paths in one step; False where the system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    names = os.fsencode(first), os.fsencode(second)
    if rename(AT_FDCWD, names[0], AT_FDCWD, names[1], ctypes.c_uint(RENAME_EXCHANGE)) == 0:
        return True
    code = ctypes.get_errno()
    if code in CANNOT:
        return False
    raise OSError(code, os.strerror(code), str(second))
