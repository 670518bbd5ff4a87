"""Products: what stands on the shelves, since when, at which price, and how popular is it?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Catalog, Column
from matchset.lab.shop.lexicon import CHEAP, FINE, MIDDLE, Lexicon
from matchset.lab.shop.wording import compact, join_words
from matchset.lab.shop.words import (
    AUDIENCE,
    BRAND,
    CATEGORY_SLOTS,
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

MEAN_AGE = 195  # days since a product was launched; the share of new ones follows from it
_SOLD_OUT = 0.07  # share of the products
_MEAN_SOLD_OUT = 60  # days for which they have been; before, they were bought like any other
_LOCALES = ("en-AU", "en-CA", "en-GB", "en-US")
_LOCALE_SHARES = (0.08, 0.12, 0.2, 0.6)
# Where each piece of a title stands, by the house style of the brand. NAME and the pieces after
# it are not slots.
NAME, PRAISE, DASH = len(SLOTS), len(SLOTS) + 1, len(SLOTS) + 2
_STYLES = (
    (BRAND, LINE, PRAISE, AUDIENCE, SIZE, COLOR, MATERIAL, FEATURE, KIND, NAME, DASH, PRICE),
    (BRAND, LINE, AUDIENCE, PRAISE, FEATURE, MATERIAL, KIND, NAME, SIZE, DASH, COLOR, PRICE),
    (BRAND, AUDIENCE, PRAISE, KIND, MATERIAL, NAME, FEATURE, SIZE, LINE, DASH, COLOR, PRICE),
)
# How often a title mentions each; the rest only customers and pictures know.
_MENTIONED = {
    LINE: 0.7,
    COLOR: 0.85,
    MATERIAL: 0.85,
    FEATURE: 0.9,
    SIZE: 0.9,
    AUDIENCE: 0.95,
    KIND: 1.0,
}


@dataclass(frozen=True, slots=True, eq=False)
class Products:
    """What the simulation knows of each product; the catalog has less."""

    category: NDArray[np.int32]  # (n,)
    values: NDArray[np.int32]  # number of the value in each slot, -1 for none, (n, n_slots)
    model: NDArray[np.uint8]  # letters of the model number, zeros where it has none, (n, 8)
    price: NDArray[np.float64]  # (n,)
    popularity: NDArray[np.float64]  # how much it is bought when it fits, (n,)
    by_popularity: NDArray[np.int64]  # products, the most popular first, (n,)
    launched: NDArray[np.int32]  # days since 1970-01-01, (n,)
    stock: NDArray[np.int32]  # on the last day, (n,)
    sold_out: NDArray[np.int32]  # the first day on which it cannot be bought, (n,)

    def __len__(self) -> int:
        return len(self.category)


def make_products(lexicon: Lexicon, n: int, *, last_day: int, seed: int) -> Products:
    """Draw products: some categories are large, some brands strong, few products popular."""
    rng = np.random.default_rng([seed, 1])
    n_categories = len(lexicon.vocabulary.categories)
    shares = np.cumsum(rng.lognormal(0.0, 0.6, n_categories))
    category = np.searchsorted(shares, rng.random(n) * shares[-1], side="right").astype(np.int32)
    values = np.full((n, len(SLOTS)), -1, dtype=np.int32)
    values[:, BRAND] = _draw_brands(lexicon, category, rng)
    # A brand has four lines.
    line = values[:, BRAND] * 5 + rng.integers(0, 4, n)
    values[:, LINE] = line * 7 % len(lexicon.vocabulary.lines)
    for slot in CATEGORY_SLOTS:
        lists = category * len(SLOTS) + slot
        values[:, slot] = lexicon.choices.draw(lists, rng.random(n) ** 1.3)
    quality = rng.random(len(lexicon.brands))[values[:, BRAND]]
    dearness = 0.5 * quality + 0.5 * rng.random(n)
    values[:, PRICE] = np.select([dearness < 1 / 3, dearness < 2 / 3], [CHEAP, MIDDLE], FINE)
    popularity = np.minimum((1.0 - rng.random(n)) ** (-1 / 1.4), 3000.0)  # a long tail
    model = _make_models(lexicon, category, values[:, BRAND], rng)
    launched = (last_day - rng.exponential(MEAN_AGE, n)).astype(np.int32)
    stock = (rng.lognormal(3.0, 1.2, n) * (rng.random(n) >= _SOLD_OUT)).astype(np.int32)
    sold_out = np.maximum(launched + 1, last_day - rng.exponential(_MEAN_SOLD_OUT, n).astype(int))
    return Products(
        category=category,
        values=values,
        model=model,
        price=_make_prices(lexicon, category, dearness),
        popularity=popularity,
        by_popularity=np.argsort(-popularity, kind="stable"),
        launched=launched,
        stock=stock,
        sold_out=np.where(stock > 0, last_day + 1, sold_out).astype(np.int32),
    )


def _draw_brands(
    lexicon: Lexicon, category: NDArray[np.int32], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return a brand of the department; which ones are strong differs by category."""
    department = lexicon.department[category]
    n_brands = lexicon.brands_of.lengths[department]
    rank = (rng.random(len(category)) ** 2.5 * n_brands).astype(np.int64)
    at = (rank + category * 7) % n_brands
    return lexicon.brands_of.items[lexicon.brands_of.offsets[department] + at]


