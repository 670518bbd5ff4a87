"""Visits: which of the many products that agree with a query does a customer buy?

Search shows products that agree, those of more appeal more often. The customer considers a few of
them in turn. A product suits if it is on sale, in fashion this week, and known well enough. Half of
the customers keep to their taste, which shows in the word they use for the thing and in no title.
Some leave with the rival of a product they looked at, or with what goes with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.lab.shop.customers import LAST_DAY, MODEL, SEASONS
from matchset.lab.shop.lexicon import Lexicon
from matchset.lab.shop.market import assumptions
from matchset.lab.shop.market.assumptions import Shares
from matchset.lab.shop.market.draws import Keys, draw, extend, make_keys
from matchset.lab.shop.market.listings import Listings
from matchset.lab.shop.market.queries import CAMPAIGN, NICKNAME, Ask, Queries
from matchset.lab.shop.visits import CLICK, IMPRESSION, PURCHASE, choose_days

Index = NDArray[np.int64]
AGREED, TASTE, COMPROMISE = range(3)  # what a visit chooses from
_SHOWN = 12  # products that search shows in a visit


@dataclass(frozen=True, slots=True, eq=False)
class Shelf:
    """All products, those that agree in what is asked side by side, and in it those of a taste."""

    key: Index  # of each product; equal for products that agree, (n_products,)
    last: int  # keys per value of what is asked last: key // last leaves that out
    sorted_key: Index  # key and taste, rising, (n_products,)
    order: NDArray[np.int32]  # products in that order, (n_products,)
    appeal: NDArray[np.float64]  # running sums in that order, (n_products + 1,)

    def count_agreeing(self, queries: Queries) -> Index:
        """Return how many products agree with each query, (n_queries,)."""
        key = self.key[queries.target] * assumptions.TASTES
        begin, end = (np.searchsorted(self.sorted_key, key + n) for n in (0, assumptions.TASTES))
        agreeing: Index = end - begin
        return agreeing

    def find(self, queries: Queries, ways: Index, query: Index) -> tuple[Index, Index]:
        """Find the range that each visit chooses from, by its query and way to choose, (n_visits,).

        AGREED: products that agree. TASTE: those of them that are to the taste, where there are
        any. COMPROMISE: products that agree in all but what is asked last.
        """
        key = self.key[queries.target]
        of_taste = key * assumptions.TASTES + np.maximum(queries.taste, 0)
        loose = key // self.last * self.last
        bounds = (
            (key * assumptions.TASTES, (key + 1) * assumptions.TASTES),
            (of_taste, of_taste + 1),
            (loose * assumptions.TASTES, (loose + self.last) * assumptions.TASTES),
        )
        ranges = np.array([np.searchsorted(self.sorted_key, bound) for bound in bounds])
        is_missing = (queries.taste < 0) | (ranges[TASTE, 0] == ranges[TASTE, 1])
        ranges[TASTE] = np.where(is_missing, ranges[AGREED], ranges[TASTE])
        return ranges[ways, 0, query], ranges[ways, 1, query]

    def pick(self, begin: Index, end: Index, chance: NDArray[np.float64]) -> Index:
        """Return a product of each range, those of more appeal more often, (n,)."""
        low, high = self.appeal[begin], self.appeal[end]
        at = np.searchsorted(self.appeal, low + chance * (high - low), side="right") - 1
        picked: Index = self.order[np.clip(at, begin, end - 1)].astype(np.int64)
        return picked


def make_shelf(listings: Listings, ask: Ask) -> Shelf:
    """Sort all products by what one way to ask distinguishes."""
    if ask.manner in (NICKNAME, MODEL):
        key = listings.family.astype(np.int64)
    else:
        key = listings.category().astype(np.int64)
    if ask.manner == CAMPAIGN:
        key = key * assumptions.CAMPAIGNS + listings.families.campaign[listings.family]
    last = 1
    for slot in ask.slots:
        value = listings.values(slot)
        last = int(value.max()) + 2
        key = key * last + value + 1
    with_taste = key * assumptions.TASTES + listings.families.taste[listings.family]
    order = np.argsort(with_taste, kind="stable").astype(np.int32)
    appeal = np.zeros(len(order) + 1)
    np.cumsum(listings.appeal[order], out=appeal[1:])
    return Shelf(key, last, with_taste[order], order, appeal)


def make_family_shelf(listings: Listings) -> Shelf:
    """Return products by family, which is the order of their numbers."""
    appeal = np.zeros(len(listings) + 1)
    np.cumsum(listings.appeal, out=appeal[1:])
    empty = np.empty(0, dtype=np.int64)
    return Shelf(empty, 1, empty, np.arange(len(listings), dtype=np.int32), appeal)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of the log, by query, visit and look."""

    query: Index  # index into the queries that were given, (n_rows,)
    product: Index  # (n_rows,)
    event: NDArray[np.uint8]  # IMPRESSION, CLICK or PURCHASE, (n_rows,)
    day: NDArray[np.int32]  # days since 1970-01-01, (n_rows,)
    count: NDArray[np.float64]  # how often; a kept row stands for those that were left out

    def __len__(self) -> int:
        return len(self.query)


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """Rows of one event."""

    visit: Index  # (n,)
    product: Index  # (n,)
    event: int
    count: int = 1


