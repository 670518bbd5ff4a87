"""Fresh products: how does a step change what a match set knows of its products?

A step is what a user asks for: products to add, update or remove. It is told by product ids, so it
means the same whatever came before.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Catalog
from matchset.model.changes import (
    NO_VERSION,
    Changes,
    Versions,
    overlay,
    read_changes,
    store_changes,
    to_rows,
)
from matchset.model.products import Products
from matchset.storage.sections import Section
from matchset.strings import Strings

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Fresh:
    """What a match set was trained with, and what changed since."""

    products: Products  # of the training
    n_queries_of: NDArray[np.int64]  # of the training
    changes: Changes
    generation: int = 0  # steps since the training
    changed: str = ""  # when the last step was taken

    def take(self, step: Step, current: Products) -> Fresh:
        """After a step; `current` are the products before it."""
        changes = step(self.changes, current, self.products.ids)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return replace(self, changes=changes, generation=self.generation + 1, changed=now)


# Changes so far, products as they are now, ids of the training.
Step: TypeAlias = Callable[[Changes, Products, Strings], Changes]


def adding(catalog: Catalog, version: int | None) -> Step:
    """The step that adds products, or puts them in the place of those with their ids."""
    versions = _number(version, len(catalog))

    def add(changes: Changes, current: Products, _: Strings) -> Changes:
        rows, left_out = to_rows(catalog, current)
        if left_out:
            logger.warning("attributes that the model lacks are left out: %s", ", ".join(left_out))
        return changes.upsert(rows, versions)

    return add


def updating(catalog: Catalog, version: int | None) -> Step:
    """The step that changes what a catalog tells of products that are there."""
    number = _number(version, 1)

    def update(changes: Changes, current: Products, _: Strings) -> Changes:
        rows, n_unknown = overlay(catalog, current)
        if n_unknown:
            logger.warning("%s products that are not in the model are left out", f"{n_unknown:,}")
        return changes.upsert(rows, np.repeat(number, len(rows)))

    return update


def removing(ids: Strings, version: int | None) -> Step:
    """The step that removes products."""
    distinct = ids.take(ids.factorize()[1])
    versions = _number(version, len(distinct))

    def remove(changes: Changes, current: Products, trained: Strings) -> Changes:
        n_unknown = int(np.count_nonzero(current.index_of(distinct) < 0))
        if n_unknown:
            logger.info("%s products to remove are not in the model", f"{n_unknown:,}")
        return changes.remove(distinct, versions, trained)

    return remove


def _number(version: int | None, n: int) -> Versions:
    if version is not None and not 0 <= version < 2**63:
        raise ValueError(f"version must be from 0 to 2^63 - 1; got {version}")
    return np.full(n, NO_VERSION if version is None else version, dtype=np.int64)


def store_fresh(fresh: Fresh) -> Section:
    """The changes as a section; what was trained has sections of its own."""
    section = store_changes(fresh.changes)
    about = {"generation": fresh.generation, "changed": fresh.changed}
    return Section({**section.header, **about}, section.arrays)


def read_fresh(section: Section, products: Products, n_queries_of: NDArray[np.int64]) -> Fresh:
    """The changes since a training; a damaged section is a KeyError, TypeError or ValueError."""
    header, attributes = section.header, set(products.attributes)
    changes = read_changes(section)
    if set(changes.products.attributes) != attributes:
        found = sorted(changes.products.attributes)
        raise ValueError(f"changed products must have {sorted(attributes)}; got {found}")
    generation, changed = int(header["generation"]), str(header["changed"])
    return Fresh(products, n_queries_of, changes, generation, changed)
