"""Changes: which products came, changed or went since the training?

The order of the steps leaves no trace: changes are what differs in the end, by product id. So any
sequence of steps gives the answers of one step with the same end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Column
from matchset.matrices import Ids
from matchset.model.given_rows import drop_unused
from matchset.model.products import (
    Products,
    append_columns,
    join_products,
    take_or_empty,
    texts_of,
)
from matchset.strings import Strings
from matchset.text import clean_markup, normalize_strings

Versions = NDArray[np.int64]
CompareTexts: TypeAlias = Callable[[Strings, Strings], NDArray[np.bool_]]
NO_VERSION = -1  # of a change that came without a number


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Products that came or changed, whole, and ids of those that went; no id twice.

    A version is the largest number that changes of the product came with; a change with a smaller
    number, or with the same, comes too late.
    """

    products: Products  # with titles, and the attributes of the training
    removed: Strings  # ids of the training; others too, where a version must be remembered
    versions: Versions  # of `products`
    removed_versions: Versions  # of `removed`

    def __post_init__(self) -> None:
        for what, versions, n in (
            ("products", self.versions, len(self.products)),
            ("removed products", self.removed_versions, len(self.removed)),
        ):
            if versions.shape != (n,):
                raise ValueError(f"versions of {what} must be {n:,}; got {versions.shape}")
        texts_of(self.products.titles)

    def __len__(self) -> int:
        return len(self.products) + len(self.removed)

    def on_time(self, later: Changes) -> Changes:
        """Later changes without those whose version is not larger than the last one."""
        known = Strings.concatenate([self.products.ids, self.removed])
        last = np.concatenate([self.versions, self.removed_versions, [NO_VERSION]])

        def find(ids: Strings, versions: Versions) -> NDArray[np.int64]:
            is_late = (versions != NO_VERSION) & (versions <= last[known.index_of(ids)])
            return np.flatnonzero(~is_late)

        kept = find(later.products.ids, later.versions)
        return later.take(kept, find(later.removed, later.removed_versions))

    def news(self, current: Products) -> Changes:
        """Without what changes nothing; one with a version stays, as that must be remembered."""
        is_new = (self.versions != NO_VERSION) | ~is_same_row(current, self.products)
        is_there = current.index_of(self.removed) >= 0
        left = np.flatnonzero(is_there | (self.removed_versions != NO_VERSION))
        return self.take(np.flatnonzero(is_new), left)

    def take(self, rows: NDArray[np.int64], removed: NDArray[np.int64]) -> Changes:
        """Some of the products, and some of those that went."""
        return Changes(
            join_products([self.products], rows),
            self.removed.take(removed),
            self.versions[rows],
            self.removed_versions[removed],
        )


def fold_changes(parts: Sequence[Changes], trained: Products) -> Changes:
    """Several changes as one: the last of each product counts, sorted by id."""
    ids = Strings.concatenate([ids for part in parts for ids in (part.products.ids, part.removed)])
    is_there = np.concatenate([_mark(part) for part in parts])
    row = np.where(is_there, np.cumsum(is_there), np.cumsum(~is_there)) - 1  # of its own kind
    group, first = ids.factorize()
    largest = np.full(len(first), NO_VERSION, dtype=np.int64)
    for_all = [v for part in parts for v in (part.versions, part.removed_versions)]
    np.maximum.at(largest, group, np.concatenate(for_all))
    versions = largest[group]
    last = np.empty(len(first), dtype=np.int64)
    last[group] = np.arange(len(group))  # of equal groups, the last one is written last
    last = last[ids.take(last).argsort()]
    kept, gone = last[is_there[last]], last[~is_there[last]]
    is_told = (trained.index_of(ids.take(gone)) >= 0) | (versions[gone] != NO_VERSION)
    gone = gone[is_told]
    products = join_products([part.products for part in parts], row[kept])
    attributes = {name: drop_unused(one) for name, one in products.attributes.items()}
    return Changes(
        replace(products, attributes=attributes), ids.take(gone), versions[kept], versions[gone]
    )


def _mark(changes: Changes) -> NDArray[np.bool_]:
    """True for each product, False for each removed one."""
    return np.arange(len(changes)) < len(changes.products)


def nothing(like: Products) -> Changes:
    """No change; products that come would be like others."""
    none = np.empty(0, np.int64)
    return Changes(join_products([like], none), Strings.of([]), none, none)


def upserted(rows: Products, versions: Versions) -> Changes:
    """Products that come, or take the place of those with their ids."""
    return Changes(rows, Strings.of([]), versions, np.empty(0, np.int64))


def removed(ids: Strings, versions: Versions, like: Products) -> Changes:
    """Products that go."""
    return replace(nothing(like), removed=ids, removed_versions=versions)


@dataclass(frozen=True, slots=True, eq=False)
class Present:
    """The products that are there after some changes."""

    products: Products  # those of the training in their order, then added ones by id
    is_gone: NDArray[np.bool_]  # of those of the training: removed, or with another title
    added: tuple[Strings, ...]  # titles, and the text beside them if there is some


