"""Saved: how does a matcher become a file or a pickle, and a matcher again?"""

from __future__ import annotations

import io
import logging
import os
from abc import ABC
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

from matchset.errors import ModelFileError
from matchset.matchers import registry
from matchset.model.fresh import Delta
from matchset.model.soundness import check_rows
from matchset.storage.atomic import Identity, identify_path
from matchset.storage.change_log import ChangeLog, changes_path, read_changes, writing
from matchset.storage.codec import Json, decode, encode
from matchset.storage.file import (
    check_target,
    open_file,
    read_header,
    read_value,
    verify_file,
    write_file,
    write_value,
)

if TYPE_CHECKING:
    from matchset.matchers.base import Matcher
    from matchset.matchers.match_set import MatchSet

T = TypeVar("T")
logger = logging.getLogger(__name__)

MODEL, _CHANGE = "model", "change"
_ATTEMPTS = 50  # a file may be replaced while it is read; each time takes milliseconds
DROPPED = (
    "%s: changes since its last training are dropped, with their versions (%s); apply again all "
    "changes made after the catalog of the new training was exported"
)


class Saved(ABC):
    """What can be saved, loaded and pickled: a dataclass of what the codec takes.

    Its codec is that of its kind, found by name: see `class_named`.
    """

    kind: ClassVar[str]  # its name in files, HTTP API, CLI, fusions and tables

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write it to a file, all or nothing; changes of products since the training are in it.

        If `overwrite` drops changes of products that the file has, a warning says how many.
        """
        file = Path(path)
        dropped = self._find_dropped(file) if overwrite else None
        self._save(file, overwrite=overwrite)
        if dropped is not None:
            logger.warning(DROPPED, path, dropped)

    def _save(self, file: Path, *, overwrite: bool) -> None:
        """Write it; a file that is there is held against writers meanwhile."""
        check_target(file, overwrite=overwrite)
        with writing(file) if file.exists() else nullcontext():
            self.write_held(file, overwrite=overwrite)

    def write_held(self, file: Path, *, overwrite: bool) -> None:
        """Write it to a file that the caller holds; what was changed beside it goes."""
        header, arrays = encode(self, Saved)
        write_file(file, MODEL, header, arrays, overwrite=overwrite)
        with suppress(OSError):  # of another base: ignored from now on
            changes_path(file).unlink()

    def _find_dropped(self, file: Path) -> object | None:
        """Return what changed since the training in the file, and is not in this matcher."""
        try:
            before = load(file) if file.exists() else None
        except (ModelFileError, ImportError):  # an old one, a damaged one, or one of an extra
            return None
        changed, ours = (getattr(each, "freshness", None) for each in (before, self))
        if changed is None or not changed.added + changed.updated + changed.removed:
            return None
        trained = [getattr(each, "provenance", {}).get("trained") for each in (before, self)]
        is_later = ours is not None and ours.generation >= changed.generation
        return None if trained[0] == trained[1] and is_later else changed

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Open a file that `save` wrote: memory-mapped, shared by processes, in milliseconds."""
        matcher = load(path)
        if not isinstance(matcher, cls):
            rule = f"holds a {matcher.kind!r} matcher; expected a {cls.kind!r} matcher"
            raise ModelFileError(rule, path=path)
        return matcher

    @classmethod
    def class_named(cls, name: str) -> type[Matcher]:
        """Return the class of a kind of matcher; the codec finds classes by it."""
        return registry.find_kind(name).find_class()

    def list_deltas(self) -> list[Delta]:
        """Return its changes of products since the training."""
        return []

    def with_deltas(self, deltas: Sequence[Delta]) -> Self:
        """Return the same training with these changes of products, oldest first."""
        if deltas:
            raise ValueError(f"a {self.kind} matcher must have no changes; got {len(deltas)}")
        return self

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return decode, (Saved, *encode(self, Saved))

    def __copy__(self) -> Self:
        return self  # nothing in it ever changes

    def __deepcopy__(self, memo: object) -> Self:
        return self


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A matcher, and which state of which file it is."""

    matcher: Matcher
    base: str  # checksum of the file
    identity: Identity | None  # of the file; None: it may be any with this checksum
    log: ChangeLog


def load(path: str | os.PathLike[str]) -> MatchSet | Any:
    """Open any matcher that was saved: memory-mapped, in milliseconds.

    If the file is overwritten meanwhile, you get the old model or the new one, never a mix. Type
    checkers take the result for a match set; `BM25.load` and the like are for another kind alone.
    """
    return open_model(path).matcher


def open_model(path: str | os.PathLike[str], known: Loaded | None = None) -> Loaded:
    """Open a matcher with the changes beside its file; of a `known` training, only the changes."""
    for _ in range(_ATTEMPTS):
        file = Path(path).resolve()  # what lies beside it is beside the target of a link
        if known is not None and _is_same(file, known):
            return known
        loaded = _open_once(file, known)
        if identify_path(file) == loaded.identity:
            return loaded
    raise ModelFileError("must not be replaced all the while it is read", path=path)


def _open_once(file: Path, known: Loaded | None) -> Loaded:
    opened = open_file(file, MODEL)
    stored, base = opened.header.value, opened.header.digest
    log = read_changes(file, base)
    deltas = [_read_delta(file, record) for record in log.records]
    if known is not None and known.base == base:
        before = known.matcher
        deltas = read_part(file, "changes", lambda: _read_changes(stored, opened.arrays)) + deltas
    else:
        model = read_part(file, "model", lambda: decode(Saved, stored, opened.arrays))
        before = cast("Matcher", model)
        if not deltas:
            return Loaded(before, base, opened.identity, log)
        deltas = before.list_deltas() + deltas
    matcher = read_part(file, "changes", lambda: before.with_deltas(deltas))
    return Loaded(matcher, base, opened.identity, log)


def _read_changes(stored: Json, arrays: dict[str, Any]) -> list[Delta]:
    """Return the changes that a file of a match set holds, without what was trained."""
    if "changes" not in stored["fields"]:  # of another kind
        return []
    form: Any = Delta | None
    own = {name: a for name, a in arrays.items() if name.startswith("changes.")}
    changes: Delta | None = decode(form, stored["fields"]["changes"], own, at="changes")
    return [] if changes is None else [changes]


def kind_of(path: str | os.PathLike[str]) -> str:
    """Return the name of the kind of the matcher in a file."""
    header = read_header(path, MODEL)
    name = read_part(path, "header", lambda: header.value["class"])
    return _find_kind(path, str(name)).kind


def _find_kind(path: str | os.PathLike[str], name: str) -> type[Matcher]:
    try:
        return registry.find_kind(name).find_class()
    except ValueError as error:
        raise ModelFileError(str(error), path=path) from None


def read_part(path: str | os.PathLike[str], what: str, read: Callable[[], T]) -> T:
    """Return `read()`; its errors become a ModelFileError that names the file and `what`."""
    try:
        return read()
    except ModelFileError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ModelFileError(f"the {what} is damaged: {error}", path=path) from None


def write_delta(delta: Delta) -> bytes:
    """Return changes as a record."""
    stream = io.BytesIO()
    write_value(stream, _CHANGE, *encode(delta))
    return stream.getvalue()


def _read_delta(file: Path, record: bytes) -> Delta:
    header, arrays = read_value(record, changes_path(file), _CHANGE)
    return read_part(changes_path(file), "change", lambda: decode(Delta, header, arrays))


def verify(path: str | os.PathLike[str]) -> None:
    """Compare every byte of a saved file with its checksum, and look for rows that lead outside.

    Damage is a ModelFileError.
    """
    header = verify_file(path)
    read_changes(Path(path), header.digest)
    if header.kind == MODEL:
        with suppress(ImportError):  # of an extra that is not installed
            matcher = load(path)
            read_part(path, "model", lambda: check_rows(matcher))


def _is_same(file: Path, known: Loaded) -> bool:
    """Return whether neither the file nor the changes beside it are others by now."""
    found = identify_path(file), identify_path(changes_path(file))
    return found == (known.identity, known.log.identity)
