"""Results: where is what a task made kept, in memory or in a folder that outlives the process?"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from matchset.errors import DataError, ModelFileError, TargetExistsError
from matchset.matrices import Csr, Floats, Ids, offsets_of
from matchset.storage.atomic import remove_leftovers, temporary_name
from matchset.storage.folders import (
    MANIFEST,
    ArrayPieces,
    check_target,
    open_folder,
    verify_folder,
    write_folder,
)
from matchset.work.forms import decode, encode
from matchset.work.tasks import Results

logger = logging.getLogger(__name__)

KIND, SETUP = "result of a task", "work folder"
_STATE = ".state"
_PATIENCE = 10.0  # seconds until a result that should be there is missing
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(slots=True)
class MemoryResults:
    """Results in this process; states are not kept, since they would be lost with it."""

    values: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def has(self, task: str) -> bool:
        """Whether a task is done."""
        return task in self.values

    def put(self, task: str, values: Mapping[str, Any]) -> None:
        """Keep a result as it is."""
        self.values[task] = values

    def get(self, task: str, name: str) -> Any:
        """One value of a result."""
        return self.values[task][name]

    def forget(self, task: str) -> None:
        """Free a result."""
        self.values.pop(task, None)

    def save_state(self, task: str, values: Mapping[str, Any]) -> None:
        """Nothing: who could read it is gone with it."""

    def read_state(self, task: str) -> None:  # noqa: ARG002
        """None."""
        return


class WorkFolder:
    """Results as folders with checksums, opened memory-mapped; other processes read them too.

    The folder of a task is there when all of it is: it is written beside its place and moved there.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._opened: dict[str, dict[str, Any]] = {}

    def has(self, task: str) -> bool:
        """Whether the folder of a task is there."""
        return (self.path / task / MANIFEST).exists()

    def put(self, task: str, values: Mapping[str, Any]) -> None:
        """Write a result, unless another process was faster: it wrote the same."""
        try:
            self._write(task, values, overwrite=False)
        except TargetExistsError:
            if not self.has(task):  # what somebody took apart
                aside = temporary_name(self.path / task)
                (self.path / task).rename(aside)
                shutil.rmtree(aside, ignore_errors=True)
                self._write(task, values, overwrite=False)
        self._remove_state(task)

    def get(self, task: str, name: str) -> Any:
        """One value of a result, memory-mapped."""
        opened = self._opened.setdefault(task, {})
        if name not in opened:
            opened[name] = decode(*self._open(task), name)
        return opened[name]

    def _open(self, task: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Open a result that another machine may have written a moment ago.

        A network file system may remember for a while that it was not there.
        """
        folder, end = self.path / task, time.monotonic() + _PATIENCE
        while not self.has(task) and time.monotonic() < end:
            with suppress(OSError):
                list(folder.parent.iterdir())  # makes most file systems look again
            time.sleep(0.1)
        return open_folder(folder, KIND)

    def forget(self, task: str) -> None:
        """Close a result; its folder stays."""
        self._opened.pop(task, None)

    def save_state(self, task: str, values: Mapping[str, Any]) -> None:
        """Write what a task needs to go on."""
        self._write(task + _STATE, values, overwrite=True)

    def read_state(self, task: str) -> dict[str, Any] | None:
        """The state that was saved last; a damaged one counts as none."""
        folder = self.path / (task + _STATE)
        if not folder.exists():
            return None
        try:
            verify_folder(folder, KIND)
            header, arrays = open_folder(folder, KIND)
        except ModelFileError:
            shutil.rmtree(folder)
            return None
        return {name: decode(header, arrays, name) for name in header["values"]}

    def remove_damaged(self) -> list[str]:
        """Compare every result with its checksums, and remove those that are damaged."""
        damaged = []
        for folder in sorted(self.path.rglob(MANIFEST)):
            task = str(folder.parent.relative_to(self.path))
            if any(part.startswith(".") for part in Path(task).parts) or task.endswith(_STATE):
                continue  # left over by a killed process, or read when it is needed
            try:
                verify_folder(folder.parent)
            except ModelFileError:
                shutil.rmtree(folder.parent)
                damaged.append(task)
        return damaged

    def __getstate__(self) -> Path:
        return self.path

    def __setstate__(self, path: Path) -> None:
        self.path, self._opened = path, {}

    def _write(self, task: str, values: Mapping[str, Any], *, overwrite: bool) -> None:
        header, arrays = encode(values)
        target = self.path / task
        try:
            write_folder(target, KIND, header=header, arrays=arrays, overwrite=overwrite)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            remove_leftovers(target)
            rule = f"the disk is full at stage {task!r}"
            advice = "free some space and run the same command again: it goes on from there"
            raise DataError(rule, path=self.path, advice=advice) from None

    def _remove_state(self, task: str) -> None:
        shutil.rmtree(self.path / (task + _STATE), ignore_errors=True)


def join_rows(results: Results, tasks: Sequence[str], name: str) -> Csr:
    """The rows of several results, one after another, as a value of one more result.

    In memory, results are freed on the way. Those of a folder are copied when the value is written.
    """
    indptr = offsets_of(np.concatenate([np.diff(results.get(task, name).indptr) for task in tasks]))
    n_cols = results.get(tasks[0], name).n_cols
    if isinstance(results, WorkFolder):
        parts = [results.get(task, name) for task in tasks]
        indices, data = (
            ArrayPieces([p.indices for p in parts]),
            ArrayPieces([p.data for p in parts]),
        )
        return Csr(indptr, cast("Ids", indices), cast("Floats", data), n_cols)
    rows = Csr(indptr, np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32), n_cols)
    begin = 0
    for task in tasks:
        part: Csr = results.get(task, name)
        end = begin + len(part.indices)
        rows.indices[begin:end], rows.data[begin:end] = part.indices, part.data
        begin = end
        del part
        results.forget(task)
    return rows


@contextmanager
def open_work(path: str | os.PathLike[str], setup: Mapping[str, str]) -> Iterator[WorkFolder]:
    """The work folder of a training, new or begun before, locked against a second training.

    `setup` are the digests that make a training this one: data, settings, version. A folder that
    was begun with others is a DataError. Damaged results are removed, to be made again.
    """
    work = WorkFolder(path)
    own = work.path / "setup"
    if work.path.exists() and any(work.path.iterdir()) and not own.exists():
        raise DataError("must be new or empty, or a work folder", path=path, parameter="work")
    check_target(own, overwrite=own.exists())
    handle = os.open(work.path, os.O_RDONLY)
    try:
        _lock(handle, work.path)
        if own.exists():
            _compare(own, setup)
        else:
            write_folder(own, SETUP, header=dict(setup), arrays={})
        for damaged in work.remove_damaged():
            logger.warning("%s: %s is damaged, and is made again", work.path, damaged)
        yield work
    finally:
        os.close(handle)


def _lock(handle: int, path: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        rule = "is in use by another training"
        raise DataError(rule, path=path, advice="wait for it, or choose another folder") from None
    except OSError:  # a network file system without locks
        return


def _compare(own: Path, setup: Mapping[str, str]) -> None:
    header, _ = open_folder(own, SETUP)
    other = [name for name, digest in setup.items() if header.get(name) != digest]
    if other:
        rule = f"was begun with other {' and '.join(other)}"
        advice = "choose a new folder, or remove this one to start again"
        raise DataError(rule, path=own.parent, advice=advice)
