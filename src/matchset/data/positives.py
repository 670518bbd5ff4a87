"""Positives: which products answer a query?"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from matchset import _native
from matchset.config import count_threads
from matchset.data.events import (
    EventRule,
    EventWeights,
    find_uncounted,
    relevance_rule,
    training_rule,
)
from matchset.data.grouping import compact
from matchset.data.log import Log
from matchset.errors import InputError
from matchset.strings import Strings

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Positives:
    """The pairs of query and product that count as answers, and how strongly.

    It holds only queries and products with at least one such pair, in the order of the log.
    """

    queries: Strings  # (n_queries,)
    products: Strings  # (n_products,)
    pairs: csr_array  # float32 weighted counts, (n_queries, n_products)
    rule: EventRule  # decides which pairs are positive
    n_left_out: int = 0  # pairs with events that count, but too few of them

    def __len__(self) -> int:
        return int(self.pairs.nnz)

    def __repr__(self) -> str:
        return (
            f"Positives({len(self):,} pairs of {len(self.queries):,} queries "
            f"and {len(self.products):,} products)"
        )


def positives(
    log: Log,
    *,
    events: EventWeights | None = None,
    min_count: float = 1.0,
    threads: int | None = None,
) -> Positives:
    """Find the pairs to train on: pairs whose weighted counts over all days reach `min_count`.

    `events` gives the weight of each event that counts, such as {"purchase": 1, "click": 0.2}, or
    names events that weigh 1. By default a purchase weighs 1, a cart 0.5 and a click 0.2, relative
    to the strongest event of the log.
    """
    rule = training_rule(log.events, weights=events, min_count=min_count)
    if events is None:
        _warn_of_uncounted(log)
    return apply_rule(log, rule, threads=threads)


def relevance(
    log: Log,
    *,
    events: EventWeights | None = None,
    min_count: float = 1.0,
    threads: int | None = None,
) -> Positives:
    """Find the pairs to test on: products that were bought at least once.

    If there are no purchases, products that were clicked or put into the cart. If there are no
    events, every row counts.
    """
    rule = relevance_rule(log.events, weights=events, min_count=min_count)
    if events is None:
        _warn_of_uncounted(log)
    return apply_rule(log, rule, threads=threads)


def apply_rule(log: Log, rule: EventRule, *, threads: int | None = None) -> Positives:
    """Return the pairs of a log that a rule makes positive."""
    weights = np.array([rule.weights.get(name, 0.0) for name in log.events], np.float64)
    # Five clicks of 0.2 are one purchase, however the sum was rounded.
    least = rule.min_count * (1 - 1e-9)
    columns = log.query, log.product, log.event, log.count
    rows, sums, n_counted = _native.sum_pairs(*columns, weights, least, count_threads(threads))
    queries, query = compact(log.query[rows], len(log.queries))
    products, product = compact(log.product[rows], len(log.products))
    shape = (len(queries), len(products))
    pairs = csr_array((sums.astype(np.float32), (query, product)), shape=shape)
    n_left_out = n_counted - len(rows)
    texts = log.queries.take(queries), log.products.take(products)
    return Positives(*texts, pairs, rule, n_left_out)


def _warn_of_uncounted(log: Log) -> None:
    uncounted = find_uncounted(log.events)
    if uncounted:
        rule = f"these events are not counted: {', '.join(uncounted)}"
        advice = f"{{events.{next(filter(str.isidentifier, uncounted), 'name')}=1}} gives a weight"
        logger.warning("%s", InputError(rule, advice=advice))
