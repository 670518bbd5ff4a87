"""Served: what do customers do when matchers, not the shop's own search, answer them?

The same shop as that of `simulate_shop`, in the days after its log ends. Customers differ in how
often they come and in how readily they buy, so that searches of one customer depend on each other.
Whoever buys nothing may ask again in other words. What is shown depends on the arm; what is clicked
and bought depends on the customer alone, as in `visits`: the same customer has the same chances
whatever the arm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import ExportColumn, export_columns
from matchset.lab.shop.customers import LAST_DAY, say
from matchset.lab.shop.simulate import PreparedShop, check_arguments, prepare_shop
from matchset.lab.shop.visits import (
    BUYS,
    EVENTS,
    MAX_LOOKS,
    RELUCTANCE,
    chance_to_click,
    draw_looks,
    rank_appeal,
    satisfaction_key,
)
from matchset.matchers.base import Retriever
from matchset.online.assignment import assign
from matchset.online.definition import INTERLEAVED, Experiment
from matchset.online.interleaving import Origin, interleave
from matchset.strings import Strings

MEAN_VISITS = 3.0  # per customer and month
_MONTH, _DAY = 30, 86_400
_SPREAD = 0.6  # of the logarithm of how readily a customer buys
_ASKS_AGAIN, _LATER = 0.5, 60  # share of those who bought nothing, and seconds until they do
_BATCH = 1 << 16  # searches at a time
_NOBODY = -1
ORIGINS: tuple[Origin, ...] = ("a", "b", "both")


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

    def is_wanted(self, want: NDArray[np.int64], product: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which products satisfy the want of their row, (n, depth); none of -1 does."""
        wants, result = self.shop.wants, np.zeros(product.shape, dtype=np.bool_)
        asked = wants.asked[want]
        for each in np.unique(asked).tolist():
            key = satisfaction_key(self.shop.stock, each)
            rows = np.flatnonzero(asked == each)
            result[rows] = key[product[rows]] == key[wants.target[want[rows]]][:, None]
        return result & (product >= 0)


def make_crowd(
    *,
    products: int = 10_000,
    queries: int | None = None,
    customers: int = 10_000,
    days: int = _MONTH,
    seed: int = 0,
) -> Crowd:
    """Make customers of the shop that `simulate_shop(products=, queries=, seed=)` simulates.

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
    return Crowd(
        shop=shop,
        seed=seed,
        days=days,
        texts=Strings.concatenate([shop.texts, other]),
        first=shop.text.astype(np.int64),
        other=len(shop.texts) + np.arange(len(shop.wants)),
        customer=customer,
        want=want,
        second=(LAST_DAY + 1) * _DAY + rng.integers(0, days * _DAY - 3_600, n),
        readiness=np.exp(rng.normal(-(_SPREAD**2) / 2, _SPREAD, customers)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """Searches of customers, what was shown, and what came of it."""

    crowd: Crowd
    arms: tuple[str, ...]
    arm: NDArray[np.int32]  # of each search, (n,)
    visit: NDArray[np.int64]  # (n,)
    text: NDArray[np.int64]  # (n,)
    second: NDArray[np.int64]  # (n,)
    product: NDArray[np.int32]  # shown at each position, -1 for none, (n, MAX_LOOKS)
    origin: NDArray[np.int8] | None  # of interleaved products, index into `ORIGINS`
    looked: NDArray[np.int64]  # products that were looked at, (n,)
    clicked: NDArray[np.bool_]  # (n, MAX_LOOKS)
    bought: NDArray[np.bool_]  # (n, MAX_LOOKS)

    def __len__(self) -> int:
        return len(self.arm)

    @property
    def customer(self) -> NDArray[np.int64]:
        """The customer of each search, (n,)."""
        return self.crowd.customer[self.visit]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export a row per product that was looked at, clicked or bought, to Arrow."""
        looks = np.arange(self.product.shape[1]) < self.looked[:, None]
        marks = [np.nonzero(mark) for mark in (looks, self.clicked, self.bought)]
        search = np.concatenate([row for row, _ in marks])
        place = np.concatenate([column for _, column in marks])
        event = np.repeat(np.arange(len(EVENTS), dtype=np.uint8), [len(row) for row, _ in marks])
        catalog = self.crowd.shop.catalog
        columns = [
            _name("user_id", "c", self.customer[search]),
            _name("session_id", "s", self.visit[search]),
            ExportColumn("query", self.text[search].astype(np.int32), self.crowd.texts),
            ExportColumn("product_id", self.product[search, place], catalog.ids),
            ExportColumn("event", event, Strings.of(EVENTS)),
            ExportColumn("timestamp", self.second[search].astype(np.float64)),
        ]
        return export_columns(columns, len(search))


def _name(column: str, letter: str, number: NDArray[np.int64]) -> ExportColumn:
    distinct, code = np.unique(number, return_inverse=True)
    names = Strings.of([f"{letter}{n}" for n in distinct.tolist()])
    return ExportColumn(column, code.astype(np.int32), names)


