"""Match: which products answer a query, with what scores, and in which forms can they be had?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import islice
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from matchset.data.arrow import ExportColumn
from matchset.data.frames import Tabular
from matchset.matchers.display import MOST_ROWS, Grid, Shown, printable
from matchset.matchers.ranks import Ranks
from matchset.matrices import Csr, Floats, Ids, offsets_of, positions_of, take_entries
from matchset.model.products import Products
from matchset.strings import Strings


class Hit(NamedTuple):
    """One product of a match."""

    id: str
    score: float
    title: str | None  # empty where the product has none, None without a catalog


@dataclass(frozen=True, eq=False, repr=False)
class Match(Shown, Tabular, Sequence[Hit]):
    """The products that answer one query, best first.

    It holds labels and scores, and shares the products with its matcher, so creating one takes a
    microsecond. Ids and titles become Python strings on first use.
    """

    query: str
    labels: Ids  # (n,)
    scores: Floats  # falling, (n,)
    products: Products
    rank_table: Ranks | None = field(default=None, kw_only=True)  # of a fusion

    @classmethod
    def of(
        cls,
        query: str,
        ids: Sequence[str],
        scores: ArrayLike,
        titles: Sequence[str] | None = None,
    ) -> Match:
        """Make a match of products from elsewhere, such as another search engine or a server.

        A product that occurs twice, as a parent of several variants may, keeps its first position.
        """
        texts = None if titles is None else Strings.of(titles, "titles")
        known = Products(Strings.of(ids, "ids"), texts)
        values = np.asarray(scores, dtype=np.float32)
        if values.shape != (len(known),):
            rule = f"{len(known)} ids must have as many scores"
            raise ValueError(f"{rule}; got an array of shape {values.shape}")
        first = np.sort(known.ids.factorize()[1])
        if len(first) < len(known):
            known, values = known.take(first), values[first]
        return cls(query, np.arange(len(known), dtype=np.int32), values, known)

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Product ids, best first."""
        return self.products.ids.decode(self.labels)

    @cached_property
    def titles(self) -> tuple[str, ...] | None:
        """Titles, empty where a product has none; None without a catalog."""
        titles = self.products.titles
        return None if titles is None else titles.decode(self.labels)

    @property
    def ranks(self) -> tuple[dict[str, int], ...] | None:
        """Each product's rank at each matcher that found it; None unless matches were fused."""
        return None if self.rank_table is None else self.rank_table.to_dicts()

    def __len__(self) -> int:
        return len(self.labels)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Match: ...
    def __getitem__(self, index: int | slice) -> Hit | Match:
        if isinstance(index, slice):
            labels = np.ascontiguousarray(self.labels[index])
            ranks = None if self.rank_table is None else self.rank_table[index]
            return Match(self.query, labels, self.scores[index], self.products, rank_table=ranks)
        title = None if self.titles is None else self.titles[index]
        return Hit(self.ids[index], float(self.scores[index]), title)

    def __iter__(self) -> Iterator[Hit]:
        titles = self.titles if self.titles is not None else [None] * len(self)
        return map(Hit, self.ids, self.scores.tolist(), titles)

    def __eq__(self, other: object) -> bool:
        """Return whether the same query got the same products with the same scores."""
        if not isinstance(other, Match):
            return NotImplemented
        is_alike = self.query == other.query and np.array_equal(self.scores, other.scores)
        return is_alike and self.ids == other.ids

    __hash__ = None  # type: ignore[assignment]  # holds arrays

    def __reduce__(self) -> tuple[Callable[..., Match], tuple[Any, ...]]:
        """Pickle the products of this match alone, not the catalog."""
        labels = np.arange(len(self), dtype=np.int32)
        fields = self.query, labels, self.scores, self.products.take(self.labels)
        return partial(Match, rank_table=self.rank_table), fields

    def at_least(
        self, min_score: float | None = None, *, min_relative: float | None = None
    ) -> Match:
        """Keep the products with at least this score, and at least this share of the best."""
        best = self.scores[:1].max(initial=0.0)
        least = least_scores([best], min_score, min_relative)  # NumPy 1 rounds a scalar to 32 bits
        return self[: int(np.count_nonzero(self.scores >= least))]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a dict per product: product_id, score, title with a catalog, ranks if fused."""
        columns: dict[str, Sequence[Any] | None] = {
            "product_id": self.ids,
            "score": self.scores.tolist(),
            "title": self.titles,
            "ranks": self.ranks,
        }
        present = {name: values for name, values in columns.items() if values is not None}
        rows = zip(*present.values(), strict=True)
        return [dict(zip(present, row, strict=True)) for row in rows]

    def _columns(self) -> list[ExportColumn]:
        return _columns(self.labels, self.scores, self.products, self.rank_table)

    def _grid(self) -> Grid:
        names = () if self.rank_table is None else self.rank_table.names
        ranks = self.ranks or ({},) * len(self)
        headers = ["", "score", "product", *map(printable, names)]
        rows = [
            [str(n), f"{hit.score:.4g}", printable(hit.id), *(str(at.get(x, "")) for x in names)]
            for n, (hit, at) in enumerate(zip(self[:MOST_ROWS], ranks, strict=False), start=1)
        ]
        if self.titles is not None:
            headers.append("title")
            rows = [[*row, printable(t)] for row, t in zip(rows, self.titles, strict=False)]
        title = f"Match({printable(self.query)!r}, {len(self):,} products)"
        return Grid(title, headers, rows, len(self))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Matches(Shown, Tabular, Sequence[Match]):
    """The answers to a batch of queries, in the order of the queries.

    They are held in flat arrays; each `Match` is a view.
    """

    queries: Strings  # (n_queries,)
    found: Csr  # labels and scores of each query, best first, (n_queries, n_products)
    products: Products
    rank_table: Ranks | None = field(default=None, kw_only=True)  # of a fusion, (n_entries, ...)

    @classmethod
    def of(
        cls,
        queries: Iterable[str],
        products: Iterable[str],
        scores: ArrayLike | None = None,
        *,
        ranks: ArrayLike | None = None,
    ) -> Matches:
        """Make matches of another engine's answers, from rows of query, product, and score or rank.

        Rank 1 is the best. Without ranks and scores, the rows of a query are in ranked order.
        Queries keep the order of their first rows. If a product occurs twice for a query, its best
        position counts.
        """
        texts, ids = Strings.of(queries, "queries"), Strings.of(products, "products")
        if scores is not None and ranks is not None:
            raise ValueError("matches must have either scores or ranks; got both")
        given = scores if ranks is None else ranks
        values = np.arange(len(ids), 0, -1.0) if given is None else np.asarray(given, np.float64)
        if not len(texts) == len(ids) == len(values):
            got = f"{len(texts):,} queries, {len(ids):,} products, {len(values):,} values"
            raise ValueError(f"matches must have one query, product and value per row; got {got}")
        if not np.isfinite(values).all():
            raise ValueError("scores and ranks must be finite; got one that is not")
        strength = values if ranks is None else -values
        row, first_row = texts.factorize()
        label, first_label = ids.factorize()
        order = np.lexsort([label, -strength, row])
        kept = order[np.sort(np.unique(_pair(row, label)[order], return_index=True)[1])]
        offsets = np.searchsorted(row[kept], np.arange(len(first_row) + 1))
        if scores is None:  # any falling scores do
            strength = np.empty(len(ids))
            strength[kept] = 1.0 / (1 + positions_of(offsets))
        found = Csr(offsets, label[kept], strength[kept].astype(np.float32), len(first_label))
        return cls(texts.take(first_row), found, Products(ids.take(first_label)))

    @classmethod
    def join(cls, matches: Sequence[Match]) -> Matches:
        """Make a batch of single matches."""
        ids = [product for match in matches for product in match.ids]
        label, first = Strings.of(ids).factorize()
        offsets = offsets_of([len(match) for match in matches])
        scores = np.concatenate([match.scores for match in matches]) if matches else np.empty(0)
        found = Csr(offsets, label, scores.astype(np.float32), len(first))
        queries = Strings.of([match.query for match in matches])
        return cls(queries, found, Products(Strings.of(ids).take(first)))

    def __len__(self) -> int:
        return len(self.found)

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> Matches: ...
    def __getitem__(self, index: int | slice) -> Match | Matches:
        if isinstance(index, slice):
            return self._take(np.arange(len(self))[index])
        query = self.queries[index]  # raises an IndexError where there is none
        begin, end = self.found.indptr[index % len(self) :][:2].tolist()
        labels, scores = self.found.indices[begin:end], self.found.data[begin:end]
        ranks = None if self.rank_table is None else self.rank_table[begin:end]
        return Match(query, labels, scores, self.products, rank_table=ranks)

    def __eq__(self, other: object) -> bool:
        """Return whether the same queries got the same products with the same scores."""
        if not isinstance(other, Matches):
            return NotImplemented
        return len(self) == len(other) and all(map(Match.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]  # holds arrays

    def __reduce__(self) -> tuple[Callable[..., Matches], tuple[Any, ...]]:
        """Pickle the products of these matches alone, not the catalog."""
        used, labels = np.unique(self.found.indices, return_inverse=True)
        found = Csr(self.found.indptr, labels.astype(np.int32), self.found.data, len(used))
        fields = self.queries, found, self.products.take(used)
        return partial(Matches, rank_table=self.rank_table), fields

    def at_least(
        self, min_score: float | None = None, *, min_relative: float | None = None
    ) -> Matches:
        """Keep the products with at least this score, and share of their query's best."""
        begin = self.found.indptr[:-1][np.diff(self.found.indptr) > 0]
        best = np.zeros(len(self), dtype=np.float32)
        best[np.diff(self.found.indptr) > 0] = self.found.data[begin]
        least = least_scores(best, min_score, min_relative)
        return self._select(np.flatnonzero(self.found.data >= least[self.found.row_of_entry]))

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a dict per query and product: the query, then as those of a match."""
        return [{"query": match.query, **row} for match in self for row in match.to_dicts()]

    def _columns(self) -> list[ExportColumn]:
        query = self.queries.take(self.found.row_of_entry)
        found = _columns(self.found.indices, self.found.data, self.products, self.rank_table)
        return [ExportColumn("query", texts=query), *found]

    def _grid(self) -> Grid:
        rows = [
            [
                str(number),
                printable(match.query),
                str(len(match)),
                printable(" ".join(match[:10].ids)),
            ]
            for number, match in enumerate(islice(self, MOST_ROWS))
        ]
        title = f"Matches({len(self):,} queries)"
        return Grid(title, ["", "query", "n", "products"], rows, len(self))

    def _select(self, entries: NDArray[np.int64]) -> Matches:
        """Keep some of the products; entries ascend."""
        offsets = np.searchsorted(entries, self.found.indptr)
        labels, scores = self.found.indices[entries], self.found.data[entries]
        found = Csr(offsets, labels, scores, self.found.n_cols)
        ranks = None if self.rank_table is None else self.rank_table[entries]
        return Matches(self.queries, found, self.products, rank_table=ranks)

    def _take(self, rows: NDArray[np.int64]) -> Matches:
        queries, found, ranks = self.queries.take(rows), self.found.take(rows), self.rank_table
        if ranks is not None:
            ranks = ranks[take_entries(self.found.indptr, rows)[0]]
        return Matches(queries, found, self.products, rank_table=ranks)


def _pair(row: NDArray[np.int32], label: NDArray[np.int32]) -> NDArray[np.int64]:
    """Make one number of each pair of a query and a product."""
    return row.astype(np.int64) << 32 | label


def least_scores(
    best: ArrayLike, min_score: float | None, min_relative: float | None
) -> NDArray[np.float64]:
    """Return the score that a product needs in each match, given the best of each.

    A share of a best score of zero or less would mean nothing: such matches are kept whole.
    """
    if min_score is not None and np.isnan(min_score):
        raise ValueError("min_score must be a number; got nan")
    if min_relative is not None and not 0 <= min_relative <= 1:
        raise ValueError(f"min_relative must be from 0 to 1; got {min_relative}")
    best = np.asarray(best, dtype=np.float64)
    share = np.where(best > 0, best * (min_relative or 0.0), -np.inf)
    if min_relative is None:
        share = np.full(best.shape, -np.inf)
    if min_score is None:
        return share
    with np.errstate(over="ignore"):
        return np.maximum(share, np.float32(min_score))  # scores have 32 bits: 0.01 finds itself


def _columns(
    labels: Ids, scores: Floats, products: Products, ranks: Ranks | None
) -> list[ExportColumn]:
    indices = labels.astype(np.int64)
    columns = [
        ExportColumn("product_id", texts=products.ids.take(indices)),
        ExportColumn("score", scores),
    ]
    if products.titles is not None:
        columns.append(ExportColumn("title", texts=products.titles.take(indices)))
    return columns if ranks is None else [*columns, *ranks.to_columns()]
