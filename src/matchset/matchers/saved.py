"""Saved: how does a matcher become a folder or a pickle, and a matcher again?"""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np

from matchset.errors import ModelFileError
from matchset.matchers import registry
from matchset.storage.folders import checksum
from matchset.storage.handles import FolderHandle, read_folder
from matchset.storage.sections import Section, open_sections, read_section, save_sections
from matchset.storage.segments import open_segments

if TYPE_CHECKING:
    from matchset.matchers.base import Matcher

logger = logging.getLogger(__name__)
DROPPED = (
    "%s: changes since its last training are dropped, with their versions (%s); apply again all "
    "changes made after the catalog of the new training was exported"
)
Sections: TypeAlias = Mapping[str, Section]
OpenPart: TypeAlias = Callable[[str], "Matcher"]


class Saved(ABC):
    """What has arrays in named sections, and so can be saved, loaded and pickled."""

    kind: ClassVar[str]  # its name in folders, HTTP API, CLI, fusions and tables
    _source: tuple[str, str] | None = None  # the folder it was loaded from, and its checksum
    _home: str | None = None  # the folder that it was saved to or loaded from

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write it to a folder, all or nothing. The files never change afterwards.

        Later changes of products are written to the folder that it was loaded from or first saved
        to. Any other folder is a copy. If `overwrite` drops changes of products, a warning says how
        many.
        """
        dropped = self._find_dropped(path) if overwrite else None
        self._save(path, overwrite=overwrite)
        if self._home is None:
            object.__setattr__(self, "_home", str(Path(path).absolute()))  # frozen dataclasses too
        if dropped is not None:
            logger.warning(DROPPED, path, dropped)

    def _find_dropped(self, path: str | os.PathLike[str]) -> object | None:
        """What changed since the training in the folder at `path`, and is not in this matcher."""
        try:
            before = registry.load(path) if Path(path).exists() else None
        except (ModelFileError, ImportError):  # an old one, a damaged one, or one of an extra
            return None
        changed, ours = (getattr(each, "freshness", None) for each in (before, self))
        if changed is None or not changed.added + changed.updated + changed.removed:
            return None
        trained = [getattr(each, "provenance", {}).get("trained") for each in (before, self)]
        is_later = ours is not None and ours.generation >= changed.generation
        return None if trained[0] == trained[1] and is_later else changed

    def _save(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        finish: Callable[[Path], None] | None = None,
    ) -> None:
        save_sections(
            path,
            self._sections(),
            header={registry.HEADER: self.kind},
            overwrite=overwrite,
            inner={name: part._save for name, part in self._parts().items()},  # noqa: SLF001
            finish=finish,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Open a folder that `save` wrote: memory-mapped, shared by processes, in milliseconds."""
        return read_folder(path, cls._load)

    @classmethod
    def _load(cls, folder: FolderHandle) -> Self:
        source = str(folder.path.absolute()), checksum(folder)
        header, sections = open_sections(folder)
        sections |= open_segments(folder)
        registry.require_kind(folder, header, cls.kind)

        def open_part(name: str) -> Matcher:
            with folder.open_inner(name) as inner:
                return registry.load(inner)

        what = f"{cls.kind} matcher"
        matcher = read_section(folder, what, lambda: cls._read(sections, open_part))
        require_unchanged(folder, source[1])
        if folder.is_inner:  # belongs to the folder around it
            object.__setattr__(matcher, "_source", source)
            return matcher
        return matcher._settle(*source)  # noqa: SLF001

    def _settle(self, folder: str, digest: str) -> Self:
        """Remember the folder that holds this matcher, and its checksum; returns itself."""
        object.__setattr__(self, "_source", (folder, digest))  # frozen dataclasses too
        object.__setattr__(self, "_home", folder)
        return self

    def __reduce__(self) -> tuple[Callable[..., Saved], tuple[Any, ...]]:
        """Pickle a matcher as its folder and checksum, or as its arrays if that holds another."""
        if self._source is not None and self._is_still_there(*self._source):
            return self._open_same, self._source
        sections = {
            name: Section(section.header, {key: np.asarray(a) for key, a in section.arrays.items()})
            for name, section in self._sections().items()
        }
        return self._rebuild, (sections, dict(self._parts()))

    @staticmethod
    def _is_still_there(folder: str, digest: str) -> bool:
        try:
            return checksum(folder) == digest
        except (ModelFileError, OSError):
            return False

    @classmethod
    def _open_same(cls, path: str, wanted: str) -> Self:
        """Open the folder that a pickled matcher was loaded from."""
        matcher = cls.load(path)
        if matcher._source != (path, wanted):  # noqa: SLF001
            raise ModelFileError("holds another model than the one that was pickled", path=path)
        return matcher

    @classmethod
    def _rebuild(cls, sections: Sections, parts: Mapping[str, Matcher]) -> Self:
        """Make a pickled matcher of its arrays."""
        return cls._read(sections, parts.__getitem__)

    def __copy__(self) -> Self:
        return self  # nothing in it ever changes

    def __deepcopy__(self, memo: object) -> Self:
        return self

    @abstractmethod
    def _sections(self) -> Sections:
        """What `save` writes."""

    @classmethod
    @abstractmethod
    def _read(cls, sections: Sections, open_part: OpenPart) -> Self:
        """Make a matcher of what `_sections` gave; the arrays are memory-mapped.

        `open_part` opens one of `_parts`. A KeyError, TypeError or ValueError means that the folder
        is damaged.
        """

    def _parts(self) -> Mapping[str, Matcher]:
        """Whole matchers that this one consists of, by the name of their folder."""
        return {}


def require_unchanged(folder: FolderHandle, digest: str) -> None:
    """Raise where a writer came between: who opened the folder reads it again."""
    if checksum(folder) != digest:
        raise ModelFileError("changed while it was read", path=folder)
