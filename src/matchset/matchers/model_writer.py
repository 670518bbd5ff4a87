"""Writer: how do changes of products reach the file of a model, and stay?

A matcher is a value, and its changes end with the process. A writer keeps each one beside the
model's file before it returns. Writers of several processes take turns, and each goes on from what
the file holds by then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from matchset.data.catalog import Catalog
from matchset.data.log import Log
from matchset.data.tables import TableSource
from matchset.errors import ParameterError
from matchset.matchers.fresh_matcher import to_catalog
from matchset.matchers.match_set import MatchSet
from matchset.matchers.saved import Loaded, open_model, write_delta
from matchset.model.fresh import Step, adding, removing, updating
from matchset.model.upserts import Upsert, upserting
from matchset.storage.change_log import append_change, flush_changes, replace_changes, writing
from matchset.storage.file import verify_file
from matchset.strings import Strings

_MOST_RECORDS = 16  # the next one holds all changes


def open_writer(path: str | os.PathLike[str]) -> Writer:
    """Open the file of a match set to change its products; use it in a `with` statement."""
    return Writer(path)


class Writer:
    """Changes a model's file; each method returns the match set as it is then, on disk too.

    An error, such as a full disk, leaves the file as it was, but for an `UncertainWriteError`: then
    the change is there, and may not survive a crash of the system.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).resolve()
        self._loaded = self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Nothing is left to do: every change is on disk when its method returns."""

    @property
    def matcher(self) -> MatchSet:
        """The match set as this writer saw it last."""
        found: MatchSet = self._loaded.matcher  # type: ignore[assignment]  # `_open` looks
        return found

    def add(self, products: Catalog | TableSource, *, version: int | None = None) -> MatchSet:
        """Add products, or replace known ones; see `MatchSet.add`."""
        return self._take(adding(to_catalog(products, requires_title=True), version))

    def update(self, products: Catalog | TableSource, *, version: int | None = None) -> MatchSet:
        """Change titles or attributes of products; see `MatchSet.update`."""
        return self._take(updating(to_catalog(products), version))

    def remove(self, ids: Iterable[str], *, version: int | None = None) -> MatchSet:
        """Remove products; see `MatchSet.remove`."""
        return self._take(removing(Strings.of(ids, "ids"), version))

    def upsert(
        self,
        products: Sequence[Upsert],
        *,
        remove: Sequence[str] = (),
        version: int | None = None,
    ) -> MatchSet:
        """Add or change single products, and remove others, in one step."""
        return self._take(upserting(products, remove, version))

    def refresh(self, log: Log | TableSource, old_log: Log | TableSource | None = None) -> MatchSet:
        """Learn from the log since the training; see `MatchSet.refresh`.

        Other processes may change products meanwhile: their changes stay. If another training
        replaced the file, it is a ValueError.
        """
        verify_file(self._path)
        begun = self._loaded = self._open()
        learned = self.matcher.learn(log, old_log)
        with writing(self._path):
            self._loaded = self._open()
            if self._loaded.base != begun.base:
                raise ValueError(f"{self._path}: was replaced meanwhile; refresh it again")
            learned.rebase(self.matcher).write_held(self._path, overwrite=True)
            self._loaded = self._open()
        return self.matcher

    def _open(self) -> Loaded:
        """Look at the file again: another process may have changed or replaced it."""
        known = getattr(self, "_loaded", None)
        loaded = open_model(self._path, known)
        if not isinstance(loaded.matcher, MatchSet):
            rule = f"must be a match set; got a {loaded.matcher.kind}"
            raise ParameterError(rule, path=self._path)
        return loaded

    def _take(self, step: Step) -> MatchSet:
        with writing(self._path):
            self._loaded = self._open()
            after, delta = self.matcher.take(step)
            if delta is None:
                flush_changes(self._path)  # a writer that was killed may not have come to it
                return self.matcher
            log, base = self._loaded.log, self._loaded.base
            if len(log.records) < _MOST_RECORDS:
                log = append_change(self._path, base, log, write_delta(delta))
            elif (whole := after.all_changes()) is not None:
                log = replace_changes(self._path, base, write_delta(whole))
            self._loaded = replace(self._loaded, matcher=after, log=log)
            return after
