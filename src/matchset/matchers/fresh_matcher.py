"""Fresh matcher: how do products come, change and go in a match set?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import date
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from matchset.config import TrainConfig, count_threads
from matchset.data.catalog import Catalog
from matchset.data.catalog_reader import read_catalog
from matchset.data.log import Log
from matchset.data.log_reader import read_log
from matchset.data.tables import TableSource
from matchset.features.vectorizer import Vectorizer
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
    Delta,
    Fresh,
    Freshness,
    Step,
    adding,
    join_deltas,
    measure,
    removing,
    updating,
)
from matchset.model.match_set_model import MatchSetModel
from matchset.model.products import Products
from matchset.model.title_rows import KeptTitles, TitleRows
from matchset.model.upserts import Upsert, upserting
from matchset.strings import Strings

_FEW = 32  # titles that are not worth more than one thread


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class KeptTraining:
    """What is kept of a training."""

    model: MatchSetModel
    vectorizer: Vectorizer
    products: Products
    config: TrainConfig
    query_hashes: NDArray[np.uint64]
    n_queries_of: NDArray[np.int64]
    provenance: Mapping[str, Any]
    removed_before: Strings


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class KeptMatchSet(KeptTraining):
    """What is kept of a match set."""

    changes: Delta | None


@dataclass(frozen=True, eq=False, kw_only=True)
class FreshMatcher(TrainedMatcher):
    """A matcher whose products change without retraining. Each step returns a new matcher.

    Nothing is written: `open_writer` keeps changes beside the model's file.
    """

    model: MatchSetModel
    fresh: Fresh | None = None  # what changed since the training
    removed_before: Strings = field(default_factory=lambda: Strings.of([]))  # the last refresh

    def add(self, products: Catalog | TableSource, *, version: int | None = None) -> Self:
        """Return a matcher that also has these products, which may be new or replace known ones.

        They are found at once, by their words and by the meaning of their titles. Attributes must
        be among the model's. A column that is not given changes nothing, a null deletes a value;
        an empty title keeps the old one. With a `version`, a product that already has this version
        or a later one is skipped.
        """
        catalog = to_catalog(products, requires_title=True)
        return self._change(adding(catalog, version))

    def update(self, products: Catalog | TableSource, *, version: int | None = None) -> Self:
        """Return a matcher with new titles or attributes of these products.

        Changing only attributes is cheapest. Columns and cells mean what they do for `add`. Ids
        that the model does not know are skipped.
        """
        return self._change(updating(to_catalog(products), version))

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

    def refresh(self, log: Log | TableSource, old_log: Log | TableSource | None = None) -> Self:
        """Return a matcher that learned from the log since, far cheaper than by a full training.

        It also learns all changes of products. Earlier pairs come from `old_log`, or else from the
        past queries that the model was allowed to keep. `refreshed` says what was kept, what was
        solved again, and whether a full training is due.
        """
        return self.learn(log, old_log).rebase(self)

    def learn(self, log: Log | TableSource, old_log: Log | TableSource | None = None) -> Self:
        """Return the match set as trained on the products of now, which has learned from a log."""
        self.check_refresh()
        new = log if isinstance(log, Log) else read_log(log)
        old = read_log(old_log) if not isinstance(old_log, Log | None) else old_log
        return self._learn(new, old)

    def rebase(self, before: Self) -> Self:
        """Return what was learned with the changes of products `before` that it has not learned."""
        changes = before._changed().rebase(self.products, self.n_queries_of, before.products)
        return self._with_fresh(changes)

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
        return self.take(step)[0]

    def take(self, step: Step) -> tuple[Self, Delta | None]:
        """Return the match set after a step, and what the step changed, if it did."""
        self._require_titles()
        fresh, later = self._changed().take(step)
        if len(later) == 0:
            return self, None
        after = self._with_fresh(fresh)
        return after, after._make_delta(later)  # noqa: SLF001

    def all_changes(self) -> Delta | None:
        """Return all changes since the training as one; None without any."""
        return None if self.fresh is None else self._make_delta(self.fresh.changes, is_whole=True)

    def _make_delta(self, changes: Changes, *, is_whole: bool = False) -> Delta:
        fresh, added, titles = self._changed(), self.model.added, None
        if added is not None:
            n = len(self.products)
            ids = self.products.ids.take(np.arange(n - len(added.rows), n))
            titles = KeptTitles.of(added.rows, ids, changes)
        return Delta(changes, titles, fresh.generation, fresh.changed, is_whole)

    def _learn(self, log: Log, old_log: Log | None) -> Self:
        """Return a match set as trained on the products of now, which has learned from a log."""
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

    def _changed(self) -> Fresh:
        """Return what changed so far."""
        return self.fresh or Fresh(self.products, self.n_queries_of, nothing(self.products))

    def _require_titles(self) -> None:
        if self.products.titles is None or not {"lexical", "towers"} & set(self.model.parts):
            rule = "to change products, a match set must have titles, and a lexical index or towers"
            titles = "no titles" if self.products.titles is None else "titles"
            raise ValueError(f"{rule}; got {titles}, and {', '.join(self.model.parts)}")

    def to_stored(self) -> KeptMatchSet:
        """Return what is kept of it: the training, and what changed since."""
        trained, changes = self._trained(), self.list_deltas()
        kept = {each.name: getattr(trained, each.name) for each in fields(KeptTraining)}
        return KeptMatchSet(**kept, changes=next(iter(changes), None))

    @classmethod
    def from_stored(cls, stored: KeptMatchSet) -> Self:
        """Return the match set of what was kept."""
        trained = cls(**{each.name: getattr(stored, each.name) for each in fields(KeptTraining)})
        return trained if stored.changes is None else trained.with_deltas([stored.changes])

    def list_deltas(self) -> list[Delta]:
        """Return its changes of products since the training, as one if there are any."""
        changes = self.all_changes()
        return [] if changes is None else [changes]

    def with_deltas(self, deltas: Sequence[Delta]) -> Self:
        """Return the same training with these changes, oldest first, instead of those it has."""
        trained, towers = self._trained(), self.model.towers
        if not deltas:
            return trained
        rows = [
            delta.titles.read(
                delta.changes,
                n_features=self.vectorizer.n_features,
                n_lists=None if towers is None else towers.lists.n_lists,
                n_trained=len(trained.products),
            )
            for delta in deltas
            if delta.titles is not None
        ]
        fresh = join_deltas(deltas, trained.products, trained.n_queries_of)
        return self._with_fresh(fresh, rows)

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


def to_catalog(products: Catalog | TableSource, *, requires_title: bool = False) -> Catalog:
    """Read a table of products."""
    if isinstance(products, Catalog):
        return products
    return read_catalog(products, requires_title=requires_title)
