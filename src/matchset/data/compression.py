"""Compression: is a compressed file whole?

DuckDB does not check this. It reads gzip without its checksums, and a zstd file that was cut
between two blocks as if it ended there. A log that lost rows must not look like a whole one.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BufferedReader
from pathlib import Path

from matchset.config import count_threads
from matchset.errors import DataError

_CHUNK = 1 << 20  # bytes read, and at most decompressed, at once
_GZIP = 16 + zlib.MAX_WBITS  # zlib then reads gzip's header and compares its checksum and length
_ZSTD_MAGIC = 0xFD2FB528
_SKIPPABLE = 0x184D2A50  # and the 15 numbers after it
_RLE, _RESERVED = 1, 3  # types of zstd blocks
_ID_BYTES = (0, 1, 2, 4)  # of a dictionary's id, by its flag
_SIZE_BYTES = (0, 2, 4, 8)  # of the content's size, by its flag


def check_compressed(paths: Sequence[Path]) -> None:
    """Raise a DataError for the first compressed file that is damaged or not complete.

    gzip files are decompressed and compared with their checksums, by several threads. Of zstd files
    only the headers of blocks are read, to find the end; DuckDB compares their checksums itself.
    """
    found = [path for path in paths if path.suffix.lower() in _CHECKS and path.is_file()]
    if len(found) > 1:
        with ThreadPoolExecutor(count_threads(None)) as pool:
            list(pool.map(_check, found))
    elif found:
        _check(found[0])


def _check(path: Path) -> None:
    kind, check = _CHECKS[path.suffix.lower()]
    try:
        with path.open("rb") as stream:
            check(stream)
    except (ValueError, EOFError, zlib.error) as error:
        rule = f"must be a whole {kind} file; got a damaged or incomplete one: {error}"
        raise DataError(rule, path=path) from None


def _check_gzip(stream: BufferedReader) -> None:
    """Decompress all members: several gzip files in a row are one."""
    data = stream.read(_CHUNK)
    while data:
        member = zlib.decompressobj(_GZIP)
        while not member.eof:
            is_full = len(member.decompress(data, _CHUNK)) == _CHUNK  # there may be more
            data = member.unconsumed_tail
            if not (data or is_full or member.eof):
                data = stream.read(_CHUNK)
                if not data:
                    raise EOFError("it ends before its checksum")
        data = member.unused_data or stream.read(_CHUNK)


def _check_zstd(stream: BufferedReader) -> None:
    """Go from block to block, and from frame to frame, to the end of the file."""
    size = os.fstat(stream.fileno()).st_size
    while stream.tell() < size:
        magic = _read_number(stream, 4)
        if magic & ~0xF == _SKIPPABLE:
            _skip(stream, _read_number(stream, 4), size)
        elif magic == _ZSTD_MAGIC:
            _skip_frame(stream, size)
        else:
            raise ValueError(f"a frame must start with {_ZSTD_MAGIC:#x}; got {magic:#x}")


def _skip_frame(stream: BufferedReader, size: int) -> None:
    flags = _read_number(stream, 1)
    is_single, has_checksum = bool(flags & 0x20), bool(flags & 0x04)
    size_bytes = _SIZE_BYTES[flags >> 6] or int(is_single)
    _skip(stream, int(not is_single) + _ID_BYTES[flags & 3] + size_bytes, size)
    is_last = False
    while not is_last:
        block = _read_number(stream, 3)
        is_last, kind, length = bool(block & 1), (block >> 1) & 3, block >> 3
        if kind == _RESERVED:
            raise ValueError("a block must be of a known type")
        _skip(stream, 1 if kind == _RLE else length, size)
    _skip(stream, 4 * has_checksum, size)


def _read_number(stream: BufferedReader, n_bytes: int) -> int:
    data = stream.read(n_bytes)
    if len(data) < n_bytes:
        raise EOFError("it ends within a frame")
    return int.from_bytes(data, "little")


def _skip(stream: BufferedReader, n_bytes: int, size: int) -> None:
    if stream.tell() + n_bytes > size:
        raise EOFError("it ends within a frame")
    stream.seek(n_bytes, os.SEEK_CUR)


_CHECKS = {".gz": ("gzip", _check_gzip), ".zst": ("zstd", _check_zstd)}
