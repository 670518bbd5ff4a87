"""Exchange: how does a new folder take the place of an old one at once?"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from pathlib import Path

from matchset.building import name_temporary

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
