"""Fresh products: how does a step change what a match set knows of its products?

A step is what a user asks for: products to add, update or remove. It is told by product ids, so it
means the same whatever came before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Catalog
from matchset.model.changes import (
    NO_VERSION,
    Changes,
    Versions,
    find_present,
    fold_changes,
    is_same_row,
    removed,
    upserted,
)
from matchset.model.given_rows import known_rows, to_rows
from matchset.model.products import Products, join_products
from matchset.model.title_rows import KeptTitles
from matchset.strings import Strings

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Delta:
    """Changes of a match set, as they are kept: those of a step, or all since the training."""

    changes: Changes
    titles: KeptTitles | None  # what was read of new titles
    generation: int  # after it
    changed: str  # when it was made
    is_whole: bool  # whether it counts instead of all before it


@dataclass(frozen=True, slots=True, eq=False)
class Fresh:
    """What a match set was trained with, and what changed since."""

    products: Products  # of the training
    n_queries_of: NDArray[np.int64]  # of the training
    changes: Changes
    generation: int = 0  # steps since the training
    changed: str = ""  # when the last step was taken

    def take(self, step: Step) -> tuple[Fresh, Changes]:
        """After a step, and what it adds to the changes."""
        current = find_present(step.ids, self.products, self.changes)
        later = self.changes.on_time(step(current)).news(current)
        if len(later) == 0:
            return self, later
        changes = fold_changes([self.changes, later], self.products)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        after = replace(self, changes=changes, generation=self.generation + 1, changed=now)
        return after, later

    def rebase(
        self, products: Products, n_queries_of: NDArray[np.int64], current: Products
    ) -> Fresh:
        """Return what is left of the changes once products were learned; `current` are there now.

        Versions are remembered: a change that comes too late still does.
        """
        changes = self.changes
        gone = products.ids.take(np.flatnonzero(current.index_of(products.ids) < 0))
        is_told = (changes.versions != NO_VERSION) | ~is_same_row(products, changes.products)
        left = Changes(
            join_products([changes.products], np.flatnonzero(is_told)),
            changes.removed,
            changes.versions[is_told],
            changes.removed_versions,
        )
        first = removed(gone, number_versions(None, len(gone)), products)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return Fresh(
            products, n_queries_of, fold_changes([first, left], products), self.generation + 1, now
        )


@dataclass(frozen=True, slots=True)
class Freshness:
    """How far products have moved from what was trained, or learned by the last refresh."""

    generation: int  # steps since the training; a refresh is one
    changed: str | None  # when the last step was taken
    added: int  # products that were not trained
    updated: int  # trained ones with other attributes
    retitled: int  # trained ones with another title: what was learned of them counts no more
    removed: int  # trained ones that are gone
    share_added: float  # of all products
    share_removed: float  # of the trained ones

    def __str__(self) -> str:
        return (
            f"generation {self.generation:,}: {self.added:,} added ({self.share_added:.1%}), "
            f"{self.updated:,} updated, {self.retitled:,} retitled, "
            f"{self.removed:,} removed ({self.share_removed:.1%}) "
            f"since it was trained or refreshed"
        )


def measure(fresh: Fresh | None, n_products: int, n_gone: int) -> Freshness:
    """Return how far `n_products` products have moved from those that were trained.

    `n_gone` trained ones are removed or have another title.
    """
    if fresh is None:
        return Freshness(0, None, 0, 0, 0, 0, 0.0, 0.0)
    trained, changes = fresh.products, fresh.changes
    is_trained = trained.index_of(changes.products.ids) >= 0
    n_changed = int(np.count_nonzero(is_trained & ~is_same_row(trained, changes.products)))
    n_removed = int(np.count_nonzero(trained.index_of(changes.removed) >= 0))
    n_added, n_retitled = int(np.count_nonzero(~is_trained)), n_gone - n_removed
    return Freshness(
        fresh.generation,
        fresh.changed or None,
        n_added,
        n_changed - n_retitled,
        n_retitled,
        n_removed,
        n_added / max(1, n_products),
        n_removed / max(1, len(trained)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What a user asks for, told of some ids."""

    ids: Strings  # distinct
    make: Callable[[Products], Changes]  # of those of these products that are there, as they are

    def __call__(self, current: Products) -> Changes:
        """Return the changes that it makes."""
        return self.make(current)


def adding(catalog: Catalog, version: int | None) -> Step:
    """Return the step that adds products, or puts them in the place of those with their ids."""
    versions = number_versions(version, len(catalog))

    def add(current: Products) -> Changes:
        return upserted(to_rows(catalog, current), versions)

    return Step(catalog.ids, add)


def updating(catalog: Catalog, version: int | None) -> Step:
    """Return the step that changes what a catalog tells of products that are there."""
    number = number_versions(version, 1)

    def update(current: Products) -> Changes:
        rows, n_unknown = known_rows(catalog, current)
        if n_unknown:
            logger.warning("products left out, as they are not in the model: %s", f"{n_unknown:,}")
        return upserted(rows, np.repeat(number, len(rows)))

    return Step(catalog.ids, update)


def removing(ids: Strings, version: int | None) -> Step:
    """Return the step that removes products."""
    distinct = ids.take(ids.factorize()[1])
    versions = number_versions(version, len(distinct))

    def remove(current: Products) -> Changes:
        n_unknown = int(np.count_nonzero(current.index_of(distinct) < 0))
        if n_unknown:
            logger.warning("products to remove that are not in the model: %s", f"{n_unknown:,}")
        return removed(distinct, versions, current)

    return Step(distinct, remove)


def number_versions(version: int | None, n: int) -> Versions:
    """Return the version of each of n changes."""
    if version is not None and (isinstance(version, bool) or not hasattr(version, "__index__")):
        raise TypeError(f"version must be an int; got {type(version).__name__}")
    if version is not None and not 0 <= version < 2**63:
        raise ValueError(f"version must be from 0 to 2^63 - 1; got {version}")
    return np.full(n, NO_VERSION if version is None else version, dtype=np.int64)


def join_deltas(
    deltas: Sequence[Delta], products: Products, n_queries_of: NDArray[np.int64]
) -> Fresh:
    """Return the changes since a training, oldest first; a ValueError if they do not fit it."""
    first = max(i for i, delta in enumerate(deltas) if i == 0 or delta.is_whole)
    deltas = deltas[first:]
    wanted = {name: column.kind for name, column in products.attributes.items()}
    for delta in deltas:
        found = {name: one.kind for name, one in delta.changes.products.attributes.items()}
        if found != wanted:
            raise ValueError(f"changed products must have {wanted}; got {found}")
    last = deltas[-1]
    changes = fold_changes([delta.changes for delta in deltas], products)
    return Fresh(products, n_queries_of, changes, last.generation, last.changed)
