"""Building: where does a folder lie until it is complete, and who clears up after the killed?

A folder is built beside its target, as `.name.TOKEN.tmp`, and locked by who builds it. The lock
ends with the process, however that ends: what nobody has locked is left over, and the next save to
the same target removes it.
"""

from __future__ import annotations

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
