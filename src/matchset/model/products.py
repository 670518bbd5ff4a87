"""Products: which product is which label?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Catalog, Column
from matchset.filters.filter import Filter, FilterCache, Where
from matchset.storage.sections import Part, read_strings, store_strings, under
from matchset.strings import Strings

COLUMN_TYPES = {"text": np.int32, "number": np.float64, "boolean": np.int8, "date": np.int32}


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """Products in the order of their labels: the product of label 7 stands at place 7.

    Outside there are product ids, inside labels; this is the one map between them.
    """

    ids: Strings  # distinct, (n_products,)
    titles: Strings | None = (
        None  # empty where a product has none, (n_products,); None: no catalogue
    )
    attributes: Mapping[str, Column] = field(default_factory=dict)
    _filters: FilterCache = field(init=False, repr=False, default_factory=FilterCache)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        titles = "" if self.titles is None else ", with titles"
        kinds = ", ".join(f"{name} ({column.kind})" for name, column in self.attributes.items())
        return f"Products({len(self):,} products{titles}{f'; {kinds}' if kinds else ''})"

    def filter(self, what: Where) -> Filter:
        """A filter of these products (see `make_filter`); the last expressions are remembered."""
        return self._filters.make(self, what)

    def has_filter(self, expression: str) -> bool:
        """Whether `filter` has the filter of an expression at hand."""
        return expression in self._filters

    def labels(self, ids: Iterable[str], what: str = "ids") -> NDArray[np.int64]:
        """Label of each product id, -1 where there is no such product; errors call them `what`."""
        wanted = Strings.of(ids, what)
        group, first = wanted.factorize()
        # Products are looked for among the wanted, which are few: a smaller table is faster.
        place = wanted.take(first).index_of(self.ids)
        label = np.full(len(first), -1, dtype=np.int64)
        found = np.flatnonzero(place >= 0)
        label[place[found]] = found
        return label[group]


def make_products(
    known: Strings, catalog: Catalog | None = None, *, with_unseen: bool = False
) -> Products:
    """The products of a log, such as `Positives.products`, with what the catalogue tells of them.

    Labels follow the order of `known`. A product that is not in the catalogue has an empty title
    and null attributes. `with_unseen` appends the products that are in the catalogue alone, in its
    order; without it they are left out.
    """
    if catalog is None:
        return Products(known)
    places = catalog.ids.index_of(known)  # place in the catalogue of each label, -1 if none
    ids = known
    if with_unseen:
        is_unseen = np.ones(len(catalog), dtype=np.bool_)
        is_unseen[places[places >= 0]] = False
        unseen = np.flatnonzero(is_unseen)
        ids = Strings.concatenate([known, catalog.ids.take(unseen)])
        places = np.concatenate([places, unseen])
    attributes = {name: column.take(places) for name, column in catalog.attributes.items()}
    return Products(ids, _take_or_empty(catalog.titles, places), attributes)


def _take_or_empty(texts: Strings, places: NDArray[np.int64]) -> Strings:
    """The texts at `places`, empty where a place is -1."""
    padded = Strings(texts.data, np.append(texts.offsets, texts.offsets[-1]))
    return padded.take(np.where(places < 0, len(texts), places))


def store_products(products: Products) -> Part:
    """Product ids, titles and attributes as a part."""
    arrays = under("ids", store_strings(products.ids))
    if products.titles is not None:
        arrays |= under("titles", store_strings(products.titles))
    columns = []
    for number, (name, column) in enumerate(products.attributes.items()):
        columns.append({"name": name, "kind": column.kind})
        arrays[f"column{number}.values"] = column.values
        if column.categories is not None:
            arrays |= under(f"column{number}.categories", store_strings(column.categories))
    return Part({"has_titles": products.titles is not None, "columns": columns}, arrays)


def read_products(part: Part) -> Products:
    """Products from their part; every array must have one entry per product."""
    ids = read_strings(part.within("ids"))
    titles = read_strings(part.within("titles")) if part.header["has_titles"] else None
    columns = {
        str(stored["name"]): _read_column(stored["kind"], part.within(f"column{number}"))
        for number, stored in enumerate(part.header["columns"])
    }
    lengths = {len(column.values) for column in columns.values()}
    lengths |= {len(ids)} if titles is None else {len(ids), len(titles)}
    if len(lengths) > 1:
        raise ValueError(f"titles and attributes must be as many as ids; got {sorted(lengths)}")
    return Products(ids, titles, columns)


def _read_column(kind: str, arrays: Mapping[str, NDArray[Any]]) -> Column:
    values = arrays["values"]
    if values.dtype != COLUMN_TYPES[kind] or values.ndim != 1:
        raise ValueError(f"{kind} attributes must be {COLUMN_TYPES[kind]}; got {values.dtype}")
    if kind != "text":
        return Column(kind, values)  # type: ignore[arg-type]  # a key of COLUMN_TYPES
    categories = read_strings(Part(arrays=arrays).within("categories"))
    return Column("text", values, categories)
