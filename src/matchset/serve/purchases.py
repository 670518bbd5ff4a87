"""Purchases: which products did customers buy after a query, according to a log?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from matchset.data.events import EventRule, kind_of
from matchset.data.log import Log
from matchset.data.positives import apply_rule, relevance
from matchset.matrices import rows_of
from matchset.storage.codec import decode, encode
from matchset.storage.file import open_file, write_file
from matchset.strings import Strings
from matchset.text import normalize_strings

_KIND = "purchases"


@dataclass(frozen=True, slots=True, eq=False)
class Purchases:
    """Products by query, memory-mapped, so that workers share them."""

    hashes: NDArray[np.uint64]  # of the queries, ascending, (n_queries,)
    offsets: NDArray[np.int64]  # of each query's products, (n_queries + 1,)
    products: NDArray[np.int32]  # indices into ids, most bought first, (n_pairs,)
    ids: Strings
    examples: Strings  # frequent queries that may be shown
    word: str  # what they are: "bought", or "relevant" in a log without purchases

    def find(self, query: str) -> tuple[str, ...]:
        """Product ids, most bought first; none for a query that is not in the log."""
        wanted = normalize_strings(Strings.of([query])).hashes()[0]
        index = int(np.searchsorted(self.hashes, wanted))
        if index == len(self.hashes) or self.hashes[index] != wanted:
            return ()
        begin, end = self.offsets[index : index + 2].tolist()
        return self.ids.decode(np.ascontiguousarray(self.products[begin:end]))


def store_purchases(
    log: Log, path: Path, *, n_examples: int, min_query_count: float, rule: EventRule | None = None
) -> None:
    """Write the purchases in a log to a file that every worker maps."""
    pairs = relevance(log) if rule is None else apply_rule(log, rule)
    hashes = pairs.queries.hashes()
    order = np.argsort(hashes, kind="stable")
    sorted_pairs = pairs.pairs[order]
    rows = rows_of(sorted_pairs.indptr)
    by_count = np.lexsort((sorted_pairs.indices, -sorted_pairs.data, rows))
    is_bought = any(kind_of(name) == "purchase" for name in pairs.rule.weights)
    purchases = Purchases(
        hashes[order],
        sorted_pairs.indptr.astype(np.int64),
        sorted_pairs.indices[by_count].astype(np.int32),
        pairs.products,
        _choose_examples(log, n_examples, min_query_count),
        "bought" if is_bought else "relevant",
    )
    write_file(path, _KIND, *encode(purchases))


def open_purchases(path: Path) -> Purchases:
    """Map what was stored."""
    opened = open_file(path, _KIND)
    return decode(Purchases, opened.header.value, opened.arrays)


def _choose_examples(log: Log, n: int, min_query_count: float) -> Strings:
    """Return the most frequent queries among those that may be shown."""
    counts = np.where(log.shown(min_query_count), log.query_counts(), 0.0)
    indices = np.argsort(-counts, kind="stable")[:n]
    return log.spellings.take(indices[counts[indices] > 0])
