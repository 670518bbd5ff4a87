"""Titles: what do sellers write about their listings?

Sellers copy each other: the listings of a family share most words, and differ in color, size, pack,
year and seller. Sellers also stuff: a second name, uses, gifts, and properties the product lacks.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Catalog, Column
from matchset.lab.shop.assortment import text_column
from matchset.lab.shop.lexicon import Lexicon
from matchset.lab.shop.market.chance import Keys, draw, draw_normal, make_keys
from matchset.lab.shop.market.listings import VARIANT_SLOTS, Listings, appeal_parts, sellers
from matchset.lab.shop.market.shares import Shares
from matchset.lab.shop.wording import compact, join_words
from matchset.lab.shop.words import (
    AUDIENCE,
    BRAND,
    COLOUR,
    FEATURE,
    KIND,
    LINE,
    MATERIAL,
    PRICE,
    SIZE,
    SLOTS,
)
from matchset.strings import Strings

# Pieces of a title that are not slots.
NAME, NAME2, UNTRUE, PRAISE, USE, GIFT, PACK, YEAR, SELLER, MODEL = range(
    len(SLOTS), len(SLOTS) + 10
)
_STYLES = (  # where each piece stands, by the habit of the brand's sellers
    (BRAND, LINE, PRAISE, AUDIENCE, MATERIAL, FEATURE, KIND, NAME, MODEL, SIZE, UNTRUE, NAME2, USE, GIFT, COLOUR, PACK, YEAR, SELLER, PRICE),
    (YEAR, BRAND, NAME, KIND, FEATURE, LINE, MODEL, NAME2, UNTRUE, MATERIAL, AUDIENCE, PRAISE, USE, SIZE, COLOUR, GIFT, PACK, SELLER, PRICE),
    (PACK, BRAND, LINE, SIZE, COLOUR, PRAISE, KIND, NAME, MODEL, FEATURE, MATERIAL, NAME2, AUDIENCE, UNTRUE, GIFT, USE, YEAR, SELLER, PRICE),
)  # fmt: skip
_ID_STEP = 61_803_399  # has no factor in common with 10^8: ids are distinct and in no order
N_IDS = 10**8


@dataclass(frozen=True, slots=True, eq=False)
class SellerWords:
    """What sellers add to the shop's own title words, and what only customers say."""

    uses: tuple[str, ...]
    gifts: tuple[str, ...]
    packs: tuple[str, ...]
    years: tuple[str, ...]
    sellers: tuple[str, ...]
    seller_forms: tuple[str, ...]
    campaigns: tuple[str, ...]


@cache
def read_seller_words() -> SellerWords:
    """Read the table that comes with the package; sellers are named like halves of brands."""
    folder = resources.files("matchset.lab.shop")
    words, brands = (
        tomllib.loads((folder / f"{name}.toml").read_text("utf-8")) for name in ("market", "brands")
    )
    names = [first + second for second in ("mart", "co", "hub", "deals") for first in brands["first"]]
    return SellerWords(sellers=tuple(names), **{key: tuple(words[key]) for key in words})


def make_ids(products: NDArray[np.integer]) -> Strings:
    """The id of each product: numbers of a family are far apart, (n,)."""
    number = products.astype(np.int64) * _ID_STEP % N_IDS
    digits = 10 ** np.arange(8, dtype=np.int64)[::-1]
    ids = np.full((len(products), 9), ord("M"), dtype=np.uint8)
    ids[:, 1:] = number[:, None] // digits % 10 + ord("0")
    return compact(ids)


def make_catalog_part(
    lexicon: Lexicon, listings: Listings, products: NDArray[np.int64], last_day: int, shares: Shares
) -> Catalog:
    """The catalog of some products."""
    return Catalog(
        ids=make_ids(products),
        titles=write_titles(lexicon, listings, products, shares),
        attributes=_make_attributes(lexicon, listings, products, last_day),
    )


def write_titles(
    lexicon: Lexicon, listings: Listings, products: NDArray[np.int64], shares: Shares
) -> Strings:
    """The title of each product, (n,)."""
    words = read_seller_words()
    family = listings.family[products]
    keys = make_keys(listings.seed, "listing", products)
    of_family = make_keys(listings.seed, "family", family)
    # A seller who changes the words of the others draws them anew.
    own = np.where(draw(keys, "rewritten") < shares.rewritten, keys, of_family)
    category = listings.category(products)
    pieces = np.full((len(products), len(_STYLES[0])), -1, dtype=np.int64)
    for slot in range(PRICE):  # a title does not call itself cheap
        value = listings.values(slot, products)
        teller = keys if slot in VARIANT_SLOTS else of_family
        is_told = (value >= 0) & (draw(teller, f"tells {SLOTS[slot]}") < shares.told)
        is_told |= slot == BRAND
        pieces[is_told, slot] = lexicon.first_value[slot] + value[is_told]
    names = lexicon.titles.names
    pieces[:, NAME] = names.draw(category, draw(of_family, "name") ** 2)
    second = names.draw(category, draw(own, "second name"))
    is_stuffed = (draw(of_family, "names twice") < shares.stuffed_name) & (second != pieces[:, NAME])
    pieces[:, NAME2] = np.where(is_stuffed, second, -1)
    pieces[:, UNTRUE] = _draw_untrue(lexicon, category, of_family, shares)
    praise = lexicon.titles.praise.draw(np.zeros(len(products), dtype=np.int64), draw(own, "praise"))
    pieces[:, PRAISE] = praise
    first = len(lexicon.titles.words)
    stuffing: list[str] = []
    for piece, phrases, teller, share in (
        (USE, words.uses, own, shares.stuffed_use),
        (GIFT, words.gifts, own, shares.stuffed_gift),
        (PACK, words.packs, keys, shares.in_packs),
        (YEAR, words.years, keys, shares.with_year),
    ):
        at = (draw(teller, f"which {piece}") * len(phrases)).astype(np.int64)
        is_added = draw(teller, f"adds {piece}") < share
        pieces[:, piece] = np.where(is_added, first + len(stuffing) + at, -1)
        stuffing += phrases
    who = sellers(keys)
    is_named = draw(keys, "names seller") < shares.seller_named
    pieces[:, SELLER] = np.where(is_named, first + len(stuffing) + who, -1)
    stuffing += _name_sellers(words)
    models, has_model = make_models(lexicon, listings, family)
    pieces[has_model, MODEL] = first + len(stuffing) + np.flatnonzero(has_model)
    spoken = Strings.concatenate([lexicon.titles.words, Strings.of(stuffing), models])
    of_brand = make_keys(listings.seed, "brand", listings.values(BRAND, products))
    style = (draw(of_brand, "style") * len(_STYLES)).astype(np.int64)
    return join_words(spoken, _arrange(lexicon, pieces, style))


