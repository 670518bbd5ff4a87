"""Union: which products do several matchers have together?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from matchset.data.catalog import Column
from matchset.matrices import Ids
from matchset.model.products import Products
from matchset.strings import Strings


def unite(parts: Sequence[Products]) -> tuple[Products, tuple[Ids, ...]]:
    """The products of all parts, and the label there of each label of each part.

    The first part's products keep their labels. A product has the title and the attributes of the
    first part that tells them; an attribute has the kind that it has in the first part with it.
    """
    together = Strings.concatenate([part.ids for part in parts])
    group, first = together.group()  # groups are numbered as they appear
    bounds = np.cumsum([len(part) for part in parts])[:-1]
    labels = tuple(np.split(group, bounds))
    is_all = len(first) == len(parts[0])
    ids = parts[0].ids if is_all else together.take(first)
    attributes = {}
    for name in dict.fromkeys(name for part in parts for name in part.attributes):
        owners = [place for place, part in enumerate(parts) if name in part.attributes]
        if is_all and owners[0] == 0:
            attributes[name] = parts[0].attributes[name]
            continue
        columns = [parts[place].attributes[name] for place in owners]
        attributes[name] = _unite_columns(columns, [labels[place] for place in owners], len(first))
    titles = parts[0].titles if is_all else None
    if titles is None:
        titles = _unite_titles(parts, labels, len(first))
    return Products(ids, titles, attributes), labels


def _unite_titles(
    parts: Sequence[Products], labels: Sequence[Ids], n_products: int
) -> Strings | None:
    """The first title of each product that is not empty."""
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
    for titles, label in reversed(owners):  # so that the first has the last word
        end -= len(titles)
        told = np.flatnonzero(titles.lengths > 0)
        chosen[label[told]] = end + told
    return together.take(chosen)


def _unite_columns(columns: Sequence[Column], labels: Sequence[Ids], n_products: int) -> Column:
    """The first value of each product that is not null; columns of another kind are left out."""
    kind, dtype = columns[0].kind, columns[0].values.dtype
    alike = [each for each in zip(columns, labels, strict=True) if each[0].kind == kind]
    nothing = Column(kind, np.empty(0, dtype)).take(np.full(n_products, -1, dtype=np.int64))
    values = nothing.values
    texts = [column.categories for column, _ in alike if column.categories is not None]
    together = Strings.concatenate(texts)
    group, first = together.group()
    distinct = together.take(first)
    order = distinct.order()
    code = np.argsort(order)[group]  # of each category, after sorting
    begin = sum(map(len, texts))
    for column, label in reversed(alike):  # so that the first has the last word
        told = np.flatnonzero(~column.is_null)
        value = column.values[told]
        if column.categories is not None:
            begin -= len(column.categories)
            value = code[begin + value]
        values[label[told]] = value
    return Column(kind, values, distinct.take(order) if texts else None)