def count_visits(listings: Listings, shelf: Shelf, queries: Queries) -> Index:
    """Draw how many visits each query leads to: few to what is narrow, many to some broad ones."""
    keys = make_keys(listings.seed, "query", queries.number)
    tail = (1.0 - draw(keys, "visits")) ** (-1 / assumptions.VISIT_TAIL)
    category_size = len(listings) / listings.families.n_categories
    breadth = np.minimum(shelf.count_agreeing(queries) / category_size, 1.0)
    visits = assumptions.VISITS * np.sqrt(breadth) * np.minimum(tail, assumptions.MOST_VISITS)
    return 1 + visits.astype(np.int64)


def visit_market(
    lexicon: Lexicon,
    listings: Listings,
    ask: Ask,
    queries: Queries,
    shelves: tuple[Shelf, Shelf],
    calendar: NDArray[np.float64],
    shares: Shares,
) -> Rows:
    """Simulate visits of some queries; `shelves` are of the way to ask, and of families."""
    shelf = shelves[0]
    visits = count_visits(listings, shelf, queries)
    query = np.repeat(np.arange(len(queries)), visits)
    number = np.arange(len(query)) - np.repeat(np.cumsum(visits) - visits, visits)
    keys = extend(make_keys(listings.seed, "query", queries.number)[query], number)
    day = _choose_days(lexicon, listings, ask, queries.target[query], keys, calendar)
    # Nobody has a product in mind that is not there yet: new products bring new queries.
    is_known = listings.launched[queries.target[query]] <= day
    query, keys, day = query[is_known], keys[is_known], day[is_known]
    way = draw(keys, "way to choose")
    is_taste, is_compromise = way < shares.taste, way >= 1.0 - shares.compromise
    ways = np.select([is_taste, is_compromise], [TASTE, COMPROMISE], AGREED)
    begin, end = shelf.find(queries, ways, query)
    crowd = _Crowd(keys, day, begin, end)
    found = [_glance(listings, shelf, crowd)]
    found += _look_around(listings, shelves, crowd, shares)
    return _to_rows(found, query, day)


@dataclass(frozen=True, slots=True, eq=False)
class _Crowd:
    """Visits: when, and which range of the shelf each chooses from."""

    keys: Keys  # (n_visits,)
    day: NDArray[np.int32]  # (n_visits,)
    begin: Index  # (n_visits,)
    end: Index  # (n_visits,)


def _look_around(
    listings: Listings, shelves: tuple[Shelf, Shelf], crowd: _Crowd, shares: Shares
) -> list[_Found]:
    """Draw clicks and purchases: customers consider products in turn until one is bought."""
    shelf, families = shelves
    found: list[_Found] = []
    active = np.arange(len(crowd.keys))  # visits that have not bought yet
    for look in range(assumptions.LOOKS):
        keys, day = extend(crowd.keys[active], look + 1), crowd.day[active]
        product = shelf.pick(crowd.begin[active], crowd.end[active], draw(keys, "product"))
        suits = draw(keys, "suits") < suitability(listings, product, day, shares)
        click_rate = assumptions.CLICKS * np.where(suits, 1.0, 0.25)
        is_clicked = _is_on_sale(listings, product, day) & (draw(keys, "click") < click_rate)
        is_bought = is_clicked & suits & (draw(keys, "buy") < assumptions.BUYS)
        is_kept = is_clicked & ~is_bought & (draw(keys, "kept") < 1 / assumptions.KEPT_CLICKS)
        found.append(_Found(active[is_kept], product[is_kept], CLICK, assumptions.KEPT_CLICKS))
        bought = _change_mind(
            listings, families, product[is_bought], keys[is_bought], day[is_bought], shares
        )
        buyers = active[is_bought]  # who buys has clicked before
        found += [_Found(buyers, bought, CLICK), _Found(buyers, bought, PURCHASE)]
        active = active[~is_bought]
    return found