def _make_prices(
    lexicon: Lexicon, category: NDArray[np.int32], dearness: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Draw prices within the category's range, evenly in their logarithm, ending in 99 cents."""
    ranges = np.array([c.price for c in lexicon.vocabulary.categories])[category]
    price = ranges[:, 0] * np.power(ranges[:, 1] / ranges[:, 0], dearness)
    ends: NDArray[np.float64] = np.floor(price) + 0.99
    return ends


def _make_models(
    lexicon: Lexicon,
    category: NDArray[np.int32],
    brand: NDArray[np.int32],
    rng: np.random.Generator,
) -> NDArray[np.uint8]:
    """Make model numbers such as NP-4120B: two letters of the brand, a number, perhaps a letter."""
    n = len(category)
    model = np.zeros((n, 8), dtype=np.uint8)
    initials = np.array([[ord(b[0]), ord(b[-2].upper())] for b in lexicon.brands], dtype=np.uint8)
    model[:, :2] = initials[brand]
    model[:, 2] = ord("-")
    digits = rng.integers(0, 10, (n, 4))
    digits[:, 0] = np.maximum(digits[:, 0], 1)
    digits[rng.random(n) < 0.6, 3] = 0
    model[:, 3:7] = digits + ord("0")
    letters = np.frombuffer(b"ABCDEKLMPRSTX", dtype=np.uint8)
    model[:, 7] = np.where(rng.random(n) < 0.5, letters[rng.integers(0, len(letters), n)], 0)
    has_models = np.array([c.has_models for c in lexicon.vocabulary.categories])
    model[~has_models[category]] = 0
    return model


def make_catalog(lexicon: Lexicon, products: Products, *, last_day: int, seed: int) -> Catalog:
    """Return what the shop says about its products: id, title and attributes."""
    rng = np.random.default_rng([seed, 2])
    n = len(products)
    digits = 10 ** np.arange(8, dtype=np.int64)[::-1]
    ids = np.full((n, 9), ord("P"), dtype=np.uint8)
    ids[:, 1:] = np.arange(n)[:, None] // digits % 10 + ord("0")
    return Catalog(
        ids=compact(ids),
        titles=_write_titles(lexicon, products, rng),
        attributes=_make_attributes(lexicon, products, last_day, rng),
    )


def _write_titles(lexicon: Lexicon, products: Products, rng: np.random.Generator) -> Strings:
    n = len(products)
    pieces = np.full((n, len(_STYLES[0])), -1, dtype=np.int32)
    for slot in range(PRICE):  # a title does not call itself cheap
        value = products.values[:, slot]
        is_mentioned = (value >= 0) & (rng.random(n) < _MENTIONED.get(slot, 1.0))
        pieces[is_mentioned, slot] = lexicon.first_value[slot] + value[is_mentioned]
    pieces[:, NAME] = lexicon.titles.names.draw(products.category, rng.random(n) ** 2)
    is_short = np.count_nonzero(pieces >= 0, axis=1) < 5
    praise = lexicon.titles.praise.draw(np.zeros(n, dtype=np.int64), rng.random(n))
    pieces[:, PRAISE] = np.where(is_short | (rng.random(n) < 0.1), praise, -1)
    style = rng.integers(0, len(_STYLES), len(lexicon.brands))[products.values[:, BRAND]]
    pieces[:, DASH] = np.where((style > 0) & (pieces[:, COLOR] >= 0), lexicon.titles.dash, -1)
    order = np.argsort(np.array(_STYLES), axis=1)[style]  # position of each piece, (n, n_pieces)
    is_slot = np.arange(pieces.shape[1]) < PRICE
    order += 5 * (lexicon.titles.is_trailing[pieces] & (pieces >= 0) & is_slot)
    pieces = np.take_along_axis(pieces, np.argsort(order, axis=1, kind="stable"), axis=1)
    titles = join_words(lexicon.titles.words, pieces)
    return _append_models(titles, products.model)


def _append_models(titles: Strings, model: NDArray[np.uint8]) -> Strings:
    """Put the model number, where there is one, after the title."""
    spaced = np.zeros((len(model), 9), dtype=np.uint8)
    spaced[:, 1:] = model
    spaced[model[:, 0] > 0, 0] = ord(" ")
    numbers = compact(spaced)
    offsets = titles.offsets + numbers.offsets
    data = np.empty(offsets[-1], dtype=np.uint8)
    is_title = np.repeat(
        np.tile([True, False], len(titles)),
        np.stack([titles.lengths, numbers.lengths], axis=1).ravel(),
    )
    data[is_title] = titles.data
    data[~is_title] = numbers.data
    return Strings(data, offsets)


def _make_attributes(
    lexicon: Lexicon, products: Products, last_day: int, rng: np.random.Generator
) -> dict[str, Column]:
    n = len(products)
    categories = [c.names[0] for c in lexicon.vocabulary.categories]
    brand = products.values[:, BRAND]
    locale = np.searchsorted(np.cumsum(_LOCALE_SHARES[:-1]), rng.random(len(lexicon.brands)))
    rating = np.clip(rng.normal(4.1, 0.45, n) + 0.1 * np.log10(products.popularity), 1.0, 5.0)
    is_unrated = (last_day - products.launched < 14) | (rng.random(n) < 0.05)
    colors = lexicon.titles.words[lexicon.first_value[COLOR] : lexicon.first_value[COLOR + 1]]
    departments = lexicon.department[products.category]
    return {
        "department": text_column(list(lexicon.vocabulary.departments), departments),
        "category": text_column(categories, products.category),
        "brand": text_column(list(lexicon.brands), brand),
        "colour": text_column(list(colors), products.values[:, COLOR]),
        "locale": text_column(list(_LOCALES), locale[brand]),
        "price": Column("number", products.price),
        "stock": Column("number", products.stock.astype(np.float64)),
        "rating": Column("number", np.where(is_unrated, np.nan, np.round(rating, 1))),
        "fast_delivery": Column("boolean", (rng.random(n) < 0.6).astype(np.int8)),
        "launched": Column("date", products.launched),
    }


def text_column(texts: list[str], codes: NDArray[np.integer]) -> Column:
    """Return a text column; equal texts become one category, those that no product has stay out."""
    used = np.zeros(len(texts), dtype=np.bool_)
    used[codes[codes >= 0]] = True
    categories = sorted({text for text, is_used in zip(texts, used, strict=True) if is_used})
    index = {text: number for number, text in enumerate(categories)}
    renumbered = np.array([*(index.get(text, -1) for text in texts), -1], dtype=np.int32)
    return Column("text", renumbered[codes], Strings.of(categories))
