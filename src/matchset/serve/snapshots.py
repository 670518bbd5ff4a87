"""Snapshots: how does a model stay as it was verified, even if its file is replaced?

A copy stays as it was verified whatever becomes of the file, even if another one is copied over it.
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
from matchset.matchers.saved import MODEL
from matchset.storage.atomic import identify_path
from matchset.storage.change_log import changes_path, read_changes
from matchset.storage.file import read_header, verify_file

_ATTEMPTS = 50  # a file may be replaced while it is taken
_VERSION_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the served matchers come from."""

    model: Path
    also: tuple[Path, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """The model first."""
        return (self.model, *self.also)

    def identity(self) -> str:
        """Return a text that changes when a file is replaced, or the changes beside it."""
        files = [file.resolve() for file in self.files]
        pairs = [(identify_path(file), identify_path(changes_path(file))) for file in files]
        return json.dumps(pairs)


@contextmanager
def naming_sources(sources: Sources, target: Path) -> Iterator[None]:
    """Make errors name the source of a snapshot, which is the path that a user knows."""
    try:
        yield
    except ModelFileError as error:
        n = len(sources.files)
        for file, snapshot in zip(sources.files, snapshot_files(target, n), strict=True):
            if error.path == snapshot:
                error.path = file
            elif error.path == changes_path(snapshot):
                error.path = changes_path(file)
        raise


def take_snapshots(sources: Sources, target: Path, served: Path | None = None) -> str:
    """Put every source into `target`, verified byte by byte; returns their common version.

    A file that `served`, the folder of a version before, has too is taken from there: it was
    verified then, and is not read again.
    """
    target.mkdir(parents=True)
    n = len(sources.files)
    snapshots = snapshot_files(target, n)
    before = [None] * n if served is None else snapshot_files(served, n)
    for file, snapshot, verified in zip(sources.files, snapshots, before, strict=True):
        _take(file.resolve(), snapshot, verified)
    return version_of(snapshots)


def snapshot_files(target: Path, n: int) -> list[Path]:
    """Snapshots of n sources, the model first."""
    return [target / str(number) for number in range(n)]


def version_of(files: Iterable[Path]) -> str:
    """Return a short digest of what is in models: the same bytes have the same."""
    digests = "".join(map(digest_model, files))
    return hashlib.sha256(digests.encode()).hexdigest()[:_VERSION_DIGITS]


def digest_model(file: Path) -> str:
    """Return a digest of a model and of the changes beside it."""
    base = read_header(file, MODEL).digest
    log = read_changes(file.resolve(), base)
    return hashlib.sha256(b"".join([base.encode(), *log.records])).hexdigest()


def identify_base(file: Path) -> str:
    """Return a digest of a model without the changes beside it."""
    return read_header(file, MODEL).digest


def _take(file: Path, snapshot: Path, served: Path | None) -> None:
    """Take a model and its changes, which belong together: the file is looked at again."""
    for _ in range(_ATTEMPTS):
        before = identify_path(file)
        snapshot.unlink(missing_ok=True)
        base = read_header(file, MODEL).digest
        if served is None or not _link_served(served, base, snapshot):
            _copy_file(file, snapshot)
            base = verify_file(snapshot, MODEL).digest
        changes = changes_path(file)
        data = changes.read_bytes() if changes.exists() else b""
        if identify_path(file) == before:
            changes_path(snapshot).write_bytes(data)
            read_changes(snapshot, base)
            return
    raise ModelFileError("must not be replaced all the while it is read", path=file)


def _link_served(served: Path, base: str, snapshot: Path) -> bool:
    """Link to a snapshot that is served, if it is of the same model and still there."""
    try:
        if read_header(served, MODEL).digest != base:
            return False
        snapshot.hardlink_to(served)
    except (ModelFileError, OSError):  # removed meanwhile
        return False
    return True


def _copy_file(file: Path, target: Path) -> None:
    with file.open("rb") as stream, target.open("xb") as copy:
        try:  # shares the blocks, where the file system can
            while os.copy_file_range(stream.fileno(), copy.fileno(), 1 << 30):
                pass
        except OSError:
            stream.seek(0)
            copy.seek(0)
            shutil.copyfileobj(stream, copy, 1 << 20)
