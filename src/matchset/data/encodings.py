"""Encodings: is a text file whole, and how does DuckDB get to read it as UTF-8?"""

from __future__ import annotations

import codecs
import gzip
import logging
import re
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BufferedIOBase
from itertools import chain
from pathlib import Path
from typing import TextIO

from matchset.config import count_threads
from matchset.data.files import DataFile
from matchset.errors import DataError, ParameterError, format_line

logger = logging.getLogger(__name__)

_CHUNK = 1 << 20  # bytes decoded at once
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_WIDTH = 24  # bytes shown on each side of the first that is not UTF-8
_WORD = re.compile(r"[\s,;|\"]")  # what ends one


def check_gzip(paths: Sequence[Path]) -> None:
    """Raise a DataError for the first gzip file that is damaged or cut.

    DuckDB ignores gzip's checksums, and a log that lost rows must not look like a whole one.
    """
    packed = [path for path in paths if path.suffix.lower() == ".gz" and path.is_file()]
    if len(packed) == 1:  # without a pool, which would end its work before a Ctrl-C
        _unpack(packed[0])
        return
    with ThreadPoolExecutor(count_threads(None)) as pool:
        list(pool.map(_unpack, packed))


def _unpack(path: Path) -> None:
    try:
        for _ in _read(path):
            pass
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        rule = f"must be a whole gzip file; got a damaged or incomplete one: {error}"
        raise DataError(rule, path=path) from None


def check_encoding(encoding: str | None) -> str | None:
    """Return Python's name of a text encoding; None for UTF-8."""
    if encoding is None:
        return None
    try:
        found = codecs.lookup(encoding)
        is_text = getattr(found, "_is_text_encoding", True)
    except (LookupError, ValueError):
        is_text = False
    if not is_text:
        rule = f"must be a text encoding, such as utf-8, cp1252 or utf-16; got {encoding!r}"
        raise ParameterError(rule, parameter="encoding")
    return None if found.name in ("utf-8", "utf-8-sig") else found.name


def to_utf8(files: Sequence[DataFile], encoding: str | None, folder: Path) -> list[DataFile]:
    """Return the files; those that are not UTF-8 with a copy in `folder` that is.

    A byte order mark tells UTF-16 by itself. A file that is valid UTF-8 beyond ASCII is no file of
    another encoding, so it is read as it is: one encoding can be given for a log and a catalog.
    """
    return [_copy_as_utf8(file, encoding, folder / str(i)) for i, file in enumerate(files)]


def suggest_encoding(path: Path) -> DataError | None:
    """Return an error that says which encoding to try; None for a file that is UTF-8."""
    with _open(path) as stream:
        for number, line in enumerate(iter(lambda: stream.readline(_CHUNK), b""), start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return _suggest(path, line, error.start, line=number)
    return None


def _suggest(path: Path, data: bytes, at: int, *, line: int) -> DataError:
    if b"\0" in data[:64]:
        guess, begin = "utf-16-le" if data[1:2] == b"\0" else "utf-16-be", 0
    else:
        guess, begin = "cp1252", max(0, at - _WIDTH)
        try:
            data.decode(guess)
        except UnicodeDecodeError:
            guess = "latin-1"
    before, after = (part.decode(guess, "replace") for part in (data[begin:at], data[at:][:_WIDTH]))
    word = _WORD.split(before)[-1] + _WORD.split(format_line(after))[0]
    return DataError(
        f"must name the encoding of a file that is not UTF-8; got byte {data[at]:#x} in line "
        f"{line}; try {guess}, which reads it as {word!r}",
        parameter="encoding",
        path=path,
    )


def _copy_as_utf8(file: DataFile, encoding: str | None, folder: Path) -> DataFile:
    if file.format == "Parquet" or not file.path.is_file():
        return file
    head = next(_read(file.path), b"")[:64]
    marked = next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)
    if head.startswith(codecs.BOM_UTF8):
        # DuckDB skips the mark in CSV, and refuses it in JSON.
        marked = "utf-8-sig" if file.format.startswith("JSON") else None
        encoding = None
    if marked is None and encoding is None:
        if b"\0" in head:
            raise _suggest(file.path, head, 0, line=1)
        return file
    if marked is None and _is_beyond_ascii(file.path):
        logger.warning("%s: is UTF-8, so it is not read as %s", file.path, encoding)
        return file
    keys = [part for part in file.path.parts[:-1] if "=" in part] if file.is_partitioned else []
    target = folder.joinpath(*keys) / file.path.name.removesuffix(".gz")
    target.parent.mkdir(parents=True)
    _transcode(file.path, marked or str(encoding), target)
    return replace(file, data=target)


def _is_beyond_ascii(path: Path) -> bool:
    """Return whether a file is valid UTF-8 with more characters than ASCII."""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    is_ascii = True
    try:
        for chunk in _read(path):
            is_ascii &= chunk.isascii()
            decode(chunk)
        decode(b"", True)
    except UnicodeDecodeError:
        return False
    return not is_ascii


def _transcode(path: Path, encoding: str, target: Path) -> None:
    decode = codecs.getincrementaldecoder(encoding)().decode
    n_before = 0
    with target.open("wb") as stream:
        for chunk in chain(_read(path), [b""]):
            try:
                stream.write(decode(chunk, not chunk).encode())
            except UnicodeError as error:
                at = n_before + getattr(error, "start", 0)
                rule = f"must be the encoding of the file; got {encoding}, which fails at byte {at}"
                raise DataError(rule, parameter="encoding", path=path) from error
            n_before += len(chunk)


def _read(path: Path) -> Iterator[bytes]:
    """Read the bytes of a file, unpacked."""
    with _open(path) as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def open_text(path: Path) -> TextIO:
    """Open a UTF-8 file to look at its first lines; bytes that are not UTF-8 are no error here."""
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="replace")
    return path.open(encoding="utf-8-sig", errors="replace")


def _open(path: Path) -> BufferedIOBase:
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")
