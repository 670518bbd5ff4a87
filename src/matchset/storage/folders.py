"""Folders: how are arrays stored so that they open at once and are never half-written?

A folder holds `manifest.json` and one `.bin` file per array: its bytes, little-endian, in C order.
The manifest gives the version of the format, the kind of thing stored, its header, the type, shape
and SHA-256 of each array, and its own SHA-256. The arrays of a section are named after it, such as
`tree.blocks`. Folders inside are folders of the same form; the manifest gives the SHA-256 of their
manifests under `folders`. Files never change once written: a process that has mapped a file keeps
what it opened, even when the folder is overwritten or removed. A manifest may be replaced by one
that names more folders (see `segments`).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset.errors import ModelFileError, TargetExistsError
from matchset.storage.atomic import is_ours, publish_folder, remove_leftovers, staging_folder
from matchset.storage.codec import ArrayPieces
from matchset.storage.handles import MANIFEST as MANIFEST
from matchset.storage.handles import FolderHandle, PathLike, read_folder

VERSION = 4
MAX_MANIFEST = 16 << 20  # bytes; ours have some thousands
_MAX_DIMENSIONS = 8
Arrays = Mapping[str, NDArray[Any]]
Inner = Mapping[str, Callable[[Path], None]]  # what writes each folder inside, by name


def write_folder(
    path: Path,
    kind: str,
    *,
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any] | ArrayPieces],
    overwrite: bool = False,
    inner: Inner | None = None,
    finish: Callable[[Path], None] | None = None,
) -> None:
    """Write a folder beside `path`, flush it to disk, and move it there in one step.

    `inner` writes folders into it; `finish` adds to it what is known in the last moment (see
    `publish_folder`). A process killed at any moment leaves what was there before, and
    perhaps a folder whose name starts with a dot and ends with `.tmp`, which the next write to
    `path` removes. `overwrite` replaces a folder that matchset wrote, and nothing else.
    """
    check_target(path, overwrite=overwrite)
    if path.exists():  # if not, a leftover may be the last copy until this write is complete
        remove_leftovers(path)
    with staging_folder(path) as staged:
        entries = {name: _write_array(staged, name, array) for name, array in arrays.items()}
        manifest = {"matchset": VERSION, "kind": kind, "header": header, "arrays": entries}
        if inner:
            manifest["folders"] = {
                name: _write_inner(staged / name, write) for name, write in inner.items()
            }
        write_file(staged / MANIFEST, seal(manifest))
        flush_folder(staged)
        publish_folder(staged, path, overwrite=overwrite, finish=finish)
        flush_folder(path.parent)
    remove_leftovers(path)


def check_target(path: Path, *, overwrite: bool) -> None:
    """Raise where `path` cannot be written, before hours are spent on what should go there."""
    if path.exists():
        if not overwrite:
            raise TargetExistsError(path)
        read_folder(path, _parse_manifest)  # never replace what is not ours
        if others := sorted(entry.name for entry in path.iterdir() if not is_ours(entry)):
            rule = "must hold nothing but a model to be overwritten"
            raise OSError(f"{path}: {rule}; got {', '.join(others[:3])}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"{error.strerror}; choose another folder"
        raise OSError(f"{path}: cannot be written: {reason}") from None
    if not os.access(path.parent, os.W_OK | os.X_OK):
        reason = "permission denied; choose another folder"
        raise PermissionError(f"{path}: cannot be written: {reason}")


def refuse_model(path: Path) -> None:
    """Raise where other files would be written into a model, which overwriting it would lose."""
    if (path / MANIFEST).exists():
        raise OSError(f"{path}: must not be a model's folder; choose another")


def read_header(path: PathLike, kind: str) -> dict[str, Any]:
    """The header of a folder, without opening its arrays."""
    header: dict[str, Any] = read_folder(path, lambda folder: read_manifest(folder, kind))["header"]
    return header


def open_folder(path: PathLike, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header and the memory-mapped arrays of a folder; only sizes are checked."""

    def read(folder: FolderHandle) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        manifest = read_manifest(folder, kind)
        entries = manifest["arrays"].items()
        return manifest["header"], {name: _map_array(folder, name, one) for name, one in entries}

    return read_folder(path, read)


