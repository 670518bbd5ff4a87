"""Listings: what is on sale, in which near-identical forms, and how well does each sell?

A design (a brand's bottle of one kind, material and feature) is sold as a family of listings:
colors, sizes, packs, model years, and several sellers of the same thing. Listings of a family
stand side by side, so a family is a range of product numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.lab.shop.lexicon import CHEAP, FINE, MIDDLE, Lexicon
from matchset.lab.shop.market import assumptions
from matchset.lab.shop.market.assumptions import Shares
from matchset.lab.shop.market.draws import Keys, draw, draw_normal, make_keys
from matchset.lab.shop.words import BRAND, CATEGORY_SLOTS, COLOR, LINE, PRICE, SIZE, SLOTS

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]

VARIANT_SLOTS = (COLOR, SIZE)  # differ within a family; all other slots are those of the design
N_SELLERS = 600
_MEAN_SOLD_OUT = 60.0  # days
_BRAND_SKEW = 2.5  # as in the shop: few brands are strong in a category
_VALUE_SKEW = 1.3


@dataclass(frozen=True, slots=True, eq=False)
class Families:
    """The designs; a few numbers each, so that all of them fit into memory."""

    n_categories: int
    begin: NDArray[np.int64]  # first listing of each, and the end, (n_families + 1,)
    category: Ints  # number in the vocabulary, (n_families,)
    values: Ints  # number of the value in each slot, -1 for none, (n_families, n_slots)
    dearness: Floats  # from 0 to 1 within the range of prices, (n_families,)
    taste: NDArray[np.int8]  # of the customers it suits, (n_families,)
    campaign: NDArray[np.int8]  # it takes part in, (n_families,)
    rival: Ints  # family that customers buy instead, (n_families,)
    companion: Ints  # family that customers buy with it, (n_families,)

    def __len__(self) -> int:
        return len(self.category)


@dataclass(frozen=True, slots=True, eq=False)
class Listings:
    """All products: what the simulation knows of each. Titles say less."""

    seed: int
    families: Families
    family: Ints  # (n,)
    color: Ints  # values of the slots that differ within a family, (n,)
    size: Ints  # (n,)
    appeal: NDArray[np.float32]  # how much is bought when it agrees with a query, (n,)
    launched: Ints  # days since 1970-01-01, (n,)
    ends: Ints  # first day on which it cannot be bought, (n,)

    def __len__(self) -> int:
        return len(self.family)

    def values(self, slot: int, products: NDArray[np.integer] | slice = slice(None)) -> Ints:
        """Return the value of each product in a slot, -1 for none, (n,)."""
        if slot == COLOR:
            return self.color[products]
        if slot == SIZE:
            return self.size[products]
        values: Ints = self.families.values[self.family[products], slot]
        return values

    def category(self, products: NDArray[np.integer] | slice = slice(None)) -> Ints:
        """Return the category of each product, (n,)."""
        return self.families.category[self.family[products]]


def make_listings(
    lexicon: Lexicon, n: int, *, last_day: int, seed: int, shares: Shares
) -> Listings:
    """Make everything on sale on the last day, and what was sold out before."""
    families = _make_families(lexicon, n, seed)
    family = np.repeat(np.arange(len(families), dtype=np.int32), np.diff(families.begin))
    keys = make_keys(seed, "listing", np.arange(n))
    category = families.category[family]
    variants = [
        lexicon.choices.draw(
            category * len(SLOTS) + slot, draw(keys, SLOTS[slot]) ** _VALUE_SKEW
        ).astype(np.int32)
        for slot in VARIANT_SLOTS
    ]
    age = -np.log1p(-draw(keys, "age")) * shares.mean_age
    launched = (last_day - age).astype(np.int32)
    away = -np.log1p(-draw(keys, "sold out since")) * _MEAN_SOLD_OUT
    is_out = draw(keys, "sold out") < shares.sold_out
    ends = np.where(is_out, np.maximum(launched + 1, last_day - away.astype(int)), last_day + 1)
    parts = appeal_parts(seed, family, np.arange(n))
    appeal = sum(np.sqrt(assumptions.APPEAL[name]) * part for name, part in parts.items())
    return Listings(
        seed=seed,
        families=families,
        family=family,
        color=variants[0],
        size=variants[1],
        appeal=np.exp(assumptions.SPREAD * np.asarray(appeal)).astype(np.float32),
        launched=launched,
        ends=ends.astype(np.int32),
    )


def appeal_parts(seed: int, family: Ints, products: NDArray[np.integer]) -> dict[str, Floats]:
    """Return what makes a product sell, each part standard normal; named as in `APPEAL`."""
    keys = make_keys(seed, "listing", products)
    return {
        "quality": draw_normal(make_keys(seed, "family", family), "quality"),
        "reviews": draw_normal(keys, "reviews"),
        "price": draw_normal(keys, "price"),
        "seller": draw_normal(make_keys(seed, "seller", find_sellers(keys)), "reputation"),
    }


def find_sellers(keys: Keys) -> NDArray[np.int64]:
    """Return the number of the seller of each listing: a few sell much, (n,)."""
    return (draw(keys, "seller") ** 2 * N_SELLERS).astype(np.int64)


def _make_families(lexicon: Lexicon, n: int, seed: int) -> Families:
    begin = _make_sizes(n, seed)
    number = np.arange(len(begin) - 1)
    keys = make_keys(seed, "family", number)
    chosen, weights = _choose_categories(lexicon, n, seed)
    at = np.searchsorted(np.cumsum(weights)[:-1], draw(keys, "category"), side="right")
    category = chosen[at]
    values = np.full((len(number), len(SLOTS)), -1, dtype=np.int32)
    for slot in CATEGORY_SLOTS:
        if slot not in VARIANT_SLOTS:
            values[:, slot] = lexicon.choices.draw(
                category * len(SLOTS) + slot, draw(keys, SLOTS[slot]) ** _VALUE_SKEW
            )
    values[:, BRAND] = _draw_brands(lexicon, category, keys)
    lines = len(lexicon.vocabulary.lines)
    values[:, LINE] = ((values[:, BRAND] + draw(keys, "line") * 6).astype(np.int64) * 7) % lines
    of_brand = draw(make_keys(seed, "brand", values[:, BRAND]), "dearness")
    dearness = 0.5 * of_brand + 0.5 * draw(keys, "dearness")
    values[:, PRICE] = np.select([dearness < 1 / 3, dearness < 2 / 3], [CHEAP, MIDDLE], FINE)
    next_category = np.roll(np.arange(len(chosen)), -1)
    return Families(
        n_categories=len(chosen),
        begin=begin,
        category=category.astype(np.int32),
        values=values,
        dearness=dearness,
        taste=(draw(keys, "taste") * assumptions.TASTES).astype(np.int8),
        campaign=(draw(keys, "campaign") * assumptions.CAMPAIGNS).astype(np.int8),
        rival=_draw_family(at, at, draw(keys, "rival")),
        companion=_draw_family(at, next_category[at], draw(keys, "companion")),
    )


def _make_sizes(n: int, seed: int) -> NDArray[np.int64]:
    """Return the first listing of each family and the end of the last, (n_families + 1,)."""
    keys = make_keys(seed, "family", np.arange(int(n / assumptions.SMALLEST_FAMILY) + 1))
    tail = (1.0 - draw(keys, "size")) ** -assumptions.FAMILY_TAIL
    sizes = np.minimum(assumptions.SMALLEST_FAMILY * tail, assumptions.LARGEST_FAMILY).astype(
        np.int64
    )
    ends = np.cumsum(sizes)
    last = int(np.searchsorted(ends, n))
    return np.concatenate([[0], ends[:last], [n]])


def _choose_categories(lexicon: Lexicon, n: int, seed: int) -> tuple[NDArray[np.int64], Floats]:
    """Return a few categories, those of a department side by side, and the share of each."""
    everything = len(lexicon.vocabulary.categories)
    keys = make_keys(seed, "category", np.arange(everything))
    wanted = min(max(round(assumptions.CATEGORIES * np.sqrt(n)), 2), everything)
    chosen = np.sort(np.argsort(draw(keys, "chosen"), kind="stable")[:wanted])
    weights = np.exp(0.6 * draw_normal(keys[chosen], "weight"))
    return chosen, weights / weights.sum()


def _draw_brands(lexicon: Lexicon, category: NDArray[np.int64], keys: Keys) -> NDArray[np.int64]:
    """Return a brand of the department; which ones are strong differs by category."""
    department = lexicon.department[category]
    n_brands = lexicon.brands_of.lengths[department]
    rank = (draw(keys, "brand") ** _BRAND_SKEW * n_brands).astype(np.int64)
    at = (rank + category * 7) % n_brands
    return lexicon.brands_of.items[lexicon.brands_of.offsets[department] + at]


def _draw_family(of: NDArray[np.int64], wanted: NDArray[np.int64], chance: Floats) -> Ints:
    """Return a family of the wanted category for each family, any where that category has none."""
    order = np.argsort(of, kind="stable")
    begin = np.searchsorted(of[order], wanted, side="left")
    end = np.searchsorted(of[order], wanted, side="right")
    begin, end = np.where(end > begin, begin, 0), np.where(end > begin, end, len(of))
    drawn: Ints = order[begin + (chance * (end - begin)).astype(np.int64)].astype(np.int32)
    return drawn
