"""Held kinds: which queries, words, products and pairs are held back where chance decides?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset.config import TrainConfig
from matchset.data.catalog import Catalog
from matchset.data.log import Log
from matchset.data.positives import positives
from matchset.learn.held_words import HeldWords, choose_words
from matchset.matrices import Csr, from_scipy, offsets_of
from matchset.strings import Strings

KINDS = ("recent days", "new queries", "new words", "new products", "new pairs", "misspelt")
RECENT, QUERIES, WORDS, PRODUCTS, PAIRS, MISSPELT = range(len(KINDS))
ELSEWHERE = 4  # bit of a pair that is positive, but not what this validation query asks for
MOST = {RECENT: 3000, QUERIES: 1500, WORDS: 1000, PRODUCTS: 1000, PAIRS: 1500, MISSPELT: 400}
# Of the positives, at most: a fifth of them in all, with the titles that leave beside words.
_SHARES = {QUERIES: 0.05, WORDS: 0.015, PRODUCTS: 0.03, PAIRS: 0.02}
_LEAST_QUERIES = 300
_FEW = 300  # queries of a kind; where the most recent days hold fewer, others are added
_LEAST_LETTERS = 4  # of a word that is misspelt

Rows = NDArray[np.int64]
_Part = tuple[Strings, Csr, NDArray[Any]]  # queries, their pairs, their kinds


@dataclass(frozen=True, slots=True, eq=False)
class HeldBack:
    """A log without some of its positives, and those positives, by validation query."""

    rest: Log
    queries: Strings  # in an order by chance, (n_queries,)
    pairs: Csr  # (n_queries, n_products); bits: first, second half of the days, ELSEWHERE
    products: Strings  # ids of the columns
    kinds: NDArray[np.uint8]  # of each query, (n_queries,)
    cold: Strings  # ids of products of which no event stays
    left: Strings  # ids of those that leave the catalog as well, and are added later
    n_days: int = 0  # that are held back; none where the seed decided
    shown: Strings | None = None  # products of the whole log; None where it lacks what was shown
    share_unseen: float = 0.0  # products of the catalog that the log lacks

    @property
    def is_by_time(self) -> bool:
        """Whether the most recent days are held back."""
        return self.n_days > 0


class Choice:
    """What is held back from a log by chance, a kind after another; each takes of what is left."""

    def __init__(
        self, log: Log, catalog: Catalog | None, config: TrainConfig, number: int, threads: int
    ):
        self.log, self.catalog, self.config, self.threads = log, catalog, config, threads
        self.rng = np.random.default_rng([config.learn.seed, number])
        self.found = positives(
            log, events=config.events, min_count=config.min_count, threads=threads
        )
        self.pairs = from_scipy(self.found.pairs)
        self.is_out = np.zeros(len(self.found.queries), dtype=np.bool_)  # whole queries
        self.is_gone = np.zeros(len(self.found.products), dtype=np.bool_)  # whole products

    def make(self, recent: HeldBack | None) -> HeldBack:
        """Hold back some of each kind that the recent days, if there are some, lack."""
        words = self._hold_words(recent)
        rows = {WORDS: np.flatnonzero(self.is_out), QUERIES: np.empty(0, np.int64)}
        if recent is None:
            rows[QUERIES] = self._hold_queries()
        if self.catalog is not None and self._count_cold(recent) < _FEW:
            rows[PRODUCTS] = self._hold_products(self.catalog)
        # Last, so that no product which leaves takes away what a query was to keep.
        singles = np.empty(0, np.int64) if recent is not None else self._hold_pairs()
        parts = [
            (self.found.queries.take(some), self._mark(some), np.full(len(some), kind))
            for kind, some in ((kind, self._cut(rows[kind], kind)) for kind in sorted(rows))
        ]
        parts.append(self._mark_pairs(singles))
        if recent is not None:
            parts.append(self._mark_recent(recent, words))
            parts.append(self._misspell(parts[-1]))
        queries, pairs, kinds = _join(parts)
        order = self.rng.permutation(len(queries))
        products = [self.found.products] + ([] if recent is None else [recent.products])
        return HeldBack(
            self._take_away(singles),
            queries.take(order),
            pairs.take(order),
            Strings.concatenate(products),
            kinds[order],
            self.found.products.take(np.flatnonzero(self.is_gone)),
            words.left,
            n_days=0 if recent is None else recent.n_days,
        )

    def _budget(self, kind: int) -> float:
        return _SHARES[kind] * len(self.pairs.indices)

    def _cut(self, rows: Rows, kind: int) -> Rows:
        """Of more rows than a kind may have, as many by chance."""
        return rows if len(rows) <= MOST[kind] else self.rng.permutation(rows)[: MOST[kind]]

    @property
    def _is_free(self) -> NDArray[np.bool_]:
        """Whether each pair is still to be learned from."""
        return ~self.is_out[self.pairs.row_of_entry] & ~self.is_gone[self.pairs.indices]

    def _count_free(self) -> NDArray[np.int64]:
        """Count the pairs of each query that are left."""
        return np.bincount(self.pairs.row_of_entry[self._is_free], minlength=len(self.is_out))

    def _hold_words(self, recent: HeldBack | None) -> HeldWords:
        """Hold back every query with one of some rare words, and half of the titles."""
        later = Strings.of([]) if recent is None else recent.queries
        if self.catalog is None:
            return HeldWords.none(len(self.found.queries), len(later))
        column = self.found.products.index_of(self.catalog.ids, threads=self.threads)
        n_pairs = np.append(np.bincount(self.pairs.indices, minlength=len(self.is_gone)), 0)
        words = choose_words(
            self.found.queries,
            self.catalog,
            np.diff(self.pairs.indptr),
            n_pairs[column],
            later,
            most_pairs=self._budget(WORDS),
            most_queries=MOST[WORDS],
            few=_FEW,
            rng=self.rng,
            threads=self.threads,
        )
        self.is_out |= words.in_queries
        gone = self.found.products.index_of(words.left, threads=self.threads)
        self.is_gone[gone[gone >= 0]] = True
        return words

    def _hold_queries(self) -> Rows:
        """Hold back a tenth of the queries, or 300 where that is at most a quarter of them."""
        free = self.rng.permutation(np.flatnonzero(self._count_free()))
        n = max(len(free) // 10, min(_LEAST_QUERIES, len(free) // 4))
        cost = np.cumsum(np.diff(self.pairs.indptr)[free])
        n = min(n, int(np.searchsorted(cost, self._budget(QUERIES), side="right")), MOST[QUERIES])
        rows = np.sort(free[:n])
        self.is_out[rows] = True
        return rows

    def _hold_products(self, catalog: Catalog) -> Rows:
        """Hold back every event of some products with a title; return the queries of those."""
        has_title = catalog.ids.index_of(self.found.products, threads=self.threads) >= 0
        columns = self.pairs.indices[self._is_free]
        n_pairs = np.bincount(columns, minlength=len(self.is_gone)) * has_title
        order = self.rng.permutation(np.flatnonzero(n_pairs))
        n = int(np.searchsorted(np.cumsum(n_pairs[order]), self._budget(PRODUCTS), side="right"))
        is_mine = np.zeros(len(self.is_gone), dtype=np.bool_)
        is_mine[order[:n]] = True
        asked = self.pairs.row_of_entry[self._is_free & is_mine[self.pairs.indices]]
        rows = np.unique(asked).astype(np.int64)
        self.is_gone |= is_mine
        return rows

    def _hold_pairs(self) -> Rows:
        """Choose rows of the log, one per query, whose query keeps a positive without its event."""
        log, found = self.log, self.found
        n_left = np.zeros(len(log.queries), dtype=np.int64)
        query_of = log.queries.index_of(found.queries, threads=self.threads)
        product_of = log.products.index_of(found.products, threads=self.threads)
        n_left[query_of] = self._count_free()
        width = np.int64(len(log.products))
        is_free = self._is_free
        keys = query_of[self.pairs.row_of_entry] * width + product_of[self.pairs.indices]
        is_positive = np.isin(log.query * width + log.product, keys[is_free])
        weight = np.array([found.rule.weights.get(name, 0.0) for name in log.events])[log.event]
        stays = (n_left[log.query] >= 2) | self._has_another()
        rows = np.flatnonzero(is_positive & (weight > 0) & stays)
        rows = rows[self.rng.permutation(len(rows))]
        _, first = np.unique(log.query[rows], return_index=True)
        rows = rows[np.sort(first)]
        return np.sort(rows[: min(int(self._budget(PAIRS)), MOST[PAIRS])])

    @property
    def _unit(self) -> float:
        """What one event is worth: ratings are never cut in parts."""
        return max(1.0, self.config.min_count)

    def _has_another(self) -> NDArray[np.bool_]:
        """Return whether a row would still be positive with an event less."""
        return np.asarray(self.log.count - self._unit >= self.config.min_count)

    def _count_cold(self, recent: HeldBack | None) -> int:
        """Count the queries of the recent days that led to a product without an earlier one."""
        if recent is None:
            return 0
        is_cold = self.found.products.index_of(recent.products, threads=self.threads) < 0
        return len(np.unique(recent.pairs.row_of_entry[is_cold[recent.pairs.indices]]))

    def _mark(self, rows: Rows) -> Csr:
        """Mark the pairs of queries: of those that stay, what they ask for are products held."""
        pairs = self.pairs.take(rows)
        is_asked = self.is_out[rows][pairs.row_of_entry] | self.is_gone[pairs.indices]
        return replace(pairs, data=np.where(is_asked, 3, ELSEWHERE).astype(np.float32))

    def _mark_pairs(self, singles: Rows) -> _Part:
        """Mark the pairs of queries of which one event was held."""
        rows = self.found.queries.index_of(self.log.queries.take(self.log.query[singles]))
        columns = self.found.products.index_of(self.log.products.take(self.log.product[singles]))
        pairs = self.pairs.take(rows)
        is_asked = pairs.indices == columns[pairs.row_of_entry]
        marked = replace(pairs, data=np.where(is_asked, 3, ELSEWHERE).astype(np.float32))
        return self.found.queries.take(rows), marked, np.full(len(rows), PAIRS)

    def _mark_recent(self, recent: HeldBack, words: HeldWords) -> _Part:
        """Mark what recent queries ask for; products that were held are no part of it."""
        pairs = recent.pairs
        gone = self.found.products.take(np.flatnonzero(self.is_gone))
        is_gone = (gone.index_of(recent.products, threads=self.threads) >= 0)[pairs.indices]
        is_word = words.in_later[pairs.row_of_entry]
        data = np.where(is_gone & ~is_word, ELSEWHERE, pairs.data).astype(np.float32)
        width = len(self.found.products) + pairs.n_cols
        indices = (pairs.indices + len(self.found.products)).astype(np.int32)
        marked = Csr(pairs.indptr, indices, data, width)
        return recent.queries, marked, np.where(words.in_later, WORDS, RECENT)

    def _misspell(self, part: _Part) -> _Part:
        """Ask some of the recent queries again with a letter wrong.

        Where chance decides, most of them would be known queries: the towers have learned their
        other answers by heart, and would seem as good for new ones.
        """
        queries, pairs, kinds = part
        rows = self.rng.permutation(np.flatnonzero(kinds == RECENT))
        rows = rows[: min(MOST[MISSPELT], len(rows) // 5)]
        texts = {row: misspell(queries[row], self.rng) for row in rows.tolist()}
        texts = {row: text for row, text in texts.items() if text != queries[row]}
        rows = np.array(list(texts), np.int64)
        return Strings.of(list(texts.values())), pairs.take(rows), np.full(len(rows), MISSPELT)

    def _take_away(self, singles: Rows) -> Log:
        """Return the log without what is held back."""
        log, found = self.log, self.found
        is_kept = np.ones(len(log), dtype=np.bool_)
        is_kept[singles] = self._has_another()[singles]
        is_out = np.zeros(len(log.queries), dtype=np.bool_)
        is_out[log.queries.index_of(found.queries)] = self.is_out
        is_gone = np.zeros(len(log.products), dtype=np.bool_)
        is_gone[log.products.index_of(found.products)] = self.is_gone
        is_kept &= ~is_out[log.query] & ~is_gone[log.product]
        count = log.count.copy()
        count[singles] = np.maximum(count[singles] - self._unit, 0.0)
        return replace(log, count=count).select(is_kept, threads=self.threads)


def misspell(query: str, rng: np.random.Generator) -> str:
    """Leave out, double or swap a letter of one of the longer words, if there is one."""
    words = query.split()
    places = [i for i, word in enumerate(words) if len(word) >= _LEAST_LETTERS and word.isalpha()]
    if not places:
        return query
    place = places[rng.integers(len(places))]
    word, at = words[place], int(rng.integers(len(words[place]) - 1))
    one, two = word[at], word[at + 1]
    edits = two, one + one + two, two + one
    words[place] = word[:at] + edits[rng.integers(len(edits))] + word[at + 2 :]
    return " ".join(words)


def _join(parts: Sequence[_Part]) -> _Part:
    """Return the queries of all parts, their pairs and kinds."""
    queries, pairs, kinds = zip(*parts, strict=True)
    joined = Csr(
        offsets_of(np.concatenate([np.diff(each.indptr) for each in pairs])),
        np.concatenate([each.indices for each in pairs]),
        np.concatenate([each.data for each in pairs]),
        max(each.n_cols for each in pairs),
    )
    return Strings.concatenate(queries), joined, np.concatenate(kinds).astype(np.uint8)
