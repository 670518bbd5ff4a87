"""Snapshots: how is a model kept as it was verified, whatever happens to its folder?

The files of a model never change once written, so that hard links to them hold what was verified
even when the folder is replaced or removed. Where links are not possible, files are copied.
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
from matchset.serve.options import Snapshot
from matchset.storage.folders import MANIFEST, verify_folder

_ATTEMPTS = 5  # a folder may be replaced while it is read
_VERSION_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the served matchers come from."""

    model: Path
    beside: tuple[Path, ...] = ()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The model first."""
        return (self.model, *self.beside)

    def identity(self) -> str:
        """Changes when a folder is replaced, or a file in it."""
        return " ".join(map(_identify, self.folders))


@contextmanager
def naming(sources: Sources, target: Path) -> Iterator[None]:
    """What is wrong with a snapshot is told of its source: nobody knows our copy of it."""
    try:
        yield
    except ModelFileError as error:
        said = str(error)
        for number, folder in enumerate(sources.folders):
            said = said.replace(str(target / str(number)), str(folder))
        raise ModelFileError(said) from None


def take_snapshots(sources: Sources, target: Path, how: Snapshot) -> str:
    """Put every source into `target`, verified byte by byte, and give their common version."""
    for number, folder in enumerate(sources.folders):
        kept = target / str(number)
        _take(folder, kept, how)
        verify_folder(kept)
    return version_of(kept_folders(target, len(sources.folders)))


def kept_folders(target: Path, n: int) -> list[Path]:
    """Folders of a snapshot of n sources, the model first."""
    return [target / str(number) for number in range(n)]


def version_of(folders: Iterable[Path]) -> str:
    """A short name for what is in model folders: the same files have the same."""
    digest = hashlib.sha256()
    for folder in folders:
        digest.update(json.loads((folder / MANIFEST).read_bytes())["sha256"].encode())
    return digest.hexdigest()[:_VERSION_DIGITS]


def _take(folder: Path, kept: Path, how: Snapshot) -> None:
    for _ in range(_ATTEMPTS):
        shutil.rmtree(kept, ignore_errors=True)
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise ModelFileError(f"not a matchset folder: {error.strerror}", path=folder) from None
        try:
            _keep_all(handle, kept, how)
        except FileNotFoundError:  # replaced meanwhile, and removed
            continue
        finally:
            os.close(handle)
        return
    raise ModelFileError("must be at rest; its files went away while they were read", path=folder)


def _keep_all(handle: int, kept: Path, how: Snapshot) -> None:
    """Keep the files of a folder, and the folders in it.

    All are reached from one handle: the path may name another folder a moment later.
    """
    kept.mkdir(parents=True)
    with os.scandir(handle) as entries:
        for entry in entries:
            if not entry.is_dir():
                _keep(handle, entry.name, kept / entry.name, how)
                continue
            inner = os.open(entry.name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=handle)
            try:
                _keep_all(inner, kept / entry.name, how)
            finally:
                os.close(inner)


def _keep(handle: int, name: str, target: Path, how: Snapshot) -> None:
    if how == "link":
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
        found = sorted(_tell_files(str(folder)))
    except OSError:
        return "none"
    return hashlib.sha256("\n".join(found).encode("utf-8", "surrogateescape")).hexdigest()


def _tell_files(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            stat = entry.stat()
            yield f"{entry.path} {stat.st_dev} {stat.st_ino} {stat.st_size} {stat.st_mtime_ns}"
            if entry.is_dir():
                yield from _tell_files(entry.path)
