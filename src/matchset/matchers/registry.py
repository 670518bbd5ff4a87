"""Storing: which matcher lies in a folder?"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from matchset.errors import ModelFileError
from matchset.matchers.base import Matcher
from matchset.storage.folders import Inner
from matchset.storage.sections import Part, open_parts, read_header, read_part, save_parts

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
        raise ModelFileError(f"holds a {found!r} matcher; expected a {kind!r} matcher", path=path)


def _kind(header: Mapping[str, Any]) -> str:
    return str(header.get(_MATCHER, TREE))  # trees were there first


# Named, not imported: opening a tree must not need the packages of another matcher.
WHO = {
    "tree": "matchset.matchers.xr_linear:XRLinearMatcher",
    "bm25": "matchset.matchers.bm25:BM25",
    "title similarity": "matchset.matchers.title_similarity:TitleSimilarity",
    "nearest queries": "matchset.matchers.nearest_queries:NearestQueries",
    "popularity": "matchset.matchers.popularity:Popularity",
    "fusion": "matchset.matchers.fusion:Fusion",
    "dssm": "matchset.lab.dssm.exact:DSSM",
    "dssm+hnsw": "matchset.lab.dssm.hnsw:DSSMWithHNSW",
}


def load(path: str | os.PathLike[str]) -> Matcher:
    """Open whichever matcher was saved to a folder, memory-mapped, in milliseconds."""
    kind = kind_of(path)
    if kind not in WHO:
        known = ", ".join(WHO)
        raise ModelFileError(f"a matcher must be one of {known}; got {kind!r}", path=path)
    module, name = WHO[kind].split(":")
    opened: Matcher = getattr(import_module(module), name).load(path)
    return opened


def name_kind(matcher: Matcher) -> str:
    """What a matcher is called where it is one of several: "tree", "title_similarity"."""
    cls = type(matcher)
    place = f"{cls.__module__}:{cls.__qualname__}"
    kind = next((kind for kind, who in WHO.items() if who == place), cls.__name__)
    return kind.replace(" ", "_").replace("+", "_")
