"""Products: which label does a product have, and what is known about it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import eq

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.data.catalog import Catalog, Column
from matchset.filters.filter import Filter, FilterCache, Where
from matchset.matrices import Ids
from matchset.storage.codec import Picklable
from matchset.strings import Strings

COLUMN_TYPES = {"text": np.int32, "number": np.float64, "boolean": np.int8, "date": np.int32}


@dataclass(frozen=True, eq=False)
class Products(Picklable):
    """Products in the order of their labels: a label is the index of a product.

    Outside there are product ids, inside labels; this is the one map between them.
    """

    ids: Strings  # distinct, (n_products,)
    titles: Strings | None = None  # empty where a product has none, (n_products,)
    attributes: Mapping[str, Column] = field(default_factory=dict)
    more_text: Strings | None = None  # searched beside the title, never shown, (n_products,)
    _filters: FilterCache = field(init=False, repr=False, default_factory=FilterCache)

    def __post_init__(self) -> None:
        texts = [each for each in (self.titles, self.more_text) if each is not None]
        columns = self.attributes.values()
        lengths = {len(self.ids), *map(len, texts), *(len(each.values) for each in columns)}
        if len(lengths) > 1:
            rule = "ids, titles and attributes must be equally many"
            raise ValueError(f"{rule}; got {sorted(lengths)}")
        for name, column in self.attributes.items():
            wanted = np.dtype(COLUMN_TYPES[column.kind])
            if column.values.dtype != wanted or column.values.ndim != 1:
                rule = f"{name} must be {wanted} for a {column.kind}"
                raise ValueError(f"{rule}; got {column.values.dtype}")

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        titles = "" if self.titles is None else ", with titles"
        kinds = ", ".join(f"{name} ({column.kind})" for name, column in self.attributes.items())
        return f"Products({len(self):,} products{titles}{f'; {kinds}' if kinds else ''})"

    def filter(self, what: Where) -> Filter:
        """Return a filter of these products (see `make_filter`); recent expressions are cached."""
        return self._filters.make(self, what)

    def has_filter(self, expression: str) -> bool:
        """Return whether the filter of an expression is cached."""
        return expression in self._filters

    def index_of(self, ids: Sequence[str]) -> Ids:
        """Label of each product id, -1 where there is no such product, (n_ids,).

        The first call makes a table of 12 bytes a product; later ones take microseconds.
        """
        wanted = Strings.of(ids, "ids")
        if len(wanted) == 0 or len(self) == 0:
            return np.full(len(wanted), -1, dtype=np.int32)
        hashes, labels = self._by_hash
        hash_of = wanted.hashes()
        position = np.minimum(np.searchsorted(hashes, hash_of), len(self) - 1)
        found = labels[position]
        given = wanted.decode(np.arange(len(wanted), dtype=np.int32))
        is_same = list(map(eq, self.ids.decode(found), given))
        found = np.where(is_same, found, np.int32(-1))
        # Different ids may have the same hash, of which the table gives the first.
        clash = np.flatnonzero((found < 0) & (hashes[position] == hash_of))
        if len(clash):
            found[clash] = self.ids.index_of(wanted.take(clash))
        return found

    def titles_of(self, ids: Sequence[str]) -> list[str]:
        """Title of each product id, empty where there is no such product, or it has none."""
        if self.titles is None or len(self) == 0:
            return [""] * len(ids)
        labels = self.index_of(ids)
        titles = self.titles.decode(np.maximum(labels, 0))
        return [title if label >= 0 else "" for label, title in zip(labels, titles, strict=True)]

    def take(self, labels: NDArray[np.integer]) -> Products:
        """Ids and titles of some of the products, which get labels from 0 on."""
        titles = None if self.titles is None else self.titles.take(labels)
        return Products(self.ids.take(labels), titles)

    @cached_property
    def texts(self) -> _native.ProductTexts:
        """Ids and titles in the form that JSON is written from."""
        titles = None if self.titles is None else (self.titles.data, self.titles.offsets)
        return _native.ProductTexts((self.ids.data, self.ids.offsets), titles)

    @cached_property
    def _by_hash(self) -> tuple[NDArray[np.uint64], Ids]:
        """Hashes of the ids, ascending, and the label of each."""
        hashes = self.ids.hashes()
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order.astype(np.int32)


def make_products(
    known: Strings, catalog: Catalog | None = None, *, with_unseen: bool = False
) -> Products:
    """Return the products of a log, with titles and attributes of a catalog.

    Labels follow the order of `known`. A product that is not in the catalog has an empty title and
    null attributes. `with_unseen` appends the products that only the catalog has, in its order.
    """
    if catalog is None:
        return Products(known)
    indices = catalog.ids.index_of(known)  # into the catalog, -1 where it has no such product
    ids = known
    if with_unseen:
        is_unseen = np.ones(len(catalog), dtype=np.bool_)
        is_unseen[indices[indices >= 0]] = False
        unseen = np.flatnonzero(is_unseen)
        ids = Strings.concatenate([known, catalog.ids.take(unseen)])
        indices = np.concatenate([indices, unseen])
    attributes = {name: column.take(indices) for name, column in catalog.attributes.items()}
    titles, more_text = (
        None if texts is None else take_or_empty(texts, indices)
        for texts in (catalog.titles, catalog.more_text)
    )
    return Products(ids, titles, attributes, more_text)


def take_or_empty(texts: Strings, indices: NDArray[np.int64]) -> Strings:
    """Return the texts at `indices`, empty where an index is -1."""
    padded = Strings(texts.data, np.append(texts.offsets, texts.offsets[-1]))
    return padded.take(np.where(indices < 0, len(texts), indices))


def join_products(parts: Sequence[Products], rows: NDArray[np.int64]) -> Products:
    """Rows of several parts, counted on from part to part; all have the same attributes."""
    attributes = {
        name: append_columns([part.attributes[name] for part in parts]).take(rows)
        for name in parts[0].attributes
    }
    titles, more_text = (
        Strings.concatenate(texts).take(rows) if len(texts) == len(parts) else None
        for texts in (
            [part.titles for part in parts if part.titles is not None],
            [part.more_text for part in parts if part.more_text is not None],
        )
    )
    ids = Strings.concatenate([part.ids for part in parts]).take(rows)
    return Products(ids, titles, attributes, more_text)


def append_columns(columns: Sequence[Column]) -> Column:
    """Return the values of columns of one kind, one column after another."""
    kind, values = columns[0].kind, [column.values for column in columns]
    if len(columns) == 1:
        return columns[0]
    texts = [column.categories for column in columns if column.categories is not None]
    if not texts:
        return Column(kind, np.concatenate(values))
    distinct, codes = _unite_categories(texts)
    parts = [
        each if np.array_equal(code, np.arange(len(code))) else np.append(code, -1)[each]
        for each, code in zip(values, codes, strict=True)
    ]
    return Column(kind, np.concatenate(parts, dtype=np.int32, casting="same_kind"), distinct)


def _unite_categories(texts: Sequence[Strings]) -> tuple[Strings, list[NDArray[np.int32]]]:
    """Return all categories in their order, and the new code of each code of each part."""
    together = Strings.concatenate(texts)
    group, first = together.factorize()
    distinct = together.take(first)
    order = distinct.argsort()
    code = np.argsort(order)[group].astype(np.int32)
    return distinct.take(order), np.split(code, np.cumsum([len(each) for each in texts])[:-1])


def unite(texts: Sequence[Strings], is_second: NDArray[np.bool_]) -> Strings:
    """Of two texts each the first or the second one."""
    rows = np.arange(len(is_second), dtype=np.int64)
    return Strings.concatenate(texts).take(np.where(is_second, rows + len(texts[0]), rows))


def unite_products(parts: Sequence[Products]) -> tuple[Products, tuple[Ids, ...]]:
    """Return the products of all parts, and for each part the new label of each of its labels.

    The products of the first part keep their labels. A product gets its title and each attribute
    from the first part that has one; an attribute is of the kind that it has in the first part with
    that attribute.
    """
    together = Strings.concatenate([part.ids for part in parts])
    group, first = together.factorize()  # groups are numbered in order of appearance
    bounds = np.cumsum([len(part) for part in parts])[:-1]
    labels = tuple(np.split(group, bounds))
    is_all = len(first) == len(parts[0])
    ids = parts[0].ids if is_all else together.take(first)
    attributes = {}
    for name in dict.fromkeys(name for part in parts for name in part.attributes):
        owners = [index for index, part in enumerate(parts) if name in part.attributes]
        if is_all and owners[0] == 0:
            attributes[name] = parts[0].attributes[name]
            continue
        columns = [parts[index].attributes[name] for index in owners]
        attributes[name] = unite_columns(columns, [labels[index] for index in owners], len(first))
    titles = parts[0].titles if is_all else None
    if titles is None:
        titles = _unite_titles(parts, labels, len(first))
    return Products(ids, titles, attributes), labels


def _unite_titles(
    parts: Sequence[Products], labels: Sequence[Ids], n_products: int
) -> Strings | None:
    """Return the first title of each product that is not empty."""
    owners = [
        (part.titles, label)
        for part, label in zip(parts, labels, strict=True)
        if part.titles is not None
    ]
    if not owners:
        return None
    together = Strings.concatenate([Strings.of([""]), *(titles for titles, _ in owners)])
    chosen = np.zeros(n_products, dtype=np.int64)  # the empty text
    end = len(together)
    for titles, label in reversed(owners):  # so that the first part wins
        end -= len(titles)
        known = np.flatnonzero(titles.lengths > 0)
        chosen[label[known]] = end + known
    return together.take(chosen)


def unite_columns(columns: Sequence[Column], labels: Sequence[Ids], n_products: int) -> Column:
    """Return each product's first value that is not null; ignore columns of another kind."""
    kind, dtype = columns[0].kind, columns[0].values.dtype
    alike = [each for each in zip(columns, labels, strict=True) if each[0].kind == kind]
    nothing = Column(kind, np.empty(0, dtype)).take(np.full(n_products, -1, dtype=np.int64))
    values = nothing.values
    texts = [column.categories for column, _ in alike if column.categories is not None]
    distinct, codes = _unite_categories(texts) if texts else (None, [])
    for number, (column, label) in reversed(list(enumerate(alike))):  # so that the first part wins
        known = np.flatnonzero(~column.is_null)
        value = column.values[known]
        values[label[known]] = codes[number][value] if codes else value
    return Column(kind, values, distinct)


def texts_of(texts: Strings | None) -> Strings:
    """Texts that must be there."""
    if texts is None:
        raise TypeError("products must have titles; got none")
    return texts
