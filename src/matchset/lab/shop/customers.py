"""Customers: what do they want, on which days, and in which words do they ask for it?"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from matchset.lab.shop.assortment import Products
from matchset.lab.shop.lexicon import CHEAP, MIDDLE, Lexicon
from matchset.lab.shop.wording import Lists, compact, join_words, misspell
from matchset.lab.shop.words import (
    AUDIENCE,
    BRAND,
    COLOR,
    FEATURE,
    KIND,
    LINE,
    MATERIAL,
    PRICE,
    SIZE,
    SLOTS,
)
from matchset.strings import Strings

LAST_DAY = (date(2026, 10, 31) - date(1970, 1, 1)).days  # the last day of every simulated log

# Day of the year, spread in days, and how many times the usual demand comes on top.
_SEASONS = {
    "": (0, 1, 0.0),
    "newyear": (8, 18, 3.0),
    "winter": (5, 45, 3.0),
    "valentine": (40, 10, 9.0),
    "easter": (95, 14, 7.0),
    "spring": (110, 35, 2.0),
    "summer": (190, 40, 3.0),
    "school": (225, 22, 3.0),
    "autumn": (285, 35, 2.0),
    "halloween": (292, 16, 10.0),
    "december": (342, 18, 10.0),
    "christmas": (345, 20, 3.0),
}
SEASONS = tuple(_SEASONS)


def season_days(days: int) -> NDArray[np.float64]:
    """Return the share of demand up to each of the last days, by season, (n_seasons, days)."""
    dates = [date(1970, 1, 1) + timedelta(LAST_DAY - days + 1 + n) for n in range(days)]
    day_of_year = np.array([day.timetuple().tm_yday for day in dates])
    is_weekend = np.array([day.weekday() >= 5 for day in dates])
    demand = np.empty((len(_SEASONS), days))
    for row, (peak, spread, strength) in enumerate(_SEASONS.values()):
        distance = np.abs(day_of_year - peak)
        distance = np.minimum(distance, 365 - distance)
        demand[row] = 1.0 + strength * np.exp(-0.5 * (distance / spread) ** 2)
    demand *= np.where(is_weekend, 1.2, 1.0)
    up_to: NDArray[np.float64] = np.cumsum(demand, axis=1)
    return up_to / up_to[:, -1:]


# How a want is said: by a name of the thing, by what it is needed for, as a present for someone,
# as something of a department, or by its model number.
NAMED, NEEDED, GIVEN, BROAD, MODEL = range(5)
_SHARES = (0.64, 0.07, 0.02, 0.01, 0.26)  # where the category has words for it; else NAMED
EXACT = np.int32(1 << len(SLOTS))  # asks for the very product

_MISSPELT = 0.18  # shares of what is typed
_PLURAL = 0.22
_FILLED = 0.025
_IN_ANY_ORDER = 0.12
_IN_CAPITALS = 0.01

# What customers ask for beside the category, and how often. An ask for what the category does not
# have (the size of a candle) falls away.
ASKS: tuple[tuple[float, tuple[int, ...]], ...] = (
    (7, ()),
    (16, (BRAND,)), (11, (COLOR,)), (11, (FEATURE,)), (10, (SIZE,)), (8, (MATERIAL,)),
    (8, (KIND,)), (7, (AUDIENCE,)), (4, (PRICE,)),
    (3, (BRAND, FEATURE)), (2, (BRAND, SIZE)), (3, (BRAND, COLOR)), (4, (BRAND, LINE)),
    (4, (FEATURE, SIZE)), (4, (COLOR, FEATURE)), (3, (MATERIAL, FEATURE)), (4, (COLOR, SIZE)),
    (3, (MATERIAL, SIZE)), (4, (COLOR, MATERIAL)), (3, (FEATURE, KIND)), (3, (SIZE, KIND)),
    (4, (COLOR, AUDIENCE)), (3, (FEATURE, AUDIENCE)), (1, (FEATURE, PRICE)), (2, (SIZE, AUDIENCE)),
    (2, (COLOR, FEATURE, SIZE)), (1, (MATERIAL, FEATURE, SIZE)), (1, (COLOR, FEATURE, AUDIENCE)),
    (1, (BRAND, FEATURE, SIZE)), (1, (BRAND, COLOR, KIND)), (1, (COLOR, SIZE, AUDIENCE)),
)  # fmt: skip
# The order of words: slots first, then the name, a model number, words before and after.
AT_NAME, AT_MODEL, AT_NEED, AT_BEFORE, AT_AFTER = range(len(SLOTS), len(SLOTS) + 5)
ORDER = {
    AT_NEED: -1, AT_BEFORE: 0, PRICE: 1, BRAND: 2, LINE: 3, AUDIENCE: 4, COLOR: 5, MATERIAL: 6,
    FEATURE: 7, SIZE: 8, KIND: 9, AT_MODEL: 9.5, AT_NAME: 10, AT_AFTER: 20,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Wants:
    """Each customer has a product in mind and is content with any that agrees in what was asked."""

    target: NDArray[np.int64]  # a product, (n,)
    asked: NDArray[np.int32]  # a bit per slot that must agree, or EXACT, (n,)
    manner: NDArray[np.int8]  # NAMED, NEEDED, ..., (n,)
    is_slip: NDArray[np.bool_]  # whether what is said is misspelt, (n,)

    def __len__(self) -> int:
        return len(self.target)

    @property
    def n_asked(self) -> NDArray[np.int64]:
        """How many things must agree beside the category, (n,)."""
        bits = self.asked[:, None].astype(np.int64) >> np.arange(len(SLOTS) + 1)
        n: NDArray[np.int64] = np.count_nonzero(bits & 1, axis=1)
        return n


def want(lexicon: Lexicon, products: Products, n: int, rng: np.random.Generator) -> Wants:
    """Draw what customers want: popular products more often, though less so than they sell."""
    weights = np.cumsum(np.sqrt(products.popularity))
    target = np.searchsorted(weights, rng.random(n) * weights[-1], side="right")
    category = products.category[target]
    manner = np.searchsorted(np.cumsum(_SHARES[:-1]), rng.random(n), side="right").astype(np.int8)
    has_model = products.model[target, 0] > 0
    for chosen, possible in (
        (NEEDED, lexicon.queries.needs.lengths[category] > 0),
        (GIVEN, lexicon.queries.gifts.lengths[category] > 0),
        (MODEL, has_model),
    ):
        manner[(manner == chosen) & ~possible] = NAMED
    return Wants(target, _ask(products, target, manner, rng), manner, rng.random(n) < _MISSPELT)


def _ask(
    products: Products,
    target: NDArray[np.int64],
    manner: NDArray[np.int8],
    rng: np.random.Generator,
) -> NDArray[np.int32]:
    """Return which slots must agree, as bits, (n,)."""
    n = len(target)
    weights = np.cumsum([weight for weight, _ in ASKS])
    bits = np.array([sum(1 << slot for slot in slots) for _, slots in ASKS], dtype=np.int32)
    asked: NDArray[np.int32] = bits[
        np.searchsorted(weights, rng.random(n) * weights[-1], side="right")
    ]
    # Who speaks of a need asks for little else, who seeks a present at most for its price.
    asked[manner == NEEDED] &= np.int32(1 << COLOR | 1 << FEATURE | 1 << AUDIENCE)
    asked[(manner == BROAD) | (manner == GIVEN)] &= np.int32(1 << PRICE)
    has = np.zeros(n, dtype=np.int32)
    for slot in range(len(SLOTS)):
        has |= (products.values[target, slot] >= 0).astype(np.int32) << slot
    is_middling = products.values[target, PRICE] == MIDDLE
    asked &= has & ~(is_middling.astype(np.int32) << PRICE)
    asked[manner == MODEL] = EXACT
    return asked


def say(lexicon: Lexicon, products: Products, wants: Wants, rng: np.random.Generator) -> Strings:
    """Return what each customer types, (n,)."""
    n = len(wants)
    pieces = np.full((n, len(ORDER)), -1, dtype=np.int64)
    for slot in range(len(SLOTS)):
        pieces[:, slot] = _say_value(lexicon, products, wants, slot, rng)
    category = products.category[wants.target]
    pieces[:, AT_NAME] = _say_name(lexicon, category, wants.manner, rng)
    is_model = np.flatnonzero(wants.manner == MODEL)
    models = _say_models(products.model[wants.target[is_model]], rng)
    pieces[is_model, AT_MODEL] = len(lexicon.queries.phrases) + np.arange(len(is_model))
    _replace_names(lexicon, products, wants, pieces, rng)
    for at, which in ((AT_BEFORE, 0), (AT_AFTER, 1)):
        filler = lexicon.queries.fillers.draw(np.full(n, which), rng.random(n))
        is_said = (rng.random(n) < _FILLED) & (wants.manner == NAMED)
        pieces[:, at] = np.where(is_said, filler, -1)
    pieces = _arrange(lexicon, pieces, rng)
    texts = join_words(Strings.concatenate([lexicon.queries.phrases, models]), pieces)
    return _slip(texts, wants.is_slip, rng)


def _say_value(
    lexicon: Lexicon, products: Products, wants: Wants, slot: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return a phrase for what is asked of a slot, -1 where nothing is."""
    n = len(wants)
    is_asked = (wants.asked >> slot & 1) > 0
    value = np.maximum(products.values[wants.target, slot], 0)
    phrase = lexicon.queries.values.draw(lexicon.first_value[slot] + value, rng.random(n) ** 1.5)
    if slot == PRICE:
        limit = lexicon.queries.limits[products.category[wants.target]]
        phrase = np.where((value == CHEAP) & (rng.random(n) < 0.4), limit, phrase)
    return np.where(is_asked, phrase, -1)


