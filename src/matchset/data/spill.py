"""Spill: where does DuckDB put what does not fit into memory, and who removes it?

What is spilled are queries, so nothing may stay on disk. The folder is removed at the end. A
process that is killed cannot do that, but its lock is released, and the next one removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "matchset-spill-"
COPIES = "utf8"  # the folder of files that were transcoded
_OURS = ("duckdb_temp", COPIES)  # how the names of DuckDB's files start, and of our own


@contextmanager
def spill_folder() -> Iterator[Path]:
    """A folder for DuckDB's temporary files that only this user can read, removed at the end."""
    remove_dead_spills(Path(tempfile.gettempdir()))
    folder, handle = _make_locked()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def remove_dead_spills(parent: Path) -> None:
    """Remove the folders of processes that were killed; never one in use or of another user."""
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False):
                _remove_if_dead(Path(entry.path))


def _make_locked() -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:  # removed by another process before it was opened
            continue
        with suppress(OSError):  # a file system without locks: nothing is swept there
            fcntl.flock(handle, fcntl.LOCK_EX)
        if folder.exists():
            return folder, handle
        os.close(handle)  # removed before it was locked


def _remove_if_dead(folder: Path) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        is_mine = os.fstat(handle).st_uid == os.geteuid()
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_mine and all(one.name.startswith(_OURS) for one in folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
    except OSError:  # its process is alive, or the file system has no locks
        return
    finally:
        os.close(handle)
