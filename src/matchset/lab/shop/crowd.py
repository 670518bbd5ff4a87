"""Crowd: which customers of a simulated shop come back, when, and what do they ask for?

The same shop as that of `simulate_shop`, in the days after its log ends. Customers differ in how
often they come and in how readily they buy, so that searches of one customer depend on each other.
Whoever buys nothing may ask again in other words.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from matchset.lab.shop.customers import LAST_DAY, say
from matchset.lab.shop.simulate import PreparedShop, check_arguments, prepare_shop
from matchset.lab.shop.visits import satisfaction_key
from matchset.strings import Strings

MEAN_VISITS = 3.0  # per customer and month
_MONTH = 30
_SPREAD = 0.6  # of the logarithm of how readily a customer buys
_DAY = 86_400


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """Customers and their visits; each visit is about one want."""

    shop: PreparedShop
    seed: int
    days: int
    texts: Strings  # what is said: first wordings, then others of each want, (n_texts,)
    first: NDArray[np.int64]  # text of each want, (n_wants,)
    other: NDArray[np.int64]  # another text of each want, (n_wants,)
    customer: NDArray[np.int64]  # of each visit, ascending, (n_visits,)
    want: NDArray[np.int64]  # of each visit, (n_visits,)
    second: NDArray[np.int64]  # when each visit begins, since 1970, (n_visits,)
    readiness: NDArray[np.float64]  # factor of each customer's chance to buy, (n_customers,)

    @property
    def n_customers(self) -> int:
        """How many customers there are."""
        return len(self.readiness)

    def is_wanted(self, want: NDArray[np.int64], product: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which products satisfy the want of their row, (n, depth); none of -1 does."""
        stock, wants = self.shop.stock, self.shop.wants
        result = np.zeros(product.shape, dtype=np.bool_)
        asked = wants.asked[want]
        for each in np.unique(asked).tolist():
            key = satisfaction_key(stock, each)
            rows = np.flatnonzero(asked == each)
            target = key[wants.target[want[rows]]]
            result[rows] = key[product[rows]] == target[:, None]
        return result & (product >= 0)


def make_crowd(
    *,
    products: int = 10_000,
    queries: int | None = None,
    customers: int = 10_000,
    days: int = _MONTH,
    seed: int = 0,
) -> Crowd:
    """Customers of the shop that `simulate_shop(products=, queries=, seed=)` simulates.

    The same arguments give the same customers, with the same wants on the same days.
    """
    check_arguments("shop", products, queries, days, seed)
    if customers < 1:
        raise ValueError(f"customers must be at least 1; got {customers}")
    shop = prepare_shop(products, queries or 2 * products, seed)
    rng = np.random.default_rng([seed, 6])
    rate = (MEAN_VISITS * days / _MONTH) * rng.gamma(2.0, 0.5, customers)
    customer = np.repeat(np.arange(customers), rng.poisson(rate))
    n = len(customer)
    weights = np.cumsum(shop.visits.astype(np.float64))
    want = np.searchsorted(weights, rng.random(n) * weights[-1], side="right")
    again = replace(shop.wants, is_slip=np.zeros(len(shop.wants), dtype=np.bool_))
    other = say(shop.lexicon, shop.stock, again, rng)
    begin = (LAST_DAY + 1) * _DAY
    return Crowd(
        shop=shop,
        seed=seed,
        days=days,
        texts=Strings.concatenate([shop.texts, other]),
        first=shop.text.astype(np.int64),
        other=len(shop.texts) + np.arange(len(shop.wants)),
        customer=customer,
        want=want,
        second=begin + rng.integers(0, days * _DAY - 3_600, n),
        readiness=np.exp(rng.normal(-(_SPREAD**2) / 2, _SPREAD, customers)),
    )
