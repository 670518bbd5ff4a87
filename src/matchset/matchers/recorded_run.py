"""Recorded run: how does a search engine of one's own take part?

A run is what an engine answered to some queries: from a file, from rows in memory, or by asking a
callable now. As a matcher it is evaluated, compared and fused like our own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from matchset.data.run_reader import read_run_rows
from matchset.data.tables import TableSource
from matchset.filters.filter import Filter
from matchset.matchers.base import DEFAULT_K, Matcher, Retriever, check_k
from matchset.matchers.match import Match, Matches
from matchset.matrices import Csr, positions_of
from matchset.model.products import Products
from matchset.strings import Strings
from matchset.text import normalize_strings

# Takes queries and k; gives for each query product ids, best first, or pairs of id and score.
Engine: TypeAlias = Callable[[list[str], int], "Matches | Iterable[Iterable[Any]]"]


@dataclass(frozen=True, eq=False)
class RecordedRun(Matcher):
    """The recorded answers of another engine. Queries that were not recorded get no products.

    It holds hashes of the queries, not their text.
    """

    kind: ClassVar[str] = "run"
    products: Products
    query_hashes: NDArray[np.uint64]  # of normalized queries, ascending, (n_queries,)
    answers: Csr  # queries x products, best first

    def __post_init__(self) -> None:
        if len(self.answers) != len(self.query_hashes):
            n = len(self.answers)
            raise ValueError(f"{len(self.query_hashes):,} queries must have answers; got {n:,}")
        labels, n = self.answers.indices, len(self.products)
        if (np.diff(self.answers.indptr) < 0).any():
            raise ValueError("offsets of answers must ascend")
        if len(labels) and not 0 <= labels.min() <= labels.max() < n:
            raise ValueError(f"labels must be of {n:,} products")

    @classmethod
    def of(cls, matches: Matches) -> Self:
        """Record matches, such as those of `Matches.of`.

        Queries that are equal after normalization are one query, and the first of them counts.
        """
        hashes = normalize_strings(matches.queries).hashes()
        distinct, first = np.unique(hashes, return_index=True)
        return cls(matches.products, distinct, matches.found.take(first))

    def has(self, queries: Strings) -> NDArray[np.bool_]:
        """Return which queries were recorded, (n_queries,)."""
        return np.isin(normalize_strings(queries).hashes(), self.query_hashes)

    def _search(self, queries: Strings, k: int, where: Filter | None) -> Csr:
        hashes = normalize_strings(queries).hashes()
        known = np.flatnonzero(np.isin(hashes, self.query_hashes))
        answers = self.answers.take(np.searchsorted(self.query_hashes, hashes[known]))
        row, entries = known[answers.row_of_entry], np.arange(len(answers.indices))
        if where is not None:
            entries = np.flatnonzero(where.allowed[answers.indices])
        rows = np.arange(len(queries) + 1)
        entries = entries[positions_of(np.searchsorted(row[entries], rows)) < k]
        offsets = np.searchsorted(row[entries], rows)
        return Csr(offsets, answers.indices[entries], answers.data[entries], answers.n_cols)


def read_run(
    source: TableSource,
    *,
    query: str | None = None,
    product: str | None = None,
    rank: str | None = None,
    score: str | None = None,
) -> RecordedRun:
    """Read the answers of another engine: one row per query and product, with its rank or score.

    `source` is anything that `read_log` accepts. Rank 1 is the best. A table with both columns is
    ordered by rank.
    """
    rows = read_run_rows(source, query=query, product=product, rank=rank, score=score)
    return RecordedRun.of(Matches.of(rows.queries, rows.products, rows.scores, ranks=rows.ranks))


def record_run(engine: Engine, queries: Iterable[str], k: int = DEFAULT_K) -> RecordedRun:
    """Query an engine now, and keep its answers."""
    return RecordedRun.of(as_retriever(engine).match(list(queries), k))


@dataclass(frozen=True, slots=True)
class CallableRetriever:
    """A callable that answers queries, in the form of a matcher."""

    engine: Engine

    def match(self, queries: Any, k: int = DEFAULT_K, *, where: object = None) -> Any:
        """Return the answer to one query or to several."""
        if where is not None:
            raise ValueError("a callable takes no filter; got where")
        if isinstance(queries, str):
            return self.match([queries], k)[0]
        asked, depth = list(queries), check_k(k)
        found = self.engine(asked, depth) if asked else []
        if isinstance(found, Matches):
            return found
        answers = [list(each)[:depth] for each in found]
        if len(answers) != len(asked):
            rule = f"an engine must give one answer per query, {len(asked):,}"
            raise ValueError(f"{rule}; got {len(answers):,}")
        return _to_matches(asked, answers)


def _to_matches(queries: list[str], answers: list[list[Any]]) -> Matches:
    matches = []
    for query, answer in zip(queries, answers, strict=True):
        pairs = [(each, 1.0 / rank) if isinstance(each, str) else each
                 for rank, each in enumerate(answer, start=1)]  # fmt: skip
        ids, scores = zip(*pairs, strict=True) if pairs else ((), ())
        matches.append(Match.of(query, ids, scores))
    return Matches.join(matches)


def as_retriever(source: Retriever | Engine) -> Retriever:
    """Return a matcher as it is, a callable in its form."""
    if isinstance(source, Retriever):
        return source
    if callable(source):
        return cast("Retriever", CallableRetriever(source))
    raise TypeError(f"a matcher must match or be callable; got {type(source).__name__}")
