"""Handles: how is a folder read as one, even if it is replaced meanwhile?

A path may name another folder a moment later. So a folder is opened once, and its files are reached
from that handle: all of them belong together. Only regular files are read. A link could lead
anywhere, and a pipe or a device may have no end.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import TypeAlias, TypeVar

from matchset.errors import ModelFileError

MANIFEST = "manifest.json"
PathLike: TypeAlias = str | os.PathLike[str]
T = TypeVar("T")
_ATTEMPTS = 50  # a folder may be replaced while it is read; each time takes milliseconds


class FolderHandle(os.PathLike[str]):
    """An open folder; where a path is expected, it is the path that it was opened by."""

    def __init__(self, path: Path, descriptor: int, *, is_inner: bool = False) -> None:
        self.path = path
        self.is_inner = is_inner  # whether it lies in another one
        self._descriptor = descriptor
        self._manifest = self._identify_manifest()

    def __fspath__(self) -> str:
        return str(self.path)

    def open_file(self, name: str) -> BufferedReader:
        """A regular file of the folder, for reading; anything else is an OSError."""
        self.check_regular(name)
        # Without blocking: it may have become a pipe.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=self._descriptor)
        try:
            _check_mode(os.fstat(descriptor).st_mode)
        except OSError:
            os.close(descriptor)
            raise
        return open(os.fspath(self.path / name), "rb", opener=lambda *_: descriptor)

    def check_regular(self, name: str) -> None:
        """Raise an OSError unless a file is there and regular."""
        found = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        _check_mode(found.st_mode)

    def link_file(self, name: str, target: Path) -> None:
        """Make a hard link to a file of the folder."""
        self.check_regular(name)
        os.link(name, target, src_dir_fd=self._descriptor, follow_symlinks=False)

    @contextmanager
    def open_inner(self, name: str) -> Iterator[FolderHandle]:
        """A folder in this one; not a link to one."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, dir_fd=self._descriptor)
        except OSError as error:
            rule = f"missing or not a folder: {error.strerror}"
            raise ModelFileError(rule, path=self.path / name) from None
        try:
            yield FolderHandle(self.path / name, descriptor, is_inner=True)
        finally:
            os.close(descriptor)

    def is_replaced(self) -> bool:
        """Whether the path names another folder by now, or none, or it has another manifest."""
        try:
            now = self.path.stat()
        except OSError:
            return True
        is_same = os.path.samestat(now, os.fstat(self._descriptor))
        return not is_same or self._identify_manifest() != self._manifest

    def _identify_manifest(self) -> tuple[int, int] | None:
        try:
            found = os.stat(MANIFEST, dir_fd=self._descriptor, follow_symlinks=False)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns


def read_folder(path: PathLike, read: Callable[[FolderHandle], T]) -> T:
    """Open a folder and `read` it; if that fails because it was replaced, read the new one.

    A handle is read as it is: who opened it starts over.
    """
    if isinstance(path, FolderHandle):
        return read(path)
    folder, n_left = Path(path), _ATTEMPTS
    while True:
        with _open_folder(folder) as handle:
            try:
                return read(handle)
            except (ModelFileError, FileNotFoundError):
                n_left -= 1
                if n_left == 0 or not handle.is_replaced():
                    raise


@contextmanager
def _open_folder(path: Path) -> Iterator[FolderHandle]:
    """A folder, or one that a link leads to."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except NotADirectoryError:
        raise ModelFileError("not a matchset folder: it is a file", path=path) from None
    except FileNotFoundError:
        raise ModelFileError("not a matchset folder: there is no such folder", path=path) from None
    except (OSError, ValueError) as error:
        raise ModelFileError(f"cannot be read: {error}", path=path) from None
    try:
        yield FolderHandle(path, descriptor)
    finally:
        os.close(descriptor)


def _check_mode(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(0, f"must be a regular file; got {_name_mode(mode)}")


def _name_mode(mode: int) -> str:
    kinds = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFDIR: "a folder"}
    return kinds.get(stat.S_IFMT(mode), "a device or socket")