def verify_folder(path: PathLike, kind: str | None = None, *, verified: Path | None = None) -> None:
    """Compare every byte with its checksum; the first damaged file is a ModelFileError.

    Files that a folder which was `verified` before shares with this one are not read again.
    """
    read_folder(path, lambda folder: _verify(folder, kind, verified))


def read_entries(path: Path | None) -> dict[str, Any]:
    """What a folder's manifest says of each array; nothing where there is no such folder."""
    if path is None or not path.exists():
        return {}
    entries: dict[str, Any] = read_folder(path, read_manifest)["arrays"]
    return entries


def _verify(folder: FolderHandle, kind: str | None = None, verified: Path | None = None) -> None:
    manifest, known = read_manifest(folder, kind), read_entries(verified)
    unsealed = {key: value for key, value in manifest.items() if key != "sha256"}
    if _read_bytes(folder) != seal(unsealed):
        raise ModelFileError(
            "damaged: its checksum differs from its contents", path=folder.path / MANIFEST
        )
    for name, entry in manifest["arrays"].items():
        _map_array(folder, name, entry)
        with open_array(folder, name, entry) as stream:
            if known.get(name) == entry and _is_file(stream, verified, array_file(folder, name)):
                continue
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != entry.get("sha256"):
            rule = "damaged: its checksum differs from the manifest's"
            raise ModelFileError(rule, path=folder.path / array_file(folder, name))
    for name, digest in manifest.get("folders", {}).items():
        with folder.open_inner(name) as inner:
            _verify(inner, verified=None if verified is None else verified / name)
            if checksum(inner) != digest:
                rule = "is not the one that the folder was saved with"
                raise ModelFileError(rule, path=inner.path / MANIFEST)


def _is_file(stream: BufferedReader, folder: Path | None, name: str) -> bool:
    """Whether an open file is this one in another folder."""
    if folder is None:
        return False
    try:
        other = (folder / name).stat(follow_symlinks=False)
    except OSError:  # removed meanwhile
        return False
    return os.path.samestat(os.fstat(stream.fileno()), other)


def _write_inner(path: Path, write: Callable[[Path], None]) -> str:
    """Write a folder into another; the checksum of its manifest covers all of it."""
    write(path)
    return checksum(path)


def checksum(path: PathLike) -> str:
    """SHA-256 of a folder's manifest, which holds those of all its files."""
    return hashlib.sha256(read_folder(path, _read_bytes)).hexdigest()


def seal(manifest: Mapping[str, Any]) -> bytes:
    """A manifest as bytes, with its own checksum at the end."""
    digest = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    return json.dumps({**manifest, "sha256": digest}, indent=1).encode()


