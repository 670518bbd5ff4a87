"""Storing: which matcher lies in a folder?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TypeVar

from matchset.errors import ModelFileError
from matchset.parts import Part, open_parts, read_part, save_parts

T = TypeVar("T")
_MATCHER = "matcher"


def save_matcher(
    path: str | os.PathLike[str], kind: str, parts: Mapping[str, Part], *, overwrite: bool = False
) -> None:
    """Write the parts of a matcher to a folder, at once or not at all."""
    save_parts(path, parts, header={_MATCHER: kind}, overwrite=overwrite)


def load_matcher(
    path: str | os.PathLike[str], kind: str, read: Callable[[Mapping[str, Part]], T]
) -> T:
    """Make a matcher of its memory-mapped parts; whatever does not fit is a ModelFileError."""
    header, parts = open_parts(path)
    if (found := header.get(_MATCHER, "tree")) != kind:
        raise ModelFileError(f"{path}: holds a {found!r} matcher; expected a {kind!r} matcher")
    return read_part(path, f"{kind} matcher", lambda: read(parts))
