"""File: how does a value lie on disk so that it opens at once and is never half there?

    64 bytes   the word `matchset`, the version of the format, the length and SHA-256 of the header
    header     JSON: what it holds, its value, and type, shape, place and SHA-256 of each array
    arrays     little-endian and in C order, each at a multiple of 64 bytes

A file is written beside its place and renamed, and never changes afterwards. So an open one is a
snapshot: a process that has mapped it keeps what it opened, whatever the path names later.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchset.errors import ModelFileError, TargetExistsError
from matchset.storage.atomic import Identity, identify, new_file
from matchset.storage.codec import ArrayPieces, Arrays, Json

VERSION = 5
MAGIC = b"matchset"
_START = struct.Struct("<8sQQ32s8x")
_ALIGN = 64
_MAX_HEADER = 64 << 20  # bytes; ours have some thousands
_MAX_DIMENSIONS = 8
_BLOCK = 1 << 20
_NO_DIGEST = "0" * 64
_OLD = "manifest.json"  # in a folder of earlier formats


class _Entry(NamedTuple):
    """Where an array lies, counted from the end of the header."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    sha256: str

    @property
    def n_bytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Header:
    """What stands before the arrays."""

    kind: str
    value: Json
    entries: Mapping[str, _Entry]
    begin: int  # of the arrays
    digest: str  # SHA-256 of the header, which holds those of all arrays

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.begin + sum(_round(entry.n_bytes) for entry in self.entries.values())


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """An open file: its header, and its arrays, memory-mapped."""

    header: Header
    arrays: dict[str, NDArray[Any]]
    identity: Identity


def write_file(
    path: Path, kind: str, header: Json, arrays: Arrays, *, overwrite: bool = False
) -> None:
    """Write a file, all or nothing, flushed to disk.

    `overwrite` replaces a file that matchset wrote, and nothing else.
    """
    check_target(path, overwrite=overwrite)
    with new_file(path) as stream:
        write_value(stream, kind, header, arrays)
        if path.exists() and not overwrite:  # of processes that save to a new path, one does
            raise TargetExistsError(path)


