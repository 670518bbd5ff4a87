"""Served: what do customers do when matchers, not the shop's own search, answer them?

What is shown depends on the arm; what is clicked and bought depends on the customer alone, as in
`visits`: on what is wanted, on popularity, on the position and on chance. The same customer has
the same chances whatever the arm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.lab.shop.crowd import Crowd
from matchset.lab.shop.customers import LAST_DAY
from matchset.lab.shop.visits import (
    BUYS,
    MAX_LOOKS,
    RELUCTANCE,
    chance_to_click,
    draw_looks,
    rank_appeal,
)
from matchset.matchers.base import Retriever
from matchset.online.assignment import assign
from matchset.online.definition import INTERLEAVED, Experiment
from matchset.online.interleaving import interleave
from matchset.online.outcomes import Outcomes
from matchset.online.searches import CLICK, EMPTY, KINDS, PURCHASE, Searches
from matchset.text import normalize_strings

_ASKS_AGAIN = 0.5  # share of those who bought nothing
_LATER = 60  # seconds until they do
_DAY = 86_400
_BATCH = 1 << 16  # searches at a time
_NOBODY, _BOTH = -1, 2
_PER_SEARCH = ("arm", "visit", "text", "second", "product", "looked", "clicked", "bought")


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
    origin: NDArray[np.int8] | None  # of interleaved products: 0, 1, or 2 for both
    looked: NDArray[np.int64]  # products that were looked at, (n,)
    clicked: NDArray[np.bool_]  # (n, MAX_LOOKS)
    bought: NDArray[np.bool_]  # (n, MAX_LOOKS)

    def __len__(self) -> int:
        return len(self.arm)

    @property
    def customer(self) -> NDArray[np.int64]:
        """Of each search, (n,)."""
        return self.crowd.customer[self.visit]

    def outcomes(self, experiment: str = "simulated") -> Outcomes:
        """The searches as records of the server would tell them.

        Who asks the same again on the same day makes one search, as in `ubi_answers`.
        """
        _, unit = np.unique(self.customer, return_inverse=True)
        first, search = self._searches()
        came = {
            PURCHASE: self.bought.any(axis=1),
            CLICK: self.clicked.any(axis=1),
            EMPTY: ~(self.product[:, 0] < 0),
        }
        values = {
            metric: (np.bincount(search[each], minlength=len(first)) > 0).astype(np.float64)
            for metric, each in came.items()
        }
        values[EMPTY] = 1.0 - values[EMPTY]
        credited = {}
        if self.origin is not None:
            for metric, done in ((PURCHASE, self.bought), (CLICK, self.clicked)):
                sides = [self._count(search, done & (self.origin == side)) for side in (0, 1)]
                credited[metric] = np.stack(sides, axis=1)
            credited |= {name: np.zeros((len(first), 2)) for name in KINDS if name not in credited}
        order = np.argsort(self.arms)
        rank = np.argsort(order).astype(np.int32)
        return Outcomes(
            experiment=experiment,
            arms=tuple(np.array(self.arms, dtype=object)[order]),
            arm=rank[self.arm[first]],
            searches=Searches(unit[first].astype(np.int64), self.second[first] // _DAY, values),
            credited=credited,
            n_events=int(self.clicked.sum() + self.bought.sum()),
            n_strange=0,
        )

    def _searches(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first of the answers to one customer, text and day, and which of those each is."""
        text, _ = normalize_strings(self.crowd.texts).factorize()
        keys = np.stack([self.customer, self.second // _DAY, text[self.text]])
        _, first, search = np.unique(keys, axis=1, return_index=True, return_inverse=True)
        return first, search.ravel()

    def _count(self, search: NDArray[np.int64], chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Distinct products of each search, of those chosen."""
        row, place = np.nonzero(chosen)
        n_products = len(self.crowd.shop.catalog.ids)
        pairs = np.unique(search[row] * n_products + self.product[row, place])
        n = int(search.max(initial=-1)) + 1
        return np.bincount(pairs // n_products, minlength=n).astype(np.float64)


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
    side = np.zeros(crowd.n_customers, dtype=np.int32)
    if experiment is not None and not experiment.is_interleaved:
        place = {name: index for index, name in enumerate(names)}
        chosen = [place[assign(experiment, f"c{n}").name] for n in range(crowd.n_customers)]
        side = np.array(chosen, dtype=np.int32)
    visits = np.arange(len(crowd.customer))
    first = _search(crowd, visits, crowd.first, lists, side, experiment, turn=0)
    rng = np.random.default_rng([crowd.seed, 7])
    asks = (rng.random(len(visits)) < _ASKS_AGAIN) & ~first.bought.any(axis=1)
    second = _search(crowd, visits[asks], crowd.other, lists, side, experiment, turn=1)
    return _join(first, second)


def _rank(crowd: Crowd, matcher: Retriever) -> NDArray[np.int32]:
    """The numbers of the first products for every text, -1 where there are fewer."""
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
    """One search of each visit, and what came of it."""
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
    """How far customers look, and what they click and buy; see `visits` for the shares."""
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
    """Lists of both arms, as the server would interleave them, and whom products are of."""
    product = np.full((len(text), MAX_LOOKS), _NOBODY, dtype=np.int32)
    origin = np.full((len(text), MAX_LOOKS), _BOTH, dtype=np.int8)
    sides = {"a": 0, "b": 1, "both": _BOTH}
    ids = [str(n) for n in range(len(crowd.shop.stock))]
    for row, (who, said) in enumerate(zip(customer.tolist(), text.tolist(), strict=True)):
        first, second = ([ids[n] for n in each[said].tolist() if n >= 0] for each in (a, b))
        made = interleave(experiment, f"c{who}", crowd.texts[said], first, second, MAX_LOOKS)
        n = len(made.ids)
        product[row, :n] = [int(each) for each in made.ids]
        origin[row, :n] = [sides[each] for each in made.origins]
    return product, origin


def _join(first: Served, second: Served) -> Served:
    """Both searches of all visits, by time."""
    order = np.argsort(np.concatenate([first.second, second.second]), kind="stable")
    origin = None
    if first.origin is not None and second.origin is not None:
        origin = np.concatenate([first.origin, second.origin])[order]
    return Served(
        crowd=first.crowd,
        arms=first.arms,
        origin=origin,
        **{
            name: np.concatenate([getattr(first, name), getattr(second, name)])[order]
            for name in _PER_SEARCH
        },
    )
