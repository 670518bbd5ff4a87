"""Folders: how are arrays kept on disk so that they open at once and are never half-written?

A folder holds `manifest.json` and one `.bin` file per array: its bytes, little-endian, in C order.
The manifest gives the format's version, the kind of thing stored, its header, each array's type,
shape and SHA-256, and its own SHA-256. An array of a part is named after it: `tree.blocks`. Other
such folders may lie inside; the manifest gives the SHA-256 of theirs under `folders`. Files are
never changed once written: a reader that has mapped a file keeps what it opened, even when the
folder is overwritten or removed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset.errors import ModelFileError, TargetExistsError
from matchset.storage.atomic import build_beside, put_in_place, sweep

VERSION = 1
MANIFEST = "manifest.json"
Arrays = Mapping[str, NDArray[Any]]
Inner = Mapping[str, Callable[[Path], None]]  # folders by name, and who writes each


def write_folder(
    path: Path,
    kind: str,
    *,
    header: Mapping[str, Any],
    arrays: Arrays,
    overwrite: bool = False,
    inner: Inner | None = None,
) -> None:
    """Write a folder: built beside `path`, flushed, then put in place at once.

    `inner` writes folders into it. A process killed at any moment leaves what was there before, and
    perhaps a folder whose name starts with a dot and ends with `.tmp`, which the next save to
    `path` removes. `overwrite` replaces a folder that matchset wrote.
    """
    check_target(path, overwrite=overwrite)
    if path.exists():  # if not, what was left over may be the last copy, until there is another
        sweep(path)
    with build_beside(path) as building:
        entries = {name: _write_array(building, name, array) for name, array in arrays.items()}
        manifest = {"matchset": VERSION, "kind": kind, "header": header, "arrays": entries}
        if inner:
            manifest["folders"] = {
                name: _write_inner(building / name, write) for name, write in inner.items()
            }
        _write_file(building / MANIFEST, _seal(manifest))
        _flush_folder(building)
        put_in_place(building, path)
        _flush_folder(path.parent)
    sweep(path)


def check_target(path: Path, *, overwrite: bool) -> None:
    """Refuse a folder that cannot be written; who works long for it asks before."""
    if path.exists():
        if not overwrite:
            raise TargetExistsError(path)
        _read_manifest(path, None)  # never replace what is not ours
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"{error.strerror}; choose another folder"
        raise OSError(f"{path}: cannot be written: {reason}") from None
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"{path}: cannot be written: no right to; choose another folder")


def read_header(path: Path, kind: str) -> dict[str, Any]:
    """The header of a folder, whose arrays stay closed."""
    header: dict[str, Any] = _read_manifest(path, kind)["header"]
    return header


def open_folder(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header and the memory-mapped arrays of a folder; sizes are checked, contents are not."""
    manifest = _read_manifest(path, kind)
    arrays = {name: _map_array(path, name, entry) for name, entry in manifest["arrays"].items()}
    return manifest["header"], arrays


def verify_folder(path: Path, kind: str | None = None) -> None:
    """Compare every byte with its checksum; raises ModelFileError at the first damaged file."""
    manifest = _read_manifest(path, kind)
    unsealed = {key: value for key, value in manifest.items() if key != "sha256"}
    if (path / MANIFEST).read_bytes() != _seal(unsealed):
        raise ModelFileError(
            "damaged: its checksum differs from its contents", path=path / MANIFEST
        )
    for name, entry in manifest["arrays"].items():
        _map_array(path, name, entry)
        file = _array_file(path, name)
        with file.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != entry.get("sha256"):
            raise ModelFileError("damaged: its checksum differs from the manifest's", path=file)
    for name, digest in manifest.get("folders", {}).items():
        _verify_inner(path / name, digest)


def _write_inner(path: Path, write: Callable[[Path], None]) -> str:
    """Write a folder into another; the checksum of its manifest stands for all of it."""
    write(path)
    return hashlib.sha256((path / MANIFEST).read_bytes()).hexdigest()


def _verify_inner(path: Path, digest: str) -> None:
    verify_folder(path)
    if hashlib.sha256((path / MANIFEST).read_bytes()).hexdigest() != digest:
        raise ModelFileError("is not the one that the folder was saved with", path=path / MANIFEST)


def _seal(manifest: Mapping[str, Any]) -> bytes:
    """A manifest as it is written, with its own checksum at the end."""
    digest = hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
    return json.dumps({**manifest, "sha256": digest}, indent=1).encode()


def _read_manifest(path: Path, kind: str | None) -> dict[str, Any]:
    file = path / MANIFEST
    try:
        manifest = json.loads(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise ModelFileError(f"not a matchset folder: {_what_lacks(path)}", path=path) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelFileError(f"cannot be read: {error}", path=file) from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("matchset"), int):
        raise ModelFileError("not a manifest of matchset", path=file)
    if manifest["matchset"] > VERSION:
        raise ModelFileError(
            f"written by a newer matchset (format {manifest['matchset']}); "
            f"this one reads up to format {VERSION}",
            path=file,
        )
    if kind is not None and manifest.get("kind") != kind:
        raise ModelFileError(f"holds a {manifest.get('kind')!r}; expected a {kind!r}", path=file)
    if not (isinstance(manifest.get("header"), dict) and isinstance(manifest.get("arrays"), dict)):
        raise ModelFileError("damaged: header and arrays must be objects", path=file)
    if not _are_folders(manifest.get("folders", {})):
        raise ModelFileError("damaged: folders must be names with checksums", path=file)
    return manifest


def _what_lacks(path: Path) -> str:
    if path.is_dir():
        return f"it has no {MANIFEST}"
    return "it is a file" if path.exists() else "there is no such folder"


def _are_folders(folders: object) -> bool:
    return isinstance(folders, dict) and all(map(str.isalnum, folders))


def _write_array(folder: Path, name: str, array: NDArray[Any]) -> dict[str, Any]:
    little_endian = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    data = little_endian.reshape(-1).view(np.uint8).data
    _write_file(_array_file(folder, name), data)
    return {
        "dtype": little_endian.dtype.str,
        "shape": list(array.shape),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _map_array(folder: Path, name: str, entry: Any) -> NDArray[Any]:
    file = _array_file(folder, name)
    try:
        dtype = np.dtype(entry["dtype"])
        shape = tuple(int(length) for length in entry["shape"])
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"damaged entry {name!r}: {error}", path=folder / MANIFEST) from None
    if dtype.kind not in "biuf" or min(shape, default=0) < 0:
        raise ModelFileError(f"damaged entry {name!r}: {dtype} of {shape}", path=folder / MANIFEST)
    n_bytes = dtype.itemsize * int(np.prod(shape, dtype=object))
    try:
        found = file.stat().st_size
    except OSError as error:
        raise ModelFileError(f"missing or unreadable: {error.strerror}", path=file) from None
    if found != n_bytes:
        raise ModelFileError(f"damaged: must be {n_bytes:,} bytes; got {found:,}", path=file)
    if n_bytes == 0:
        return np.empty(shape, dtype)
    return np.memmap(file, dtype=dtype, mode="r", shape=shape)


def _array_file(folder: Path, name: str) -> Path:
    if not all(part.replace("_", "").isalnum() for part in name.split(".")):
        raise ModelFileError(
            f"damaged: {name!r} is not the name of an array", path=folder / MANIFEST
        )
    return folder / f"{name}.bin"


def _write_file(file: Path, data: bytes | memoryview) -> None:
    with file.open("xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
