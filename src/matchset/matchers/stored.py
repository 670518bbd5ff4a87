"""Storing: which matcher lies in a folder?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from matchset.errors import ModelFileError
from matchset.folders import Inner
from matchset.parts import Part, open_parts, read_header, read_part, save_parts

T = TypeVar("T")
TREE = "tree"
_MATCHER = "matcher"


def save_matcher(
    path: str | os.PathLike[str],
    kind: str,
    parts: Mapping[str, Part],
    *,
    overwrite: bool = False,
    inner: Inner | None = None,
) -> None:
    """Write the parts of a matcher to a folder, and whole matchers inside it, at once."""
    save_parts(path, parts, header={_MATCHER: kind}, overwrite=overwrite, inner=inner)


def load_matcher(
    path: str | os.PathLike[str], kind: str, read: Callable[[Mapping[str, Part]], T]
) -> T:
    """Make a matcher of its memory-mapped parts; whatever does not fit is a ModelFileError."""
    header, parts = open_parts(path)
    require_kind(path, header, kind)
    return read_part(path, f"{kind} matcher", lambda: read(parts))


def kind_of(path: str | os.PathLike[str]) -> str:
    """The kind of the matcher that was saved to a folder."""
    return _kind(read_header(Path(path)))


def require_kind(path: str | os.PathLike[str], header: Mapping[str, Any], kind: str) -> None:
    """Refuse a folder that holds another matcher."""
    if (found := _kind(header)) != kind:
        raise ModelFileError(f"{path}: holds a {found!r} matcher; expected a {kind!r} matcher")


def _kind(header: Mapping[str, Any]) -> str:
    return str(header.get(_MATCHER, TREE))  # trees were there first