def _draw_untrue(lexicon: Lexicon, category: NDArray[np.int32], keys: Keys, shares: Shares):
    """A feature or color of the category that the product need not have, -1 for none."""
    slot = np.where(draw(keys, "untrue slot") < 0.7, FEATURE, COLOUR)
    value = lexicon.choices.draw(category * len(SLOTS) + slot, draw(keys, "untrue value"))
    is_added = (draw(keys, "untrue") < shares.untrue) & (value >= 0)
    return np.where(is_added, lexicon.first_value[slot] + value, -1)


def _arrange(
    lexicon: Lexicon, pieces: NDArray[np.int64], style: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Put the pieces in the order of the style; "for kids" and the like follow the name."""
    order = np.argsort(np.array(_STYLES), axis=1)[style]  # position of each piece, (n, n_pieces)
    is_word = (pieces >= 0) & (pieces < len(lexicon.titles.is_trailing))
    is_trailing = lexicon.titles.is_trailing[np.where(is_word, pieces, 0)] & is_word
    order += 8 * is_trailing
    return np.take_along_axis(pieces, np.argsort(order, axis=1, kind="stable"), axis=1)


def make_models(
    lexicon: Lexicon, listings: Listings, family: NDArray[np.integer]
) -> tuple[Strings, NDArray[np.bool_]]:
    """Model number of each family, such as NK4120, and which ones have one, (n,)."""
    keys = make_keys(listings.seed, "family", family)
    brand = listings.families.values[family, BRAND]
    initials = np.array([[ord(b[0]), ord(b[-2].upper())] for b in lexicon.brands], dtype=np.uint8)
    number = 1000 + (draw(keys, "model") * 9000).astype(np.int64)
    letters = np.empty((len(family), 6), dtype=np.uint8)
    letters[:, :2] = initials[brand]
    letters[:, 2:] = number[:, None] // np.array([1000, 100, 10, 1]) % 10 + ord("0")
    has_models = np.array([c.has_models for c in lexicon.vocabulary.categories])
    has_model = has_models[listings.families.category[family]]
    return compact(letters), has_model


def _name_sellers(words: SellerWords) -> list[str]:
    forms = words.seller_forms
    return [forms[at % len(forms)].format(name) for at, name in enumerate(words.sellers)]


def _make_attributes(
    lexicon: Lexicon, listings: Listings, products: NDArray[np.int64], last_day: int
) -> dict[str, Column]:
    words = read_seller_words()
    keys = make_keys(listings.seed, "listing", products)
    family = listings.family[products]
    category = listings.category(products)
    parts = appeal_parts(listings.seed, family, products)
    ranges = np.array([c.price for c in lexicon.vocabulary.categories])[category]
    usual = ranges[:, 0] * np.power(
        ranges[:, 1] / ranges[:, 0], listings.families.dearness[family]
    )
    price = np.floor(usual * np.exp(-0.1 * parts["price"])) + 0.99
    rating = np.clip(4.1 + 0.4 * parts["quality"] + 0.2 * draw_normal(keys, "rating"), 1.0, 5.0)
    is_unrated = last_day - listings.launched[products] < 14
    stock = np.floor(np.exp(3.0 + 1.2 * draw_normal(keys, "stock")))
    colors = list(lexicon.titles.words[lexicon.first_value[COLOUR] : lexicon.first_value[COLOUR + 1]])
    vocabulary = lexicon.vocabulary
    return {
        "department": text_column(list(vocabulary.departments), lexicon.department[category]),
        "category": text_column([c.names[0] for c in vocabulary.categories], category),
        "brand": text_column(list(lexicon.brands), listings.values(BRAND, products)),
        "colour": text_column(colors, listings.color[products]),
        "seller": text_column(list(words.sellers), sellers(keys)),
        "price": Column("number", price),
        "stock": Column("number", np.where(listings.ends[products] > last_day, stock, 0.0)),
        "rating": Column("number", np.where(is_unrated, np.nan, np.round(rating, 1))),
        "fast_delivery": Column("boolean", (parts["seller"] > -0.25).astype(np.int8)),
        "launched": Column("date", listings.launched[products]),
    }