def serve_crowd(
    crowd: Crowd, arms: Mapping[str, Retriever], experiment: Experiment | None = None
) -> Served:
    """Let matchers answer customers; an experiment decides who sees which, or both.

    Without one, there must be a single arm, which all customers see.
    """
    names = tuple(arms) if experiment is None else tuple(arm.name for arm in experiment.arms)
    if set(names) != set(arms) or (experiment is None and len(names) != 1):
        got = ", ".join(arms)
        raise ValueError(f"arms must be those of the experiment, {', '.join(names)}; got {got}")
    lists = {name: _rank(crowd, arms[name]) for name in names}
    n_customers = len(crowd.readiness)
    side = np.zeros(n_customers, dtype=np.int32)
    if experiment is not None and not experiment.is_interleaved:
        place = {name: index for index, name in enumerate(names)}
        chosen = [place[assign(experiment, f"c{n}").name] for n in range(n_customers)]
        side = np.array(chosen, dtype=np.int32)
    visits = np.arange(len(crowd.customer))
    first = _search(crowd, visits, crowd.first, lists, side, experiment, turn=0)
    rng = np.random.default_rng([crowd.seed, 7])
    asks = (rng.random(len(visits)) < _ASKS_AGAIN) & ~first.bought.any(axis=1)
    second = _search(crowd, visits[asks], crowd.other, lists, side, experiment, turn=1)
    return _join(first, second)


def _rank(crowd: Crowd, matcher: Retriever) -> NDArray[np.int32]:
    """Return the numbers of the first products for every text, -1 where there are fewer."""
    ids = crowd.shop.catalog.ids
    ranked = np.full((len(crowd.texts), MAX_LOOKS), _NOBODY, dtype=np.int32)
    for begin in range(0, len(crowd.texts), _BATCH):
        found = matcher.match(crowd.texts[begin : begin + _BATCH], MAX_LOOKS)
        number = ids.index_of(found.products.ids)[found.found.indices]
        row, column = found.found.row_of_entry, found.found.position_in_row
        ranked[begin + row, column] = number
    return ranked


def _search(
    crowd: Crowd,
    visits: NDArray[np.int64],
    wording: NDArray[np.int64],
    lists: Mapping[str, NDArray[np.int32]],
    side: NDArray[np.int32],
    experiment: Experiment | None,
    *,
    turn: int,
) -> Served:
    """Simulate one search of each visit, and what came of it."""
    text = wording[crowd.want[visits]]
    customer = crowd.customer[visits]
    ranked = list(lists.values())
    names = tuple(lists)
    origin = None
    if experiment is not None and experiment.is_interleaved:
        product, origin = _interleave(crowd, experiment, customer, text, ranked[0], ranked[1])
        arm, names = np.zeros(len(visits), dtype=np.int32), (INTERLEAVED,)
    else:
        arm = side[customer]
        product = np.stack(ranked)[arm, text]
    looked, clicked, bought = _behave(crowd, visits, product, turn)
    return Served(
        crowd=crowd,
        arms=names,
        arm=arm,
        visit=visits,
        text=text,
        second=crowd.second[visits] + turn * _LATER,
        product=product,
        origin=origin,
        looked=looked,
        clicked=clicked,
        bought=bought,
    )


def _behave(
    crowd: Crowd, visits: NDArray[np.int64], product: NDArray[np.int32], turn: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return how far customers look, and what they click and buy; see `visits` for the shares."""
    stock, appeal = crowd.shop.stock, rank_appeal(crowd.shop.stock)
    is_there = stock.sold_out > LAST_DAY  # what is in stock when the log ends stays in stock
    rng = np.random.default_rng([crowd.seed, 8, turn])
    n = len(crowd.customer)  # draws of all visits, so that they do not depend on who asks again
    looks = draw_looks(n, rng)[visits]
    parts = []
    for begin in range(0, n, _BATCH):
        chances = rng.random((2, min(_BATCH, n - begin), MAX_LOOKS))
        rows = np.flatnonzero((visits >= begin) & (visits < begin + _BATCH))
        reluctance, hesitation = chances[:, visits[rows] - begin]
        shown = product[rows]
        is_wanted = crowd.is_wanted(crowd.want[visits[rows]], shown)
        seen = (np.arange(MAX_LOOKS) < looks[rows, None]) & (shown >= 0)
        clicked = seen & (reluctance * RELUCTANCE[1:] < chance_to_click(is_wanted, appeal[shown]))
        ready = BUYS * crowd.readiness[crowd.customer[visits[rows]]][:, None]
        bought = clicked & is_wanted & is_there[shown] & (hesitation < ready)
        parts.append((seen.sum(axis=1), clicked, bought))
    looked, clicks, purchases = (np.concatenate(each) for each in zip(*parts, strict=True))
    return looked, clicks, purchases


def _interleave(
    crowd: Crowd,
    experiment: Experiment,
    customer: NDArray[np.int64],
    text: NDArray[np.int64],
    a: NDArray[np.int32],
    b: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Interleave the lists of both arms as the server would; return whom products are of too."""
    product = np.full((len(text), MAX_LOOKS), _NOBODY, dtype=np.int32)
    origin = np.full((len(text), MAX_LOOKS), ORIGINS.index("both"), dtype=np.int8)
    ids = [str(n) for n in range(len(crowd.shop.stock))]
    for row, (who, said) in enumerate(zip(customer.tolist(), text.tolist(), strict=True)):
        first, second = ([ids[n] for n in each[said].tolist() if n >= 0] for each in (a, b))
        made = interleave(experiment, f"c{who}", crowd.texts[said], first, second, MAX_LOOKS)
        n = len(made.ids)
        product[row, :n] = [int(each) for each in made.ids]
        origin[row, :n] = [ORIGINS.index(each) for each in made.origins]
    return product, origin


def _join(first: Served, second: Served) -> Served:
    """Join both searches of all visits, by time."""
    order = np.argsort(np.concatenate([first.second, second.second]), kind="stable")
    joined: dict[str, Any] = {
        field.name: np.concatenate([value, getattr(second, field.name)])[order]
        for field in fields(Served)
        if isinstance(value := getattr(first, field.name), np.ndarray)
    }
    return replace(first, **joined)