def apply_changes(trained: Products, changes: Changes) -> Present:
    """Trained products with another title are added anew; with other attributes they stay."""
    changed = changes.products
    labels = trained.index_of(changed.ids)
    is_same = is_equal = labels >= 0
    is_equal[is_equal] = _is_same_text(trained, changed, labels, _are_equal)
    if not is_equal[labels >= 0].all():
        is_same = labels >= 0
        is_same[is_same] = _is_same_text(trained, changed, labels, _have_same_words)
    removed = trained.index_of(changes.removed)
    is_gone = np.zeros(len(trained), dtype=np.bool_)
    is_gone[labels[(labels >= 0) & ~is_same]] = True
    is_gone[removed[removed >= 0]] = True
    rows = np.arange(len(trained), dtype=np.int64)
    rows[labels[is_same]] = len(trained) + np.flatnonzero(is_same)
    added = np.flatnonzero(~is_same)
    kept = np.flatnonzero(~is_gone)
    order = np.concatenate([rows[kept], len(trained) + added])
    attributes = {
        name: append_columns([column, changed.attributes[name]]).take(order)
        for name, column in trained.attributes.items()
    }

    def join(before: Strings | None, after: Strings | None) -> Strings | None:
        """Of trained products that are kept, the texts are those of the training, or alike."""
        if before is None or after is None:
            return None
        if np.any(is_same & ~is_equal):
            return Strings.concatenate([before, after]).take(order)
        trained_texts = before.take(kept) if is_gone.any() else before
        return Strings.concatenate([trained_texts, after.take(added)])

    products = Products(
        texts_of(join(trained.ids, changed.ids)),
        join(trained.titles, changed.titles),
        attributes,
        join(trained.more_text, changed.more_text),
    )
    texts = tuple(each.take(added) for each in searched_texts(changed))
    return Present(products, is_gone, texts)


def is_same_row(trained: Products, changed: Products) -> NDArray[np.bool_]:
    """Return which changed products are there, with the same texts and attributes."""
    labels = trained.index_of(changed.ids)
    is_same = labels >= 0
    rows = np.flatnonzero(is_same)
    same = _is_same_text(trained, changed, labels, _are_equal)
    for name, column in changed.attributes.items():
        before = trained.attributes[name].take(labels[rows].astype(np.int64))
        same &= _is_same_value(before, column.take(rows))
    is_same[rows] = same
    return is_same


def _is_same_value(first: Column, second: Column) -> NDArray[np.bool_]:
    is_same = first.values == second.values
    if first.categories is not None and second.categories is not None:
        texts = [
            take_or_empty(first.categories, first.values),
            take_or_empty(second.categories, second.values),
        ]
        group, _ = Strings.concatenate(texts).factorize()
        is_same = group[: len(is_same)] == group[len(is_same) :]
    is_either, is_both = first.is_null | second.is_null, first.is_null & second.is_null
    return np.where(is_either, is_both, is_same)


def find_present(ids: Strings, trained: Products, changes: Changes) -> Products:
    """Return the products with these ids, as they are after some changes; others are left out.

    Takes as long as there are changes and ids, however many products were trained.
    """
    changed = changes.products.ids.index_of(ids)
    label = trained.index_of(ids)
    is_trained = (changed < 0) & (label >= 0) & (changes.removed.index_of(ids) < 0)
    parts = [
        join_products([trained], label[is_trained].astype(np.int64)),
        join_products([changes.products], changed[changed >= 0]),
    ]
    rows = join_products(parts, np.arange(sum(map(len, parts)), dtype=np.int64))
    attributes = {name: drop_unused(one) for name, one in rows.attributes.items()}
    return replace(rows, attributes=attributes)


def _is_same_text(
    trained: Products, changed: Products, labels: Ids, compare: CompareTexts
) -> NDArray[np.bool_]:
    """Return whether each changed product that was trained has the texts that it had then."""
    rows, before = np.flatnonzero(labels >= 0), labels[labels >= 0]
    is_same = np.ones(len(rows), dtype=np.bool_)
    texts = (trained.titles, changed.titles), (trained.more_text, changed.more_text)
    for old, new in texts:
        if old is not None and new is not None:
            is_same &= compare(old.take(before), new.take(rows))
    return is_same


def _have_same_words(first: Strings, second: Strings) -> NDArray[np.bool_]:
    """Return whether texts are the same, but for markup and letter case."""
    is_same = _are_equal(first, second)
    rows = np.flatnonzero(~is_same)
    words = (normalize_strings(clean_markup(texts.take(rows))) for texts in (first, second))
    is_same[rows] = _are_equal(*words)
    return is_same


def _are_equal(first: Strings, second: Strings) -> NDArray[np.bool_]:
    """Return whether texts are the same, each with each."""
    group, _ = Strings.concatenate([first, second]).factorize()
    is_equal: NDArray[np.bool_] = group[: len(first)] == group[len(first) :]
    return is_equal


def searched_texts(products: Products) -> tuple[Strings, ...]:
    """Titles, and the text beside them if there is some."""
    titles, more = texts_of(products.titles), products.more_text
    return (titles,) if more is None else (titles, more)
