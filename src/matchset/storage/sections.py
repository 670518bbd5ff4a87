"""Sections: how do several things share one folder?

A section is a header and named arrays. A folder holds several: `tree.blocks` is an array of the
section `tree`, and the header of the folder has the header of each section under its name.
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
class Section:
    """One thing as it is stored."""

    header: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def within(self, name: str) -> dict[str, NDArray[Any]]:
        """Arrays whose names start with `name.`, without that prefix."""
        start = f"{name}."
        return {
            key.removeprefix(start): array
            for key, array in self.arrays.items()
            if key.startswith(start)
        }


def save_sections(
    path: str | os.PathLike[str],
    sections: Mapping[str, Section],
    *,
    header: Mapping[str, Any],
    overwrite: bool = False,
    inner: Inner | None = None,
    finish: Callable[[Path], None] | None = None,
) -> None:
    """Write a model folder, all or nothing; `inner` writes whole folders into it.

    For `finish` see `write_folder`.
    """
    arrays = {
        f"{name}.{key}": array
        for name, section in sections.items()
        for key, array in section.arrays.items()
    }
    headers = {name: dict(section.header) for name, section in sections.items()}
    header = {**header, "sections": headers}
    write_folder(
        Path(path),
        MODEL,
        header=header,
        arrays=arrays,
        overwrite=overwrite,
        inner=inner,
        finish=finish,
    )


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The header of a model folder, without opening its sections."""
    return read_folder_header(path, MODEL)


def open_sections(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Section]]:
    """The header and the memory-mapped sections of a model folder."""
    header, arrays = open_folder(path, MODEL)
    headers = header.pop("sections", None)
    if not isinstance(headers, dict) or not all(isinstance(h, dict) for h in headers.values()):
        raise ModelFileError("damaged: its manifest does not list sections", path=path)
    whole = Section(arrays=arrays)
    return header, {name: Section(each, whole.within(name)) for name, each in headers.items()}


def read_section(path: str | os.PathLike[str], what: str, read: Callable[[], T]) -> T:
    """`read()`, whose errors become a ModelFileError that names the folder and `what`."""
    try:
        return read()
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, IndexError) as error:
        found = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ModelFileError(f"the {what} is damaged: {found}", path=path) from None


def read_object(value: object) -> dict[str, Any]:
    """A JSON object of a header; anything else is a TypeError."""
    if not isinstance(value, dict):
        raise TypeError(f"must be an object; got {type(value).__name__}")
    return value


def verify(path: str | os.PathLike[str]) -> None:
    """Compare every byte of a saved folder with its checksum; damage is a ModelFileError."""
    verify_folder(path)


def store_strings(texts: Strings) -> dict[str, NDArray[Any]]:
    """The arrays of texts."""
    return {"bytes": texts.used, "offsets": texts.offsets - texts.offsets[0]}


def read_strings(arrays: Mapping[str, NDArray[Any]]) -> Strings:
    """Texts from their arrays; the ends are checked here, single texts when they are read."""
    data, offsets = arrays["bytes"], arrays["offsets"]
    if data.dtype != np.uint8 or offsets.dtype != np.int64 or len(offsets) == 0:
        raise ValueError(f"texts must be bytes with offsets; got {data.dtype} and {offsets.dtype}")
    if offsets[0] != 0 or offsets[-1] != len(data):
        raise ValueError("offsets of texts must go from 0 to the number of bytes")
    return Strings(data, offsets)


def under(name: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays, each with the prefix `name.`."""
    return {f"{name}.{key}": array for key, array in arrays.items()}
