"""Qrels: which test queries are there, and which products are relevant to each?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from matchset.data.events import EventWeights
from matchset.data.log import Log
from matchset.data.positives import Positives, positives, relevance
from matchset.errors import DataError
from matchset.evaluate.significance import Values
from matchset.matrices import rows_of
from matchset.strings import Strings


@dataclass(frozen=True, slots=True, eq=False)
class Qrels:
    """Test queries with their relevant products."""

    queries: Strings  # normalized, (n_queries,)
    products: Strings  # relevant to at least one query, (n_products,)
    row: NDArray[np.int64]  # query of each relevant pair, ascending, (n_pairs,)
    product: NDArray[np.int64]  # ascending within a query, (n_pairs,)
    gain: Values  # (n_pairs,)
    traffic: Values  # how often customers enter each query, (n_queries,)

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def n_pairs(self) -> int:
        """Number of relevant pairs."""
        return len(self.row)


def make_qrels(
    test: Log | Positives | Qrels,
    *,
    events: EventWeights | None = None,
    min_count: float = 1.0,
    sample: int | None = None,
    seed: int = 0,
    graded: bool = False,
) -> Qrels:
    """Return the test queries and relevant products of a log (see `relevance`) or of positives.

    Positives are all relevant, and `events` and `min_count` do not apply to them; qrels are
    returned as they are. If there are more than `sample` queries, a random sample of that size is
    taken. Traffic is the log's `query_counts`, or the sum of a query's positives. `graded` uses the
    counts as gains in nDCG; otherwise every relevant product has the same gain.
    """
    if isinstance(test, Qrels):
        return test
    if sample is not None and sample < 1:
        raise ValueError(f"sample must be positive; got {sample}")
    relevant = (
        test if isinstance(test, Positives) else relevance(test, events=events, min_count=min_count)
    )
    if len(relevant) == 0:
        raise DataError(f"a test must have relevant pairs; got none with {relevant.rule}")
    pairs = relevant.pairs.sorted_indices()
    if isinstance(test, Log):
        traffic = test.query_counts()[test.queries.index_of(relevant.queries)]
    else:
        traffic = np.asarray(pairs.sum(axis=1), dtype=np.float64).ravel()
    gain = pairs.data.astype(np.float64)
    qrels = Qrels(
        queries=relevant.queries,
        products=relevant.products,
        row=rows_of(pairs.indptr).astype(np.int64),
        product=pairs.indices.astype(np.int64),
        gain=gain if graded else np.ones_like(gain),
        traffic=traffic,
    )
    return qrels if sample is None else _sample(qrels, sample, seed)


def training_pairs(train: Log | Positives) -> Positives:
    """Return the pairs a model was trained on; for a log, its default positives."""
    return train if isinstance(train, Positives) else positives(train)


def _sample(qrels: Qrels, sample: int, seed: int) -> Qrels:
    if len(qrels) <= sample:
        return qrels
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(len(qrels), sample, replace=False))
    is_chosen = np.zeros(len(qrels), dtype=np.bool_)
    is_chosen[chosen] = True
    kept = is_chosen[qrels.row]
    return replace(
        qrels,
        queries=qrels.queries.take(chosen),
        row=(np.cumsum(is_chosen) - 1)[qrels.row[kept]],
        product=qrels.product[kept],
        gain=qrels.gain[kept],
        traffic=qrels.traffic[chosen],
    )
