"""Work folder: where are the results of a training kept, so that they outlive the process?

A training has a folder of its own inside, named after all that decides its results. In it a result
is a file with checksums, opened memory-mapped; it is there when all of it is.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from matchset.errors import DataError, ModelFileError, TargetExistsError
from matchset.storage.codec import decode, encode
from matchset.storage.file import open_file, verify_file, write_file

logger = logging.getLogger(__name__)

KIND = "result of a step"
_STATE = ".state"
_FULL = (errno.ENOSPC, errno.EDQUOT)
_KEY = re.compile(r"[0-9a-f]{16}")  # name of a training's folder
T = TypeVar("T")


class WorkFolder:
    """The results of a training; those found there are verified once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._verified: set[str] = set()

    def has(self, name: str, form: Any) -> bool:
        """Return whether a result is there and whole; remove a damaged one, to be made again."""
        file = self.path / name
        if name in self._verified:
            return True
        if not file.exists():
            return False
        try:
            verify_file(file, KIND)
            _open(file, form)
        except (ModelFileError, ValueError) as error:
            logger.warning("%s is damaged, and is made again: %s", file, error)
            if file.is_dir():
                shutil.rmtree(file)
            else:
                file.unlink()
            return False
        self._verified.add(name)
        return True

    def read(self, name: str, form: type[T], *, is_new: bool = False) -> T:
        """Return a result that is there, mapped."""
        if is_new:
            self._settle(name)
        return _open(self.path / name, form)

    def write(self, name: str, value: Any, form: Any) -> None:
        """Keep a result: all of it, or nothing."""
        write_result(self.path, name, value, form)
        self._settle(name)

    def _settle(self, name: str) -> None:
        self._verified.add(name)
        (self.path / (name + _STATE)).unlink(missing_ok=True)

    def read_state(self, name: str, form: type[T]) -> T | None:
        """Return the last state of a step that was begun; a damaged one counts as none."""
        return self.read(name + _STATE, form) if self.has(name + _STATE, form) else None

    def write_state(self, name: str, state: Any) -> None:
        """Keep what a step needs to go on, in place of an earlier state."""
        write_result(self.path, name + _STATE, state, type(state), overwrite=True)


def write_result(
    folder: Path, name: str, value: Any, form: Any, *, overwrite: bool = False
) -> None:
    """Write a result, unless another process was faster: it wrote the same."""
    target = folder / name
    header, arrays = encode(value, form)
    try:
        write_file(target, KIND, header, arrays, overwrite=overwrite)
    except TargetExistsError:
        return
    except OSError as error:
        if error.errno not in _FULL:
            raise
        rule = f"the disk is full at step {name!r}"
        advice = "free some space and run the same command again: it goes on from there"
        raise DataError(rule, path=folder, advice=advice) from None


def _open(file: Path, form: type[T]) -> T:
    opened = open_file(file, KIND)
    return decode(form, opened.header.value, opened.arrays)


@contextmanager
def open_work(path: str | os.PathLike[str], key: str) -> Iterator[WorkFolder]:
    """Open the folder of a training in a work folder, which is locked against a second training."""
    work = Path(path).absolute()
    work.mkdir(parents=True, exist_ok=True)
    names = {each.name for each in work.iterdir()}
    if not all(map(_KEY.fullmatch, names)):
        raise DataError("must be new or empty, or a work folder", path=path, parameter="work")
    if names - {key}:
        logger.warning("%s holds results of other data, settings or versions, too", work)
    handle = os.open(work, os.O_RDONLY)
    try:
        _lock(handle, work)
        (work / key).mkdir(exist_ok=True)
        yield WorkFolder(work / key)
    finally:
        os.close(handle)


def make_key(inputs: Any, *settings: object) -> str:
    """Return a name for what decides all results of a training: its data, and plain settings."""
    header, arrays = encode(inputs)
    found = hashlib.sha256(json.dumps([header, *settings], sort_keys=True, default=str).encode())
    for array in arrays.values():
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.hexdigest()[:16]


def _lock(handle: int, path: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        rule = "is in use by another training"
        raise DataError(rule, path=path, advice="wait for it, or choose another folder") from None
    except OSError:  # a network file system without locks
        return
