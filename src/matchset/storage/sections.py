"""Parts: how do several things lie together in one folder?

A part is a header and named arrays. A folder holds several: `tree.blocks` is an array of `tree`,
and the folder's header has the header of each part under its name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from matchset.errors import ModelFileError
from matchset.storage.folders import Inner, open_folder, verify_folder, write_folder
from matchset.storage.folders import read_header as read_folder_header
from matchset.strings import Strings

MODEL = "model"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What is stored of one thing."""

    header: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def within(self, name: str) -> dict[str, NDArray[Any]]:
        """Arrays whose names start with `name.`, without it."""
        start = f"{name}."
        return {
            key.removeprefix(start): array
            for key, array in self.arrays.items()
            if key.startswith(start)
        }


def save_parts(
    path: str | os.PathLike[str],
    parts: Mapping[str, Part],
    *,
    header: Mapping[str, Any],
    overwrite: bool = False,
    inner: Inner | None = None,
) -> None:
    """Write a model folder at once; `header` is the configuration, the provenance and the like.

    `inner` writes whole folders into it.
    """
    arrays = {
        f"{name}.{key}": array for name, part in parts.items() for key, array in part.arrays.items()
    }
    headers = {name: dict(part.header) for name, part in parts.items()}
    whole = {**header, "parts": headers}
    target = Path(path)
    write_folder(target, MODEL, header=whole, arrays=arrays, overwrite=overwrite, inner=inner)


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The header of a model folder, whose parts stay closed."""
    return read_folder_header(Path(path), MODEL)


def open_parts(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Part]]:
    """The header and the parts of a model folder, memory-mapped, in milliseconds."""
    header, arrays = open_folder(Path(path), MODEL)
    headers = header.pop("parts", None)
    if not isinstance(headers, dict) or not all(isinstance(h, dict) for h in headers.values()):
        raise ModelFileError("damaged: its manifest does not list parts", path=path)
    whole = Part(arrays=arrays)
    return header, {name: Part(stored, whole.within(name)) for name, stored in headers.items()}


def read_part(path: str | os.PathLike[str], what: str, read: Callable[[], T]) -> T:
    """`read()`, in which whatever does not fit is a ModelFileError that names the folder."""
    try:
        return read()
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        found = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ModelFileError(f"the {what} is damaged: {found}", path=path) from None


def verify(path: str | os.PathLike[str]) -> None:
    """Compare every byte of a saved folder with its checksum; a ModelFileError names the damage."""
    verify_folder(Path(path))


def store_strings(texts: Strings) -> dict[str, NDArray[Any]]:
    """The arrays of texts, to go under a name."""
    return {"bytes": texts.used, "offsets": texts.offsets - texts.offsets[0]}


def read_strings(arrays: Mapping[str, NDArray[Any]]) -> Strings:
    """Texts from their arrays; what lies between the ends is checked by who reads it."""
    data, offsets = arrays["bytes"], arrays["offsets"]
    if data.dtype != np.uint8 or offsets.dtype != np.int64 or len(offsets) == 0:
        raise ValueError(f"texts must be bytes with offsets; got {data.dtype} and {offsets.dtype}")
    if offsets[0] != 0 or offsets[-1] != len(data):
        raise ValueError("offsets of texts must go from 0 to the number of bytes")
    return Strings(data, offsets)


def under(name: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays, each with `name.` before its own."""
    return {f"{name}.{key}": array for key, array in arrays.items()}