def check_target(path: Path, *, overwrite: bool) -> None:
    """Raise where `path` cannot be written, before hours are spent on what should go there."""
    if path.exists():
        if not overwrite:
            raise TargetExistsError(path)
        with _open(path) as stream:  # never replace what is not ours
            if stream.read(len(MAGIC)) != MAGIC:
                raise ModelFileError("not a file of matchset", path=path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"{error.strerror}; choose another folder"
        raise OSError(f"{path}: cannot be written: {reason}") from None
    if not os.access(path.parent, os.W_OK | os.X_OK):
        reason = "permission denied; choose another folder"
        raise PermissionError(f"{path}: cannot be written: {reason}")


def is_ours(path: str | os.PathLike[str]) -> bool:
    """Return whether a path names a file of matchset, damaged or not."""
    try:
        with _open(path) as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except ModelFileError:
        return False


def write_value(stream: IO[bytes], kind: str, header: Json, arrays: Arrays) -> None:
    """Write header and arrays at the start of a stream."""
    entries, end = {}, 0
    for name, array in arrays.items():
        entry = _Entry(array.dtype.newbyteorder("<"), tuple(array.shape), end, _NO_DIGEST)
        entries[name], end = entry, end + _round(entry.n_bytes)
    begin = _START.size + len(_dump(kind, header, entries))  # digests have one length
    for name, array in arrays.items():
        stream.seek(begin + entries[name].offset)
        entries[name] = entries[name]._replace(sha256=_write_array(stream, array))
    data = _dump(kind, header, entries)
    stream.seek(0)
    stream.write(_start(data) + data)


def _dump(kind: str, value: Json, entries: Mapping[str, _Entry]) -> bytes:
    """Return the header as bytes, with spaces up to where the arrays begin."""
    arrays = {
        name: {"dtype": dtype.str, "shape": shape, "offset": offset, "sha256": digest}
        for name, (dtype, shape, offset, digest) in entries.items()
    }
    data = json.dumps({"kind": kind, "value": value, "arrays": arrays}).encode()
    return data.ljust(_round(_START.size + len(data)) - _START.size)


def _start(header: bytes) -> bytes:
    return _START.pack(MAGIC, VERSION, len(header), hashlib.sha256(header).digest())


def _write_array(stream: IO[bytes], array: NDArray[Any] | ArrayPieces) -> str:
    """Write an array and zeros up to the next; returns the SHA-256 of both."""
    pieces = array.pieces if isinstance(array, ArrayPieces) else [array]
    digest, size = hashlib.sha256(), 0
    for piece in pieces:
        plain = np.ascontiguousarray(piece, dtype=array.dtype.newbyteorder("<")).reshape(-1)
        data = plain.view(np.uint8).data
        stream.write(data)
        digest.update(data)
        size += len(data)
    zeros = bytes(_round(size) - size)
    stream.write(zeros)
    digest.update(zeros)
    return digest.hexdigest()


def _round(n: int) -> int:
    return -(-n // _ALIGN) * _ALIGN


def open_file(path: str | os.PathLike[str], kind: str) -> Opened:
    """Map a file; its header is verified, of its arrays only the sizes."""
    with _open(path) as stream:
        header = _read_header(stream, Path(path), kind)
        mapped = np.memmap(stream, np.uint8, mode="r")
        identity = identify(os.fstat(stream.fileno()))
    return Opened(header, _view(header, mapped), identity)


def read_value(data: bytes, path: Path, kind: str) -> tuple[Json, dict[str, NDArray[Any]]]:
    """Return header and arrays that were written to memory; `path` is where they were kept."""
    header = _read_header(BytesIO(data), path, kind)
    return header.value, _view(header, data)


def read_header(path: str | os.PathLike[str], kind: str | None = None) -> Header:
    """Return the verified header of a file."""
    with _open(path) as stream:
        return _read_header(stream, Path(path), kind)


def verify_file(path: str | os.PathLike[str], kind: str | None = None) -> Header:
    """Compare every byte of a file with its checksum; damage is a ModelFileError."""
    with _open(path) as stream:
        header = _read_header(stream, Path(path), kind)
        for name, entry in header.entries.items():
            stream.seek(header.begin + entry.offset)
            digest, left = hashlib.sha256(), _round(entry.n_bytes)
            while left and (block := stream.read(min(_BLOCK, left))):
                digest.update(block)
                left -= len(block)
            if digest.hexdigest() != entry.sha256:
                rule = f"damaged: the checksum of {name} differs from the header's"
                raise ModelFileError(rule, path=path)
    return header


@contextmanager
def _open(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a regular file; a pipe or a device may have no end."""
    if (Path(path) / _OLD).exists():
        rule = "written by an older matchset, as a folder; train it again"
        raise ModelFileError(rule, path=path)
    try:
        if Path(path).is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        # Without blocking: it may be a pipe.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelFileError(f"cannot be read: {reason}", path=path) from None
    # By its path, so that mapped arrays know their file.
    with open(os.fspath(path), "rb", opener=lambda *_: handle) as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise ModelFileError("not a file of matchset: it is no regular file", path=path)
        yield stream


def _read_header(stream: IO[bytes], path: Path, kind: str | None) -> Header:
    start = stream.read(_START.size)
    if len(start) < _START.size or not start.startswith(MAGIC):
        raise ModelFileError("not a file of matchset", path=path)
    _, version, length, _ = _START.unpack(start)
    if version != VERSION:
        when, advice = ("a newer", "") if version > VERSION else ("an older", "; train it again")
        rule = f"written by {when} matchset (format {version}); this one reads format {VERSION}"
        raise ModelFileError(f"{rule}{advice}", path=path)
    data = stream.read(length) if length <= _MAX_HEADER else b""
    if len(data) != length or _start(data) != start:
        rule = "damaged: the checksum of its header differs from its contents"
        raise ModelFileError(rule, path=path)
    try:
        header = _parse(data)
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise ModelFileError(f"damaged: its header cannot be read: {error}", path=path) from None
    if kind not in (None, header.kind):
        raise ModelFileError(f"holds a {header.kind!r}; expected a {kind!r}", path=path)
    if (found := stream.seek(0, os.SEEK_END)) != header.size:
        raise ModelFileError(f"damaged: must be {header.size:,} bytes; got {found:,}", path=path)
    return header


def _parse(data: bytes) -> Header:
    """Return the header of verified bytes, which may be forged."""
    plain = json.loads(data)
    entries, end = {}, 0
    for name, entry in plain["arrays"].items():
        dtype, shape = np.dtype(str(entry["dtype"])), tuple(entry["shape"])
        parsed = _Entry(dtype, shape, end, str(entry["sha256"]))
        is_possible = all(type(n) is int and n >= 0 for n in shape) and dtype.kind in "biuf"
        if not is_possible or len(shape) > _MAX_DIMENSIONS or entry["offset"] != end:
            raise ValueError(f"impossible array {name[:60]!r}")
        entries[name], end = parsed, end + _round(parsed.n_bytes)
    begin = _START.size + len(data)
    if begin % _ALIGN:
        raise ValueError("arrays must begin at a multiple of 64 bytes")
    return Header(
        str(plain["kind"]), plain["value"], entries, begin, hashlib.sha256(data).hexdigest()
    )


def _view(header: Header, data: NDArray[np.uint8] | bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays, read-only, over the bytes of a whole file."""
    return {
        name: np.empty(entry.shape, entry.dtype)
        if 0 in entry.shape
        else np.ndarray(entry.shape, entry.dtype, data, header.begin + entry.offset)
        for name, entry in header.entries.items()
    }
