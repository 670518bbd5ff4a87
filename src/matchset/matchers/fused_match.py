"""Fused match: which matchers found each product, and at what rank?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import ExportColumn
from matchset.matchers.base import DEFAULT_K, check_k
from matchset.matchers.display import MOST_ROWS, Grid, printable
from matchset.matchers.fusion_rules import FusionRule, fuse
from matchset.matchers.match import Hit, Match, Matches
from matchset.matrices import Csr, Ids, take_entries
from matchset.model.products import Products
from matchset.strings import Strings


@dataclass(frozen=True, eq=False, repr=False)
class FusedMatch(Match):
    """A match with the rank of each product at each matcher."""

    names: tuple[str, ...]  # of the matchers
    rank_table: Ids  # from 1, 0 where a matcher did not find a product, (n, n_matchers)

    @property
    def ranks(self) -> tuple[dict[str, int], ...]:
        """For each product its rank, from 1, at each matcher that found it."""
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

    # `super` needs its class: with slots the dataclass is a second class, which `super()` misses.

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
        table = self.rank_table[take_entries(self.found.indptr, rows)[0]]
        return FusedMatches(taken.queries, taken.found, taken.products, self.names, table)


def fuse_matches(
    matches: Mapping[str, Match], k: int = DEFAULT_K, rule: FusionRule | None = None
) -> FusedMatch:
    """Fuse several matches of one query, by name. Products with the same id are the same product.

    `Match.of(query, ids, scores)` makes a match of another search engine's results. Products with
    equal scores keep the order in which they come, match by match. A product that occurs twice in a
    match keeps its first position there.
    """
    if not matches:
        raise ValueError("there must be at least one match; got none")
    k, given = check_k(k), list(matches.values())
    distinct = list(dict.fromkeys(match.query for match in given))
    if len(distinct) > 1:
        found = ", ".join(map(repr, distinct))
        raise ValueError(f"matches must be of the same query; got {found}")
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
    query, queries = distinct[0], Strings.of(distinct)
    fused = fuse(rankings, k, rule or FusionRule(), depth=depth, queries=queries)
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