def _parse_manifest(folder: FolderHandle) -> dict[str, Any]:
    """The manifest of a folder of this format or an older one."""
    file = folder.path / MANIFEST
    try:
        manifest = json.loads(_read_bytes(folder))
    except ModelFileError:
        raise
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"cannot be read: {error}", path=file) from None
    version = manifest.get("matchset") if isinstance(manifest, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ModelFileError("not a manifest of matchset", path=file)
    if version > VERSION:
        raise ModelFileError(
            f"written by a newer matchset (format {version}); this one reads format {VERSION}",
            path=file,
        )
    return dict(manifest)


def _read_bytes(folder: FolderHandle) -> bytes:
    """The manifest of a folder as bytes."""
    try:
        with folder.open_file(MANIFEST) as stream:
            data = stream.read(MAX_MANIFEST + 1)
    except FileNotFoundError:
        rule = f"not a matchset folder: it has no {MANIFEST}"
        raise ModelFileError(rule, path=folder) from None
    except OSError as error:
        rule = f"cannot be read: {error.strerror}"
        raise ModelFileError(rule, path=folder.path / MANIFEST) from None
    if len(data) > MAX_MANIFEST:
        rule = f"must have at most {MAX_MANIFEST:,} bytes; got more"
        raise ModelFileError(rule, path=folder.path / MANIFEST)
    return data


def read_manifest(folder: FolderHandle, kind: str | None = None) -> dict[str, Any]:
    """The manifest of a folder of this format, perhaps of a kind."""
    file, manifest = folder.path / MANIFEST, _parse_manifest(folder)
    if manifest["matchset"] < VERSION:
        raise ModelFileError(
            f"written by an older matchset (format {manifest['matchset']}), "
            f"which this one does not read (format {VERSION}); train it again",
            path=file,
        )
    if kind is not None and manifest.get("kind") != kind:
        raise ModelFileError(f"holds a {manifest.get('kind')!r}; expected a {kind!r}", path=file)
    if not (isinstance(manifest.get("header"), dict) and isinstance(manifest.get("arrays"), dict)):
        raise ModelFileError("damaged: header and arrays must be objects", path=file)
    if not _are_folders(manifest.get("folders", {})):
        raise ModelFileError("damaged: folders must map names to checksums", path=file)
    return manifest


def _are_folders(folders: object) -> bool:
    return isinstance(folders, dict) and all(map(str.isalnum, folders))


def _write_array(folder: Path, name: str, array: NDArray[Any] | ArrayPieces) -> dict[str, Any]:
    pieces = array.pieces if isinstance(array, ArrayPieces) else [array]
    dtype, digest = array.dtype.newbyteorder("<"), hashlib.sha256()
    little_endian = (np.ascontiguousarray(piece, dtype=dtype).reshape(-1) for piece in pieces)
    data = [piece.view(np.uint8).data for piece in little_endian]
    write_file(folder / array_file(folder, name), *data)
    for piece in data:
        digest.update(piece)
    return {"dtype": dtype.str, "shape": list(array.shape), "sha256": digest.hexdigest()}


def _map_array(folder: FolderHandle, name: str, entry: Any) -> NDArray[Any]:
    dtype, shape = _parse_entry(folder, name, entry)
    with open_array(folder, name, entry) as stream:
        if 0 in shape:
            return np.empty(shape, dtype)
        return np.memmap(stream, dtype=dtype, mode="r", shape=shape)


def open_array(folder: FolderHandle, name: str, entry: Any) -> BufferedReader:
    """The file of an array, if it has the size that the manifest gives."""
    dtype, shape = _parse_entry(folder, name, entry)
    file = folder.path / array_file(folder, name)
    try:
        stream = folder.open_file(file.name)
    except OSError as error:
        raise ModelFileError(f"missing or unreadable: {error.strerror}", path=file) from None
    found, n_bytes = os.fstat(stream.fileno()).st_size, dtype.itemsize * math.prod(shape)
    if found != n_bytes:
        stream.close()
        raise ModelFileError(f"damaged: must be {n_bytes:,} bytes; got {found:,}", path=file)
    return stream


def _parse_entry(
    folder: FolderHandle, name: str, entry: Any
) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Type and shape of an array; a ModelFileError unless they are possible."""
    array_file(folder, name)  # a name that leads elsewhere is refused first
    file = folder.path / MANIFEST
    try:
        dtype = np.dtype(entry["dtype"])
        shape = tuple(int(length) for length in entry["shape"])
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise ModelFileError(f"damaged entry {name!r}: {error}", path=file) from None
    if dtype.kind not in "biuf" or len(shape) > _MAX_DIMENSIONS or min(shape, default=0) < 0:
        raise ModelFileError(f"damaged entry {name!r}: {dtype} of {shape[:9]}", path=file)
    return dtype, shape


def array_file(folder: FolderHandle | Path, name: str) -> str:
    """The file name of an array."""
    if not all(part.replace("_", "").isalnum() for part in name.split(".")):
        raise ModelFileError(
            f"damaged: {name!r} is not the name of an array", path=Path(folder) / MANIFEST
        )
    return f"{name}.bin"


def write_file(file: Path, *data: bytes | memoryview) -> None:
    """Write a new file and flush it to disk."""
    with file.open("xb") as stream:
        stream.writelines(data)
        stream.flush()
        os.fsync(stream.fileno())


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
