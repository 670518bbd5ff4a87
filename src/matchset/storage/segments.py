"""Segments: how does a saved folder take more, all or nothing, and nothing is written in place?

A segment is a folder inside, such as `segment7`: written and flushed, then named by a new manifest
that takes the place of the old one by one rename. Who opened the folder before keeps what it
opened. A writer holds a lock on the folder, which ends with its process. One that is killed leaves
the old state or the new one, and perhaps files that no manifest names: the next writer removes
them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

from matchset.errors import ModelFileError, UncertainWriteError
from matchset.storage.atomic import atomic_file, remove_leftovers
from matchset.storage.folders import (
    checksum,
    flush_folder,
    open_folder,
    read_manifest,
    seal,
    write_file,
    write_folder,
)
from matchset.storage.handles import MANIFEST, FolderHandle, PathLike, read_folder
from matchset.storage.sections import Section, read_object, read_section

_KIND = "segment"
_ALIGNED = 8  # bytes
_NAME = re.compile(r"segment([0-9]+)")
_OURS = re.compile(rf"{_NAME.pattern}|\.(segment[0-9]+|{re.escape(MANIFEST)})\.[0-9a-f]+\.tmp")


def open_segments(path: PathLike) -> dict[str, Section]:
    """The segments of a folder by name, oldest first."""

    def read(folder: FolderHandle) -> dict[str, Section]:
        found = {}
        for name in _sort(read_manifest(folder).get("folders", {})):
            with folder.open_inner(name) as inner:
                packed = Section(*open_folder(inner, _KIND))
                found[name] = read_section(inner, _KIND, partial(_unpack, packed))
        return found

    return read_folder(path, read)


def is_segment(name: str) -> bool:
    """Whether a folder inside another has the name of a segment."""
    return _NAME.fullmatch(name) is not None


def count_segments(path: PathLike) -> int:
    """How many segments a folder has."""
    return len(_sort(read_folder(path, read_manifest).get("folders", {})))


def identify_base(path: PathLike) -> str:
    """A digest of what a folder holds beside segments: the base that a training or refresh made."""
    manifest = read_folder(path, read_manifest)
    base = manifest["header"], manifest["arrays"]
    return hashlib.sha256(json.dumps(base).encode()).hexdigest()


def write_segment(path: Path, section: Section, *, instead_of_all: bool = False) -> None:
    """Add a segment to a folder, perhaps instead of all that it has; the caller holds the lock.

    Returns when it is on disk. An error, such as a full disk, leaves the folder as it was, but for
    an `UncertainWriteError`: the segment is there, and may not survive a crash of the system.
    """
    manifest = read_folder(path, read_manifest)
    named = dict(manifest.get("folders", {}))
    remove_leftovers(path)
    _remove_unnamed(path, named)
    number = 1 + max((_number(name) for name in named if is_segment(name)), default=0)
    name = f"segment{number}"
    packed = _pack(section)
    unsealed = {key: value for key, value in manifest.items() if key != "sha256"}
    try:
        write_folder(path / name, _KIND, header=packed.header, arrays=packed.arrays)
        if instead_of_all:
            named = {key: digest for key, digest in named.items() if not is_segment(key)}
        named[name] = checksum(path / name)
        with atomic_file(path / MANIFEST) as staged:
            write_file(staged, seal({**unsealed, "folders": named}))
        flush_folder(path)
        _remove_unnamed(path, named)
    except BaseException as error:
        if (now := _list_named(path)) is not None and name not in now:
            with suppress(OSError):
                _remove_unnamed(path, now)
        elif isinstance(error, OSError | MemoryError):
            raise UncertainWriteError(path, error) from error
        raise


def sweep_segments(path: Path) -> None:
    """Remove what a killed writer left, and flush what is named; the caller holds the lock."""
    flush_folder(path)
    if (named := _list_named(path)) is not None:
        _remove_unnamed(path, named)


def _list_named(path: Path) -> Mapping[str, str] | None:
    """The folders that the manifest names; None where it cannot be read."""
    try:
        named: Mapping[str, str] = read_folder(path, read_manifest).get("folders", {})
    except (OSError, ModelFileError):
        return None
    return named


def _pack(section: Section) -> Section:
    """All arrays as one, in one file: flushing a file to disk takes longer than writing it."""
    entries, parts, offset = {}, [], 0
    for name, array in section.arrays.items():
        plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        data = plain.reshape(-1).view(np.uint8)
        entries[name] = [plain.dtype.str, list(array.shape), offset]
        parts += [data, np.zeros(-len(data) % _ALIGNED, np.uint8)]
        offset += len(data) + len(parts[-1])
    data = np.concatenate([np.empty(0, np.uint8), *parts])
    return Section({"section": dict(section.header), "arrays": entries}, {"data": data})


def _unpack(packed: Section) -> Section:
    """What `_pack` made one; damage is a KeyError, TypeError or ValueError."""
    data, arrays = packed.arrays["data"], {}
    if data.dtype != np.uint8 or data.ndim != 1:
        raise TypeError(f"data must be bytes; got {data.dtype}")
    for name, (kind, shape, offset) in read_object(packed.header["arrays"]).items():
        dtype, sizes = np.dtype(kind), [int(size) for size in shape]
        end = int(offset) + dtype.itemsize * math.prod(sizes)
        is_inside = min([0, *sizes]) == 0 <= offset <= end <= len(data)
        if dtype.kind not in "biuf" or not is_inside or offset % _ALIGNED:
            raise ValueError(f"{name} must lie within {len(data):,} bytes; got {offset} to {end}")
        arrays[name] = data[offset:end].view(dtype).reshape(sizes)
    return Section(read_object(packed.header["section"]), arrays)


def _remove_unnamed(path: Path, named: Iterable[str]) -> None:
    """Remove segments that the manifest does not name, and what a killed writer left."""
    kept = set(named)
    for found in path.iterdir():
        if found.name in kept or not _OURS.fullmatch(found.name) or found.is_symlink():
            continue
        if found.is_dir():
            shutil.rmtree(found, ignore_errors=True)
        else:
            with suppress(OSError):
                found.unlink()


def _sort(names: Iterable[str]) -> list[str]:
    return sorted(filter(is_segment, names), key=_number)


def _number(name: str) -> int:
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else 0
