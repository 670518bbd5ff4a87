"""Snapshots: how does a model stay as it was verified, even if its folder changes?

The files of a model never change once written, so hard links to them keep what was verified even
if the folder is replaced or removed. If links are not possible, files are copied.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from matchset.errors import ModelFileError
from matchset.serve.options import SnapshotMethod
from matchset.storage.folders import MANIFEST, verify_folder

_ATTEMPTS = 5  # a folder may be replaced while it is read
_VERSION_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the served matchers come from."""

    model: Path
    also: tuple[Path, ...] = ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The model first."""
        return (self.model, *self.also)

    def identity(self) -> str:
        """A text that changes when a folder is replaced, or a file in it."""
        return " ".join(map(_identify, self.folders))


@contextmanager
def naming_sources(sources: Sources, target: Path) -> Iterator[None]:
    """Make errors name the source of a snapshot, which is the path that a user knows."""
    try:
        yield
    except ModelFileError as error:
        for folder, snapshot in zip(
            sources.folders, snapshot_folders(target, len(sources.folders)), strict=True
        ):
            if error.path is not None and error.path.is_relative_to(snapshot):
                error.path = folder / error.path.relative_to(snapshot)
        raise


def take_snapshots(sources: Sources, target: Path, method: SnapshotMethod) -> str:
    """Put every source into `target`, verified byte by byte; returns their common version."""
    snapshots = snapshot_folders(target, len(sources.folders))
    for folder, snapshot in zip(sources.folders, snapshots, strict=True):
        _take(folder, snapshot, method)
        verify_folder(snapshot)
    return version_of(snapshots)


def snapshot_folders(target: Path, n: int) -> list[Path]:
    """Folders of the snapshots of n sources, the model first."""
    return [target / str(number) for number in range(n)]


def version_of(folders: Iterable[Path]) -> str:
    """A short digest of what is in model folders: the same files have the same."""
    digest = hashlib.sha256()
    for folder in folders:
        digest.update(json.loads((folder / MANIFEST).read_bytes())["sha256"].encode())
    return digest.hexdigest()[:_VERSION_DIGITS]


def _take(folder: Path, snapshot: Path, method: SnapshotMethod) -> None:
    for _ in range(_ATTEMPTS):
        shutil.rmtree(snapshot, ignore_errors=True)
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise ModelFileError(f"not a matchset folder: {error.strerror}", path=folder) from None
        try:
            _take_files(handle, snapshot, method)
        except FileNotFoundError:  # replaced meanwhile, and removed
            continue
        finally:
            os.close(handle)
        return
    raise ModelFileError("must not change while it is read; got files that went away", path=folder)


def _take_files(handle: int, snapshot: Path, method: SnapshotMethod) -> None:
    """Link or copy the files of a folder, and those of the folders in it.

    All are reached from one handle: the path may name another folder a moment later.
    """
    snapshot.mkdir(parents=True)
    with os.scandir(handle) as entries:
        for entry in entries:
            if not entry.is_dir():
                _take_file(handle, entry.name, snapshot / entry.name, method)
                continue
            inner = os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=handle)
            try:
                _take_files(inner, snapshot / entry.name, method)
            finally:
                os.close(inner)


def _take_file(handle: int, name: str, target: Path, method: SnapshotMethod) -> None:
    if method == "link":
        try:
            os.link(name, target, src_dir_fd=handle, follow_symlinks=True)
        except FileNotFoundError:
            raise
        except OSError:  # another file system, or one without links, or files of another user
            pass
        else:
            return
    descriptor = os.open(name, os.O_RDONLY, dir_fd=handle)
    with os.fdopen(descriptor, "rb") as source, target.open("xb") as copy:
        shutil.copyfileobj(source, copy, 1 << 20)


def _identify(folder: Path) -> str:
    """Changes when a file of a folder does: one that is copied in grows under the same name."""
    try:
        found = sorted(_list_files(str(folder)))
    except OSError:
        return "none"
    return hashlib.sha256("\n".join(found).encode("utf-8", "surrogateescape")).hexdigest()


def _list_files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            stat = entry.stat()
            yield f"{entry.path} {stat.st_dev} {stat.st_ino} {stat.st_size} {stat.st_mtime_ns}"
            if entry.is_dir():
                yield from _list_files(entry.path)
