"""Catalog: what does the marketplace say of its listings?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Catalog, Column
from matchset.lab.shop.assortment import text_column
from matchset.lab.shop.lexicon import Lexicon
from matchset.lab.shop.market.draws import draw_normal, make_keys
from matchset.lab.shop.market.listings import Listings, appeal_parts, find_sellers
from matchset.lab.shop.market.titles import read_seller_words, write_titles
from matchset.lab.shop.wording import compact
from matchset.lab.shop.words import BRAND, COLOR
from matchset.strings import Strings

_N_IDS = 10**8
_ID_STEP = 61_803_399  # has no factor in common with 10^8: ids are distinct and in no order


def make_ids(products: NDArray[np.integer]) -> Strings:
    """Return the id of each product: numbers of a family are far apart, (n,)."""
    number = products.astype(np.int64) * _ID_STEP % _N_IDS
    digits = 10 ** np.arange(8, dtype=np.int64)[::-1]
    ids = np.full((len(products), 9), ord("M"), dtype=np.uint8)
    ids[:, 1:] = number[:, None] // digits % 10 + ord("0")
    return compact(ids)


def make_catalog_part(
    lexicon: Lexicon, listings: Listings, products: NDArray[np.int64], last_day: int
) -> Catalog:
    """Return the catalog of some products."""
    return Catalog(
        ids=make_ids(products),
        titles=write_titles(lexicon, listings, products),
        attributes=_make_attributes(lexicon, listings, products, last_day),
    )


def _make_attributes(
    lexicon: Lexicon, listings: Listings, products: NDArray[np.int64], last_day: int
) -> dict[str, Column]:
    words = read_seller_words()
    keys = make_keys(listings.seed, "listing", products)
    family = listings.family[products]
    category = listings.category(products)
    parts = appeal_parts(listings.seed, family, products)
    ranges = np.array([c.price for c in lexicon.vocabulary.categories])[category]
    usual = ranges[:, 0] * np.power(ranges[:, 1] / ranges[:, 0], listings.families.dearness[family])
    price = np.floor(usual * np.exp(-0.1 * parts["price"])) + 0.99
    rating = np.clip(4.1 + 0.4 * parts["quality"] + 0.2 * draw_normal(keys, "rating"), 1.0, 5.0)
    is_unrated = last_day - listings.launched[products] < 14
    stock = np.floor(np.exp(3.0 + 1.2 * draw_normal(keys, "stock")))
    colors = list(lexicon.titles.words[lexicon.first_value[COLOR] : lexicon.first_value[COLOR + 1]])
    vocabulary = lexicon.vocabulary
    return {
        "department": text_column(list(vocabulary.departments), lexicon.department[category]),
        "category": text_column([c.names[0] for c in vocabulary.categories], category),
        "brand": text_column(list(lexicon.brands), listings.values(BRAND, products)),
        "colour": text_column(colors, listings.color[products]),
        "seller": text_column(list(words.sellers), find_sellers(keys)),
        "price": Column("number", price),
        "stock": Column("number", np.where(listings.ends[products] > last_day, stock, 0.0)),
        "rating": Column("number", np.where(is_unrated, np.nan, np.round(rating, 1))),
        "fast_delivery": Column("boolean", (parts["seller"] > -0.25).astype(np.int8)),
        "launched": Column("date", listings.launched[products]),
    }
