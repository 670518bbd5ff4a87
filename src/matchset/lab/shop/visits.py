"""Visits: what is a customer shown, what is clicked, and what is bought?

The shop's present search is mediocre: it shows popular products of which some are what the
customer wants, and it does worse when the words are not its own. Clicks depend on what is wanted,
on popularity, on the position, and on chance. Few clicks end in a purchase: that needs a product
that the customer wants, and one that is in stock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.lab.shop.assortment import Products
from matchset.lab.shop.customers import (
    BROAD,
    EXACT,
    GIVEN,
    LAST_DAY,
    MODEL,
    NAMED,
    NEEDED,
    SEASONS,
    Wants,
    season_days,
)
from matchset.lab.shop.lexicon import Lexicon
from matchset.lab.shop.words import SLOTS
from matchset.matrices import offsets_of, positions_of

EVENTS = ("impression", "click", "purchase")
IMPRESSION, CLICK, PURCHASE = range(3)
KEPT_IMPRESSIONS = 64  # the log keeps one unclicked impression in 64, with a count of 64

_BATCH = 1 << 18  # visits at a time, so that memory does not grow with the log
_SHOWN = 0.6  # power of the popularity: search shows popular products more, but not only them
MAX_LOOKS = 24
_MEAN_LOOKS = 12.0  # products that a customer looks at after the first
_SHARE_FOUND = (NAMED, 0.65), (NEEDED, 0.45), (GIVEN, 0.45), (BROAD, 0.5), (MODEL, 0.7)
_SHARE_FOUND_MISSPELT = 0.45
RELUCTANCE = np.arange(MAX_LOOKS + 1) ** 0.3  # at each position: fewer clicks further down
_CLICKS_UNWANTED, _CLICKS_WANTED = 0.08, 0.33  # of looks at the top position
BUYS = 0.19  # of clicks on a wanted product


@dataclass(frozen=True, slots=True, eq=False)
class Shelf:
    """Products of equal key side by side, so that one can be drawn by popularity."""

    order: NDArray[np.int64]  # products sorted by key, equal ones by popularity, (n_products,)
    weights: NDArray[np.float64]  # how much is shown, summed in that order, (n_products + 1,)
    begin: NDArray[np.int64]  # where the products of each product's key begin, (n_products,)
    end: NDArray[np.int64]  # and end, (n_products,)

    @classmethod
    def of(cls, key: NDArray[np.int64], products: Products) -> Shelf:
        """Sort products by key, equal ones by popularity."""
        order = products.by_popularity[np.argsort(key[products.by_popularity], kind="stable")]
        weights = np.zeros(len(key) + 1)
        np.cumsum(products.popularity[order] ** _SHOWN, out=weights[1:])
        bounds = np.flatnonzero(np.diff(key[order])) + 1
        bounds = np.concatenate([[0], bounds, [len(key)]])
        begin, end = np.empty_like(order), np.empty_like(order)
        begin[order] = np.repeat(bounds[:-1], np.diff(bounds))
        end[order] = np.repeat(bounds[1:], np.diff(bounds))
        return cls(order, weights, begin, end)

    def draw(self, like: NDArray[np.int64], chance: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return a product with the key of each product `like`, the most popular at chance 0."""
        begin, end = self.begin[like], self.end[like]
        low, high = self.weights[begin], self.weights[end]
        at = np.searchsorted(self.weights, low + chance * (high - low), side="right") - 1
        return self.order[np.clip(at, begin, end - 1)]

    def is_alike(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether products have the same key."""
        return np.equal(self.begin[a], self.begin[b])


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """What happened: one row per visit, product and event."""

    want: NDArray[np.int32]  # index into the wants, (n_rows,)
    product: NDArray[np.int32]  # (n_rows,)
    event: NDArray[np.uint8]  # index into EVENTS, (n_rows,)
    day: NDArray[np.int32]  # days since 1970-01-01, (n_rows,)


def satisfaction_key(products: Products, asked: int) -> NDArray[np.int64]:
    """Return a key that two products share when both satisfy the same want, (n_products,)."""
    if asked == EXACT:
        return np.arange(len(products), dtype=np.int64)
    key = products.category.astype(np.int64)
    for slot in range(len(SLOTS)):
        if asked >> slot & 1:
            value = products.values[:, slot].astype(np.int64)
            key = key * (int(value.max()) + 2) + value + 1
    return key


def visit_shop(
    lexicon: Lexicon,
    products: Products,
    wants: Wants,
    visits: NDArray[np.int64],
    *,
    days: int,
    seed: int,
) -> Events:
    """Simulate `visits` visits of each want over the last `days` days."""
    parts = list(iterate_visits(lexicon, products, wants, visits, days=days, seed=seed))
    return Events(
        want=np.concatenate([part.want for part in parts]),
        product=np.concatenate([part.product for part in parts]),
        event=np.concatenate([part.event for part in parts]),
        day=np.concatenate([part.day for part in parts]),
    )


def iterate_visits(
    lexicon: Lexicon,
    products: Products,
    wants: Wants,
    visits: NDArray[np.int64],
    *,
    days: int,
    seed: int,
) -> Iterator[Events]:
    """Yield the same visits, a batch at a time, so that memory does not grow with the log."""
    category = Shelf.of(products.category.astype(np.int64), products)
    department = Shelf.of(lexicon.department[products.category], products)
    appeal = rank_appeal(products)
    calendar = season_days(days)
    season = np.array([SEASONS.index(c.season) for c in lexicon.vocabulary.categories])
    for asked in np.unique(wants.asked).tolist():
        wanted = Shelf.of(satisfaction_key(products, asked), products)
        alike = np.flatnonzero(wants.asked == asked)
        for number, want in enumerate(_batches(alike, visits[alike])):
            rng = np.random.default_rng([seed, 4, asked, number])
            target = wants.target[want]
            day = choose_days(calendar, season[products.category[target]], rng.random(len(target)))
            looks = _look(len(want), rng)
            visit = looks.visit
            shelves = wanted, category, department
            product = _show(wants, want[visit], looks.position, shelves, rng)
            is_wanted = wanted.is_alike(product, target[visit])
            event = _react(looks, is_wanted, appeal[product])
            kept = (event >= 0) & (products.launched[product] <= day[visit])
            visit, product, event = _once(visit[kept], product[kept], event[kept])
            can_buy = (event == CLICK) & (day[visit] < products.sold_out[product])
            can_buy &= wanted.is_alike(product, target[visit])
            event[can_buy & (rng.random(len(event)) < BUYS)] = PURCHASE
            yield _to_events(want[visit], product, event, day[visit])


def _batches(wants: NDArray[np.int64], visits: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield the want of every visit, a batch of visits at a time."""
    ends = np.cumsum(visits)
    cuts = np.searchsorted(ends, np.arange(_BATCH, ends[-1], _BATCH)) + 1
    for index in np.split(np.arange(len(wants)), np.unique(cuts)):
        if len(index):
            yield np.repeat(wants[index], visits[index])


def choose_days(
    calendar: NDArray[np.float64], season: NDArray[np.int64], chance: NDArray[np.float64]
) -> NDArray[np.int32]:
    """Return the day of each visit: the first of the calendar at chance 0, the last towards 1."""
    n_seasons, days = calendar.shape
    # The calendars of all seasons in one rising array: season 2 takes the range from 2 to 3.
    rising = (calendar + np.arange(n_seasons)[:, None]).ravel()
    at = np.searchsorted(rising, season + chance, side="right")
    number = np.clip(at - season * days, 0, days - 1)
    day: NDArray[np.int32] = (number + (LAST_DAY - days + 1)).astype(np.int32)
    return day


@dataclass(frozen=True, slots=True, eq=False)
class _Looks:
    """Looks at the results of a search, only those that the log may keep."""

    visit: NDArray[np.int64]  # (n_looks,)
    position: NDArray[np.int64]  # in the results, from 1, (n_looks,)
    reluctance: NDArray[np.float64]  # a product that appeals more than this is clicked, (n_looks,)
    is_kept: NDArray[np.bool_]  # whether the log keeps it without a click, (n_looks,)


def _look(n_visits: int, rng: np.random.Generator) -> _Looks:
    """Return every look at a product that the log may keep; the others are left out at once."""
    looks = draw_looks(n_visits, rng)
    visit = np.repeat(np.arange(n_visits), looks)
    position = positions_of(offsets_of(looks)) + 1
    reluctance = rng.random(len(visit)) * RELUCTANCE[position]
    is_kept = rng.random(len(visit)) < 1 / KEPT_IMPRESSIONS
    may = np.flatnonzero(is_kept | (reluctance < _CLICKS_WANTED))
    return _Looks(visit[may], position[may], reluctance[may], is_kept[may])


def _show(
    wants: Wants,
    want: NDArray[np.int64],
    position: NDArray[np.int64],
    shelves: tuple[Shelf, Shelf, Shelf],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Choose the product at each look: wanted, or of the category, or of the department."""
    wanted, category, department = shelves
    share = np.array([found for _, found in sorted(_SHARE_FOUND)])
    found = np.where(wants.is_slip[want], _SHARE_FOUND_MISSPELT, share[wants.manner[want]])
    way = rng.random(len(want))
    chance = rng.random(len(want)) ** (1.0 + 0.5 / position)  # popular products come first
    target = wants.target[want]
    product = np.empty(len(want), dtype=np.int64)
    for shelf, chosen in (
        (wanted, way < found),
        (category, (way >= found) & (way < 0.9)),
        (department, (way >= found) & (way >= 0.9)),
    ):
        product[chosen] = shelf.draw(target[chosen], chance[chosen])
    return product


def draw_looks(n_visits: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return how many products each customer looks at, (n_visits,)."""
    return np.minimum(1 + rng.poisson(_MEAN_LOOKS, n_visits), MAX_LOOKS)


def chance_to_click(
    is_wanted: NDArray[np.bool_], appeal: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the reluctance below which a product is clicked."""
    wanted = np.where(is_wanted, _CLICKS_WANTED, _CLICKS_UNWANTED)
    return np.asarray(wanted * (0.5 + 0.5 * appeal))


def rank_appeal(products: Products) -> NDArray[np.float64]:
    """Return how much each product appeals, from 0 for the least popular to 1, (n_products,)."""
    appeal = np.empty(len(products))
    appeal[products.by_popularity] = np.linspace(1, 0, len(products))
    return appeal


def _react(
    looks: _Looks, is_wanted: NDArray[np.bool_], appeal: NDArray[np.float64]
) -> NDArray[np.int8]:
    """Decide what a look leads to: an impression, a click, or -1 where the log does not keep it."""
    clicks = chance_to_click(is_wanted, appeal)
    event = np.where(looks.is_kept, IMPRESSION, -1).astype(np.int8)
    event[looks.reluctance < clicks] = CLICK
    return event


def _once(
    visit: NDArray[np.int64], product: NDArray[np.int64], event: NDArray[np.int8]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int8]]:
    """Count a product that is seen twice in a visit once, with the most that came of it."""
    n_products = int(product.max(initial=0)) + 1
    key = np.sort((visit * n_products + product) * 4 + (3 - event))
    is_first = np.ones(len(key), dtype=np.bool_)
    is_first[1:] = np.diff(key >> 2) != 0
    key = key[is_first]
    pair = key >> 2
    return pair // n_products, pair % n_products, (3 - (key & 3)).astype(np.int8)


def _to_events(
    want: NDArray[np.int64],
    product: NDArray[np.int64],
    event: NDArray[np.int8],
    day: NDArray[np.int32],
) -> Events:
    """Return rows; who buys has clicked before."""
    bought = np.flatnonzero(event == PURCHASE)
    rows = np.concatenate([np.arange(len(event)), bought])
    return Events(
        want=want[rows].astype(np.int32),
        product=product[rows].astype(np.int32),
        event=np.append(event, np.full(len(bought), CLICK)).astype(np.uint8),
        day=day[rows],
    )
