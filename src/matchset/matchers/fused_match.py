"""Union: which products do several matchers have together?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import ExportColumn
from matchset.data.catalog import Column
from matchset.matchers.base import DEFAULT_K, check_k
from matchset.matchers.display import MOST_ROWS, Grid, printable
from matchset.matchers.fusion_rules import FusionRule, fuse
from matchset.matchers.match import Hit, Match, Matches
from matchset.matrices import Csr, Ids
from matchset.model.products import Products
from matchset.strings import Strings


def unite(parts: Sequence[Products]) -> tuple[Products, tuple[Ids, ...]]:
    """The products of all parts, and the label there of each label of each part.

    The first part's products keep their labels. A product has the title and the attributes of the
    first part that tells them; an attribute has the kind that it has in the first part with it.
    """
    together = Strings.concatenate([part.ids for part in parts])
    group, first = together.factorize()  # groups are numbered as they appear
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
    group, first = together.factorize()
    distinct = together.take(first)
    order = distinct.argsort()
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


@dataclass(frozen=True, eq=False, repr=False)
class FusedMatch(Match):
    """A match that knows which matchers found each product."""

    names: tuple[str, ...]  # of the matchers
    rank_table: Ids  # from 1, 0 where a matcher did not find a product, (n, n_matchers)

    @property
    def ranks(self) -> tuple[dict[str, int], ...]:
        """Of each product the rank, from 1, at each matcher that found it."""
        return _name_ranks(self.names, self.rank_table)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> FusedMatch: ...
    def __getitem__(self, index: int | slice) -> Hit | FusedMatch:
        found = super().__getitem__(index)
        if isinstance(found, Hit):
            return found
        table = self.rank_table[index]
        return FusedMatch(
            found.query, found.labels, found.scores, found.products, self.names, table
        )

    def __reduce__(self) -> tuple[type[FusedMatch], tuple[Any, ...]]:
        _, fields = super().__reduce__()
        return FusedMatch, (*fields, self.names, self.rank_table)

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict per product, with its `ranks`: the name of a matcher to its rank there."""
        rows = super().to_dicts()
        return [row | {"ranks": ranks} for row, ranks in zip(rows, self.ranks, strict=True)]

    def _columns(self) -> list[ExportColumn]:
        return [*super()._columns(), *_rank_columns(self.names, self.rank_table)]

    def _grid(self) -> Grid:
        grid = super()._grid()
        cells = [
            [str(rank or "") for rank in ranks] for ranks in self.rank_table[:MOST_ROWS].tolist()
        ]
        headers = [*grid.headers[:3], *map(printable, self.names), *grid.headers[3:]]
        rows = [[*row[:3], *more, *row[3:]] for row, more in zip(grid.rows, cells, strict=True)]
        return Grid(grid.title, headers, rows, grid.n_rows)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FusedMatches(Matches):
    """The fused answers to a batch of queries."""

    # `super` names its class: with slots there is a second one, which a bare `super()` misses.

    names: tuple[str, ...]  # of the matchers
    rank_table: Ids  # from 1, 0 where a matcher did not find a product, (n_entries, n_matchers)

    @overload
    def __getitem__(self, index: int) -> FusedMatch: ...
    @overload
    def __getitem__(self, index: slice) -> FusedMatches: ...
    def __getitem__(self, index: int | slice) -> FusedMatch | FusedMatches:
        if isinstance(index, slice):
            return self._take(np.arange(len(self))[index])
        match = super(FusedMatches, self).__getitem__(index)
        begin, end = self.found.indptr[index % len(self) :][:2].tolist()
        table = self.rank_table[begin:end]
        return FusedMatch(
            match.query, match.labels, match.scores, match.products, self.names, table
        )

    def __reduce__(self) -> tuple[type[FusedMatches], tuple[Any, ...]]:
        _, fields = super(FusedMatches, self).__reduce__()
        return FusedMatches, (*fields, self.names, self.rank_table)

    def _columns(self) -> list[ExportColumn]:
        return [*super(FusedMatches, self)._columns(), *_rank_columns(self.names, self.rank_table)]

    def _select(self, entries: NDArray[np.int64]) -> FusedMatches:
        kept = super(FusedMatches, self)._select(entries)
        table = self.rank_table[entries]
        return FusedMatches(kept.queries, kept.found, kept.products, self.names, table)

    def _take(self, rows: NDArray[np.int64]) -> FusedMatches:
        taken = super(FusedMatches, self)._take(rows)
        sizes = np.diff(self.found.indptr)[rows]
        shift = np.repeat(self.found.indptr[rows] - taken.found.indptr[:-1], sizes)
        table = self.rank_table[np.arange(len(shift)) + shift]
        return FusedMatches(taken.queries, taken.found, taken.products, self.names, table)


def fuse_matches(
    matches: Mapping[str, Match], k: int = DEFAULT_K, rule: FusionRule | None = None
) -> FusedMatch:
    """One match of several of the same query, by name; products are the same where their ids are.

    They may be of any products: `Match.of(query, ids, scores)` makes one of what another search
    engine found. Of equal scores the product that comes first, match by match, goes first.
    """
    if not matches:
        raise ValueError("matches must be at least one; got none")
    most, given = check_k(k), list(matches.values())
    asked = list(dict.fromkeys(match.query for match in given))
    if len(asked) > 1:
        raise ValueError(f"matches must be of the same query; got {', '.join(map(repr, asked))}")
    label = {product: n for n, product in enumerate(dict.fromkeys(p for m in given for p in m.ids))}
    rankings = [
        Csr(
            np.array([0, len(match)], dtype=np.int64),
            np.array([label[product] for product in match.ids], dtype=np.int32),
            match.scores,
            len(label),
        )
        for match in given
    ]
    depth = max(1, *map(len, given))
    query, queries = asked[0], Strings.of(asked)
    fused = fuse(rankings, most, rule or FusionRule(), depth=depth, queries=queries)
    labels, scores = fused.found.indices, fused.found.data
    products = Products(Strings.of(list(label)), _titles_of(given, label))
    return FusedMatch(query, labels, scores, products, tuple(matches), fused.ranks)


def _titles_of(given: Sequence[Match], label: Mapping[str, int]) -> Strings | None:
    """The first title of each product that is not empty; None where no match has any."""
    if all(match.titles is None for match in given):
        return None
    titles = [""] * len(label)
    for match in given:
        for product, title in zip(match.ids, match.titles or (), strict=False):
            titles[label[product]] = titles[label[product]] or title
    return Strings.of(titles)


def _name_ranks(names: Sequence[str], table: Ids) -> tuple[dict[str, int], ...]:
    return tuple(
        {name: rank for name, rank in zip(names, ranks, strict=True) if rank}
        for ranks in table.tolist()
    )


def _rank_columns(names: Sequence[str], table: Ids) -> list[ExportColumn]:
    return [
        ExportColumn(f"rank_{name}", np.ascontiguousarray(column), is_null=column == 0)
        for name, column in zip(names, table.T, strict=True)
    ]
