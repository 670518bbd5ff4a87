"""Match: which products answer, how well, and in what form are they wanted?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from matchset.data.arrow import ExportColumn, export_columns
from matchset.matchers import show, tables
from matchset.matrices import Csr, Floats, Ids
from matchset.model.products import Products
from matchset.strings import Strings

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    from rich.table import Table


class Hit(NamedTuple):
    """One product of a match."""

    id: str
    score: float
    title: str | None  # None where the matcher has no catalogue


@dataclass(frozen=True, eq=False, repr=False)
class Match(Sequence[Hit]):
    """The products that answer one query, best first.

    It holds labels and scores, and shares the products with its matcher, so that making one takes a
    microsecond; ids and titles become Python strings when they are asked for, once.
    """

    query: str
    labels: Ids  # (n,)
    scores: Floats  # falling, (n,)
    products: Products

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """Product ids, best first."""
        return tuple(self.products.ids.decode(self.labels))

    @cached_property
    def titles(self) -> tuple[str, ...] | None:
        """Titles, empty where a product has none; None where there is no catalogue."""
        titles = self.products.titles
        return None if titles is None else tuple(titles.decode(self.labels))

    def __len__(self) -> int:
        return len(self.labels)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Match: ...
    def __getitem__(self, index: int | slice) -> Hit | Match:
        if isinstance(index, slice):
            labels, scores = self.labels[index], self.scores[index]
            return Match(self.query, np.ascontiguousarray(labels), scores, self.products)
        title = None if self.titles is None else self.titles[index]
        return Hit(self.ids[index], float(self.scores[index]), title)

    def __iter__(self) -> Iterator[Hit]:
        titles = self.titles or (None,) * len(self)
        return map(Hit, self.ids, self.scores.tolist(), titles)

    def __eq__(self, other: object) -> bool:
        """Whether the same query got the same products with the same scores."""
        if not isinstance(other, Match):
            return NotImplemented
        is_alike = self.query == other.query and np.array_equal(self.scores, other.scores)
        return is_alike and self.ids == other.ids

    __hash__ = None  # type: ignore[assignment]  # holds arrays

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict per product: product_id, score and, if there is a catalogue, title."""
        if self.titles is None:
            return [{"product_id": hit.id, "score": hit.score} for hit in self]
        return [{"product_id": hit.id, "score": hit.score, "title": hit.title} for hit in self]

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas frame with the columns of `to_dicts`."""
        return tables.to_pandas(_columns(self.labels, self.scores, self.products))

    def to_polars(self) -> polars.DataFrame:
        """A polars frame with the columns of `to_dicts`."""
        return tables.to_polars(self)

    def to_arrow(self) -> pyarrow.Table:
        """A pyarrow table with the columns of `to_dicts`."""
        return tables.to_arrow(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export to Arrow, with the columns of `to_dicts`."""
        return export_columns(_columns(self.labels, self.scores, self.products), len(self))

    def __repr__(self) -> str:
        return show.plain_match(self)

    def __rich__(self) -> Table:
        """Show it in a terminal: texts are never taken for markup."""
        return show.rich_match(self)

    def _repr_html_(self) -> str:
        return show.html_match(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Matches(Sequence[Match]):
    """The answers to a batch of queries, in the order of the queries.

    Three flat arrays hold them all (`found`: offsets, labels, scores); each `Match` is a view.
    """

    queries: Strings  # (n_queries,)
    found: Csr  # labels and scores of each query, best first, (n_queries, n_products)
    products: Products

    def __len__(self) -> int:
        return len(self.found)

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> Matches: ...
    def __getitem__(self, index: int | slice) -> Match | Matches:
        if isinstance(index, slice):
            return self._slice(np.arange(len(self))[index])
        query = self.queries[index]  # refuses places outside
        begin, end = self.found.offsets[index % len(self) :][:2].tolist()
        labels, scores = self.found.columns[begin:end], self.found.values[begin:end]
        return Match(query, labels, scores, self.products)

    def __eq__(self, other: object) -> bool:
        """Whether the same queries got the same products with the same scores."""
        if not isinstance(other, Matches):
            return NotImplemented
        return len(self) == len(other) and all(map(Match.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]  # holds arrays

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dict per query and product: query, product_id, score and perhaps title."""
        return [{"query": match.query, **row} for match in self for row in match.to_dicts()]

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas frame with the columns of `to_dicts`."""
        return tables.to_pandas(self._columns())

    def to_polars(self) -> polars.DataFrame:
        """A polars frame with the columns of `to_dicts`."""
        return tables.to_polars(self)

    def to_arrow(self) -> pyarrow.Table:
        """A pyarrow table with the columns of `to_dicts`."""
        return tables.to_arrow(self)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export to Arrow, with the columns of `to_dicts`."""
        return export_columns(self._columns(), len(self.found.columns))

    def __repr__(self) -> str:
        return show.plain_matches(self)

    def __rich__(self) -> Table:
        """Show it in a terminal: texts are never taken for markup."""
        return show.rich_matches(self)

    def _repr_html_(self) -> str:
        return show.html_matches(self)

    def _columns(self) -> list[ExportColumn]:
        query = ExportColumn("query", texts=self.queries.take(self.found.row_of_entry))
        return [query, *_columns(self.found.columns, self.found.values, self.products)]

    def _slice(self, rows: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Matches:
        sizes = np.diff(self.found.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        # Entry of each kept place: its row's first, plus how far it stands behind it.
        entries = np.repeat(self.found.offsets[rows] - offsets[:-1], sizes) + np.arange(offsets[-1])
        columns, values = self.found.columns[entries], self.found.values[entries]
        found = Csr(offsets, columns, values, self.found.width)
        return Matches(self.queries.take(rows), found, self.products)


def _columns(labels: Ids, scores: Floats, products: Products) -> list[ExportColumn]:
    places = labels.astype(np.int64)
    columns = [
        ExportColumn("product_id", texts=products.ids.take(places)),
        ExportColumn("score", scores),
    ]
    if products.titles is not None:
        columns.append(ExportColumn("title", texts=products.titles.take(places)))
    return columns
