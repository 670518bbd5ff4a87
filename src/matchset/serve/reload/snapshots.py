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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from matchset.errors import ModelFileError
from matchset.serve.options import SnapshotMethod
from matchset.storage.folders import (
    MANIFEST,
    array_file,
    open_array,
    read_entries,
    read_manifest,
    verify_folder,
)
from matchset.storage.handles import FolderHandle, read_folder

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


def take_snapshots(
    sources: Sources, target: Path, method: SnapshotMethod, served: Path | None = None
) -> str:
    """Put every source into `target`, verified byte by byte; returns their common version.

    Files that `served`, the folder of a version before, has too are taken from there: they were
    verified then, and are not read again.
    """
    n = len(sources.folders)
    snapshots = snapshot_folders(target, n)
    before = [None] * n if served is None else snapshot_folders(served, n)
    for folder, snapshot, verified in zip(sources.folders, snapshots, before, strict=True):
        _take(folder, snapshot, method, verified)
        verify_folder(snapshot, verified=verified)
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


def _take(folder: Path, snapshot: Path, method: SnapshotMethod, served: Path | None) -> None:
    def take(handle: FolderHandle) -> None:
        shutil.rmtree(snapshot, ignore_errors=True)  # of an attempt that failed
        _take_files(handle, snapshot, method, served)

    read_folder(folder, take)


def _take_files(
    handle: FolderHandle, snapshot: Path, method: SnapshotMethod, served: Path | None
) -> None:
    """Link or copy the files that the manifest of a folder names, and the folders in it.

    Nothing else: what lies beside them may be a device, or a link to a whole disk.
    """
    read_manifest(handle)  # refuses what is no model
    known = read_entries(served)
    snapshot.mkdir(parents=True)
    with handle.open_file(MANIFEST) as stream:
        _take_file(handle, stream, snapshot / MANIFEST, method)
    manifest = read_folder(snapshot, read_manifest)  # the one that was taken: it may be newer
    for name, entry in manifest["arrays"].items():
        file = array_file(handle, name)
        if served is not None and known.get(name) == entry:
            with suppress(OSError):
                (snapshot / file).hardlink_to(served / file)
                continue
        with open_array(handle, name, entry) as stream:
            _take_file(handle, stream, snapshot / file, method)
    for name in manifest.get("folders", {}):
        with handle.open_inner(name) as inner:
            _take_files(inner, snapshot / name, method, served and served / name)


def _take_file(
    handle: FolderHandle, stream: BufferedReader, target: Path, method: SnapshotMethod
) -> None:
    if method == "link":
        try:
            handle.link_file(target.name, target)
        except FileNotFoundError:
            raise
        except OSError:  # another file system, or one without links, or files of another user
            pass
        else:
            return
    with target.open("xb") as copy:
        shutil.copyfileobj(stream, copy, 1 << 20)


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
            stat = entry.stat(follow_symlinks=False)  # links are never served
            yield f"{entry.path} {stat.st_dev} {stat.st_ino} {stat.st_size} {stat.st_mtime_ns}"
            if entry.is_dir(follow_symlinks=False):
                yield from _list_files(entry.path)