def _say_name(
    lexicon: Lexicon,
    category: NDArray[np.int32],
    manner: NDArray[np.int8],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Return a name of the thing or what stands in for it."""
    n = len(category)
    name = lexicon.queries.names.draw(category, rng.random(n) ** 1.4)
    name = np.where(rng.random(n) < _PLURAL, lexicon.queries.plurals[name], name)

    def instead(chosen: int, lists: Lists) -> NDArray[np.int64]:
        return np.where(manner == chosen, lists.draw(category, rng.random(n)), name)

    name = instead(GIVEN, lexicon.queries.gifts)
    return instead(BROAD, lexicon.queries.broad)


def _say_models(model: NDArray[np.uint8], rng: np.random.Generator) -> Strings:
    """Type model numbers as customers do: without the dash, without the letters, cut off."""
    typed = np.where((model >= ord("A")) & (model <= ord("Z")), model + 32, model)
    way = rng.random(len(model))
    typed[way < 0.75, 2] = 0
    typed[(way >= 0.75) & (way < 0.85), 2] = ord(" ")
    typed[way < 0.15, :2] = 0
    typed[(way > 0.3) & (way < 0.45), 7] = 0
    return compact(typed.astype(np.uint8))


def _replace_names(
    lexicon: Lexicon,
    products: Products,
    wants: Wants,
    pieces: NDArray[np.int64],
    rng: np.random.Generator,
) -> None:
    """Say a need or a model number instead of the name, or beside it."""
    is_need = wants.manner == NEEDED
    need = lexicon.queries.needs.draw(products.category[wants.target], rng.random(len(wants)))
    pieces[:, AT_NEED] = np.where(is_need, need, -1)
    pieces[is_need & (wants.asked == 0), AT_NAME] = -1
    is_model = wants.manner == MODEL
    way = rng.random(len(wants))
    pieces[is_model & (way < 0.6), AT_NAME] = -1
    has_brand = is_model & (way > 0.35)
    brand = products.values[wants.target[has_brand], BRAND]
    pieces[has_brand, BRAND] = lexicon.queries.values.draw(brand, np.zeros(len(brand)))


def _arrange(
    lexicon: Lexicon, pieces: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Put phrases in the order of English, which some customers do not keep to."""
    n = len(pieces)
    order = np.array([ORDER[piece] for piece in range(len(ORDER))])
    key = np.repeat(order[None, :], n, axis=0)
    known = np.append(lexicon.queries.is_trailing, False)
    code = np.where(pieces < len(lexicon.queries.is_trailing), pieces, -1)
    key[:, : len(SLOTS)] += 10 * known[code[:, : len(SLOTS)]]
    key[:, AT_NEED] += np.where(rng.random(n) < 0.4, 30, 0)  # "office chair back pain"
    key[:, SIZE] += np.where(rng.random(n) < 0.4, 5, 0)  # "12 inch pan", "pan 12 inch"
    is_free = rng.random(n) < _IN_ANY_ORDER
    key[is_free] += rng.normal(0.0, 5.0, (int(is_free.sum()), len(order)))
    return np.take_along_axis(pieces, np.argsort(key, axis=1, kind="stable"), axis=1)


def _slip(texts: Strings, is_slip: NDArray[np.bool_], rng: np.random.Generator) -> Strings:
    """Misspell some, and type a few in capitals."""
    slips = np.flatnonzero(is_slip)
    mixed = Strings.concatenate([texts, misspell(texts.take(slips), rng)])
    index = np.arange(len(texts))
    index[slips] = len(texts) + np.arange(len(slips))
    texts = mixed.take(index)
    data = texts.data.copy()
    is_lower = (data >= ord("a")) & (data <= ord("z"))
    is_loud = np.repeat(rng.random(len(texts)) < _IN_CAPITALS, texts.lengths)
    data[is_lower & is_loud] -= 32
    return Strings(data, texts.offsets)