def suitability(
    listings: Listings, product: Index, day: NDArray[np.int32], shares: Shares
) -> NDArray[np.float64]:
    """Return the chance that a product suits on a day: by fashion, and how known it is, (n,)."""
    family = make_keys(listings.seed, "family", listings.family[product])
    shortest, longest = assumptions.FASHION_WEEKS
    period = 7 * (shortest + (longest - shortest) * draw(family, "fashion period"))
    wave = 0.5 + 0.5 * np.sin(2 * np.pi * (day / period + draw(family, "fashion phase")))
    age = np.maximum(day - listings.launched[product], 0)
    known = 1.0 - shares.newness * np.exp(-age / assumptions.SETTLING)
    suits: NDArray[np.float64] = (1.0 - shares.fashion * (1.0 - wave)) * known
    return suits


def _is_on_sale(listings: Listings, product: Index, day: NDArray[np.int32]) -> NDArray[np.bool_]:
    is_on_sale: NDArray[np.bool_] = (listings.launched[product] <= day) & (
        day < listings.ends[product]
    )
    return is_on_sale


def _change_mind(
    listings: Listings,
    shelf: Shelf,
    product: Index,
    keys: Keys,
    day: NDArray[np.int32],
    shares: Shares,
) -> Index:
    """Return what is bought after a look at a product: mostly that, else its rival or companion."""
    way = draw(keys, "instead")
    changed = np.flatnonzero(way < shares.substitute + shares.accessory)
    way, keys, families = way[changed], keys[changed], listings.families
    family = listings.family[product[changed]]
    other = np.where(way < shares.substitute, families.rival[family], families.companion[family])
    begin, end = families.begin[other], families.begin[other + 1]
    found = shelf.pick(begin, end, draw(keys, "which instead"))
    is_on_sale = _is_on_sale(listings, found, day[changed])
    bought = product.copy()
    bought[changed[is_on_sale]] = found[is_on_sale]
    return bought


def _glance(listings: Listings, shelf: Shelf, crowd: _Crowd) -> _Found:
    """Return the impressions that the log keeps: one or none of a visit."""
    visit = np.flatnonzero(draw(crowd.keys, "glance") < _SHOWN / assumptions.KEPT_IMPRESSIONS)
    chance = draw(crowd.keys[visit], "shown")
    product = shelf.pick(crowd.begin[visit], crowd.end[visit], chance)
    is_on_sale = _is_on_sale(listings, product, crowd.day[visit])
    return _Found(visit[is_on_sale], product[is_on_sale], IMPRESSION, assumptions.KEPT_IMPRESSIONS)


def _choose_days(
    lexicon: Lexicon,
    listings: Listings,
    ask: Ask,
    target: Index,
    keys: Keys,
    calendar: NDArray[np.float64],
) -> NDArray[np.int32]:
    """Return the day of each visit: in season, or in the week of the campaign."""
    season = np.array([SEASONS.index(c.season) for c in lexicon.vocabulary.categories])
    category = listings.category(target)
    day = choose_days(calendar, season[category], draw(keys, "day"))
    if ask.manner != CAMPAIGN:
        return day
    first = LAST_DAY - calendar.shape[1] + 1
    week, weekday = np.divmod(day - first, 7)
    campaign = listings.families.campaign[listings.family[target]]
    week = week - week % assumptions.CAMPAIGNS + campaign
    in_campaign = first + 7 * week + weekday
    return np.where(in_campaign <= LAST_DAY, in_campaign, day).astype(np.int32)


def _to_rows(found: list[_Found], query: Index, day: NDArray[np.int32]) -> Rows:
    """Return rows sorted by visit, in the order of looks."""
    visit = np.concatenate([part.visit for part in found])
    product = np.concatenate([part.product for part in found])
    sizes = [len(part.visit) for part in found]
    event = np.repeat(np.array([part.event for part in found], dtype=np.uint8), sizes)
    count = np.repeat(np.array([part.count for part in found], dtype=np.float64), sizes)
    order = np.argsort(visit, kind="stable")
    visit = visit[order]
    return Rows(query[visit], product[order], event[order], day[visit], count[order])
