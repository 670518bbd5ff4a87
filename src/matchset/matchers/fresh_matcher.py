"""Fresh matcher: how do products come, change and go in a match set, and in its folder?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Self

import numpy as np

from matchset.config import count_threads
from matchset.data.catalog import Catalog
from matchset.data.catalog_reader import read_catalog
from matchset.data.log import Log
from matchset.data.log_reader import read_log
from matchset.data.tables import TableSource
from matchset.learn.refresh import refresh_match_set
from matchset.learn.refresh_data import Known
from matchset.learn.refresh_report import RefreshReport
from matchset.matchers.trained import TrainedMatcher
from matchset.model.added import index_added
from matchset.model.changes import (
    Changes,
    apply_changes,
    nothing,
    searched_texts,
)
from matchset.model.fresh import (
    Fresh,
    Freshness,
    Step,
    adding,
    measure,
    read_fresh,
    removing,
    store_fresh,
    updating,
)
from matchset.model.match_set_model import MatchSetModel
from matchset.model.title_rows import TitleRows, read_title_rows, store_title_rows
from matchset.model.upserts import Upsert, upserting
from matchset.storage.atomic import locked
from matchset.storage.folders import checksum, verify_folder
from matchset.storage.sections import Section
from matchset.storage.segments import (
    count_segments,
    identify_base,
    sweep_segments,
    write_segment,
)
from matchset.strings import Strings

_FEW = 32  # titles that are not worth more than one thread
_MOST_SEGMENTS = 16  # the next one holds all changes


@dataclass(frozen=True, eq=False, kw_only=True)
class FreshMatcher(TrainedMatcher):
    """A matcher whose products change without retraining. Each step returns a new matcher.

    A matcher that was saved or loaded also writes the step to its folder, as a segment. Processes
    that write to one folder take turns, and each continues from the folder's current state.
    """

    model: MatchSetModel
    fresh: Fresh | None = None  # what changed since the training
    removed_before: Strings = field(default_factory=lambda: Strings.of([]))  # the last refresh

    def add(self, products: Catalog | TableSource, *, version: int | None = None) -> Self:
        """Return a matcher that also has these products, which may be new or replace known ones.

        They are found at once, by their words and by the meaning of their titles. Attributes must
        be among the model's. Attributes that are not given become null. An empty title keeps the
        old one. With a `version`, a product that already has this version or a later one is
        skipped.
        """
        catalog = _to_catalog(products, requires_title=True)
        return self._change(adding(catalog, version))

    def update(self, products: Catalog | TableSource, *, version: int | None = None) -> Self:
        """Return a matcher with new titles or attributes of these products.

        Changing only attributes is cheapest. Cells that are empty or not given change nothing. To
        delete an attribute, use `add`, or `upsert` with None. Ids that the model does not know are
        skipped.
        """
        return self._change(updating(_to_catalog(products), version))

    def remove(self, ids: Iterable[str], *, version: int | None = None) -> Self:
        """Return a matcher without these products. Ids that the model does not know are skipped."""
        return self._change(removing(Strings.of(ids, "ids"), version))

    def upsert(
        self,
        products: Sequence[Upsert],
        *,
        remove: Sequence[str] = (),
        version: int | None = None,
    ) -> Self:
        """Add or change single products, and remove others, in one step; returns a new matcher."""
        return self._change(upserting(products, remove, version))

    def merge(self) -> Self:
        """Fold all changes in the folder into one segment. No answer changes."""
        if self._home is None:
            return self
        with locked(Path(self._home)):
            return self._now(self._home)._fold()  # noqa: SLF001

    def refresh(self, log: Log | TableSource, old_log: Log | TableSource | None = None) -> Self:
        """Learn from the log since the training, far cheaper than by a full training.

        It also learns all changes of products. Earlier pairs come from `old_log`, or else from the
        past queries that the model was allowed to keep. `refreshed` says what was kept, what was
        solved again, and whether a full training is due. Other processes may change products
        meanwhile. If another training replaced the folder, it is a ValueError.
        """
        self.check_refresh()
        new = log if isinstance(log, Log) else read_log(log)
        old = read_log(old_log) if not isinstance(old_log, Log | None) else old_log
        if self._home is None:
            learned = self._learn(new, old)
            changes = self._changed().rebase(learned.products, learned.n_queries_of, self.products)
            return learned._with_fresh(changes)  # noqa: SLF001
        folder = Path(self._home)
        with locked(folder):
            verify_folder(folder)
            now, base = self._now(self._home), identify_base(folder)
        learned = now._learn(new, old)  # noqa: SLF001

        def finish(staged: Path) -> None:
            if identify_base(folder) != base:
                raise ValueError(f"{folder}: was replaced meanwhile; refresh it again")
            last = now._now(str(folder))  # noqa: SLF001
            changes = last._changed().rebase(  # noqa: SLF001
                learned.products, learned.n_queries_of, last.products
            )
            write_segment(staged, store_fresh(changes))

        learned._save(folder, overwrite=True, finish=finish)  # noqa: SLF001
        return type(self).load(folder)

    def check_refresh(self) -> None:
        """Raise a ValueError if it cannot be refreshed, before a long log is read."""
        if self.products.titles is None:
            raise ValueError(
                "to be refreshed, a match set must be trained with a catalog; got one without"
            )

    @property
    def refreshed(self) -> RefreshReport | None:
        """What the last refresh learned, and whether a full training is due; None without one."""
        stored = self.provenance.get("refresh")
        return None if stored is None else RefreshReport.from_dict(stored)

    @property
    def removed(self) -> Strings:
        """Ids of the products that were removed from it since the training."""
        lately = super().removed if self.fresh is None else self.fresh.changes.removed
        ids = Strings.concatenate([self.removed_before, lately])
        ids = ids.take(ids.factorize()[1])
        return ids.take(np.flatnonzero(self.products.index_of(ids) < 0))  # some came again

    @property
    def freshness(self) -> Freshness:
        """How much its products have changed since the training."""
        n_gone = 0
        if self.fresh is not None and self.model.added is not None:
            shown = self.model.added.shown[: len(self.fresh.products)]
            n_gone = int(np.count_nonzero(shown < 0))
        return measure(self.fresh, len(self.products), n_gone)

    def _change(self, step: Step) -> Self:
        """The same match set after a step, which its folder holds too, if it has one."""
        if self._home is None:
            self._require_titles()
            fresh, later = self._changed().take(step)
            return self._with_fresh(fresh) if len(later) else self
        with locked(Path(self._home)):
            return self._now(self._home)._write(step)  # noqa: SLF001

    def _learn(self, log: Log, old_log: Log | None) -> Self:
        """A match set as trained on the products of now, which has learned from a log."""
        trained, changes = self._trained(), self._changed().changes
        last_day = self.provenance.get("last_day")
        is_gone = apply_changes(trained.products, changes).is_gone
        label_of = np.where(is_gone, -1, np.cumsum(~is_gone) - 1).astype(np.int32)
        known = Known(
            self.model,
            self.vectorizer,
            self.products,
            searched_texts(self.products),
            label_of,
            trained.n_queries_of,
            self.config,
            self.config.events or ({} if self.summary is None else self.summary.events),
            None if last_day is None else date.fromisoformat(last_day),
        )
        threads = count_threads(self.config.learn.threads)
        found = refresh_match_set(known, log, old_log, self.refreshed, threads=threads)
        return replace(
            self,
            model=found.model,
            vectorizer=found.vectorizer,
            n_queries_of=found.n_queries_of,
            query_hashes=np.union1d(self.query_hashes, found.query_hashes),
            removed_before=self.removed.take(self.removed.argsort()),
            provenance={
                **self.provenance,
                "refresh": asdict(found.report),
                "last_day": None if found.last_day is None else found.last_day.isoformat(),
            },
            fresh=None,
        )

    def _fold(self) -> Self:
        return self if self.fresh is None else self._publish(self.fresh)

    def _write(self, step: Step) -> Self:
        self._require_titles()
        fresh, later = self._changed().take(step)
        if len(later) == 0:
            sweep_segments(Path(str(self._home)))
            return self
        is_many = count_segments(str(self._home)) >= _MOST_SEGMENTS
        return self._publish(fresh, None if is_many else later)

    def _changed(self) -> Fresh:
        """What changed so far."""
        return self.fresh or Fresh(self.products, self.n_queries_of, nothing(self.products))

    def _now(self, folder: str) -> Self:
        """What its folder holds by now: another process may have written to it."""
        return self if self._source == (folder, checksum(folder)) else type(self).load(folder)

    def _publish(self, fresh: Fresh, later: Changes | None = None) -> Self:
        """With these changes, in its folder too; what cannot be searched is not written.

        The folder gets what came `later` than what it has, or else all changes.
        """
        folder = Path(str(self._home))
        changed = self._with_fresh(fresh)
        section = changed._store_fresh(later)  # noqa: SLF001
        write_segment(folder, section, instead_of_all=later is None)
        return changed._settle(str(folder), checksum(folder))  # noqa: SLF001

    def _require_titles(self) -> None:
        if self.products.titles is None or not {"lexical", "towers"} & set(self.model.parts):
            rule = "to change products, a match set must have titles, and a lexical index or towers"
            titles = "no titles" if self.products.titles is None else "titles"
            raise ValueError(f"{rule}; got {titles}, and {', '.join(self.model.parts)}")

    def _store_fresh(self, later: Changes | None = None) -> Section:
        """Its changes, or those of the last step, with what was read of their titles."""
        if self.fresh is None:
            raise RuntimeError("products must have changed")
        section, added = store_fresh(self.fresh, later), self.model.added
        if added is None:
            return section
        n, products = len(self.products), (later or self.fresh.changes).products
        ids = self.products.ids.take(np.arange(n - len(added.rows), n))
        titles = store_title_rows(added.rows, ids, products)
        return Section(section.header, {**section.arrays, **titles})

    def _read_fresh(self, sections: Sequence[Section]) -> Self:
        """The same training, with these changes, the oldest first."""
        trained, towers = self._trained(), self.model.towers
        fresh = read_fresh(sections, trained.products, trained.n_queries_of)
        n_lists = None if towers is None else towers.lists.n_lists
        read = read_title_rows(
            sections,
            n_features=self.vectorizer.n_features,
            n_lists=n_lists,
            n_trained=len(trained.products),
        )
        return self._with_fresh(fresh, read)

    def _with_fresh(self, fresh: Fresh, read: Sequence[TitleRows] = ()) -> Self:
        """With these changes instead of those that it has, of which some titles were read."""
        trained = self._trained()
        present, added = apply_changes(trained.products, fresh.changes), None
        n_added = len(present.added[0])
        if n_added or present.is_gone.any():  # else parts answer as they are
            added = index_added(
                present.added,
                self.vectorizer,
                lexical=self.model.lexical,
                towers=self.model.towers,
                is_warm=self.model.popularity > 0,
                is_gone=present.is_gone,
                before=[*read] if self.model.added is None else [self.model.added.rows, *read],
                threads=1 if n_added <= _FEW else count_threads(None),
            )
        kept = trained.n_queries_of[~present.is_gone]
        return replace(
            self,
            model=replace(self.model, added=added),
            products=present.products,
            n_queries_of=np.concatenate([kept, np.zeros(n_added, np.int64)]),
            fresh=fresh,
        )

    def _trained(self) -> Self:
        """As it was before products changed."""
        if self.fresh is None:
            return self
        return replace(
            self,
            model=replace(self.model, added=None),
            products=self.fresh.products,
            n_queries_of=self.fresh.n_queries_of,
            fresh=None,
        )


def _to_catalog(products: Catalog | TableSource, *, requires_title: bool = False) -> Catalog:
    if isinstance(products, Catalog):
        return products
    return read_catalog(products, requires_title=requires_title)
