"""Titles: what do sellers write about their listings?

Sellers copy each other: the listings of a family share most words, and differ in color, size, pack,
year and seller. Sellers also stuff: a second name, uses, gifts, and properties the product lacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from matchset.lab.shop.lexicon import Lexicon
from matchset.lab.shop.market import assumptions
from matchset.lab.shop.market.draws import Keys, draw, make_keys
from matchset.lab.shop.market.listings import VARIANT_SLOTS, Listings, find_sellers
from matchset.lab.shop.wording import compact, join_words
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
    read_entries,
    read_vocabulary,
)
from matchset.strings import Strings

# Pieces of a title that are not slots.
NAME, NAME2, UNTRUE, PRAISE, USE, GIFT, PACK, YEAR, SELLER, MODEL = range(
    len(SLOTS), len(SLOTS) + 10
)
_STYLES = (  # where each piece stands, by the habit of the brand's sellers
    (BRAND, LINE, PRAISE, AUDIENCE, MATERIAL, FEATURE, KIND, NAME, MODEL, SIZE, UNTRUE, NAME2,
     USE, GIFT, COLOR, PACK, YEAR, SELLER, PRICE),
    (YEAR, BRAND, NAME, KIND, FEATURE, LINE, MODEL, NAME2, UNTRUE, MATERIAL, AUDIENCE, PRAISE,
     USE, SIZE, COLOR, GIFT, PACK, SELLER, PRICE),
    (PACK, BRAND, LINE, SIZE, COLOR, PRAISE, KIND, NAME, MODEL, FEATURE, MATERIAL, NAME2,
     AUDIENCE, UNTRUE, GIFT, USE, YEAR, SELLER, PRICE),
)  # fmt: skip


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
    """Read the lists that come with the package; sellers are named like halves of brands."""
    file = resources.files("matchset.lab.shop") / "vocabulary" / "market.txt"
    first = read_vocabulary().brand_halves[0]
    names = [name + second for second in ("mart", "co", "hub", "deals") for name in first]
    words = {name: lists[""] for name, lists in read_entries(file)}
    return SellerWords(sellers=tuple(names), **words)


def write_titles(lexicon: Lexicon, listings: Listings, products: NDArray[np.int64]) -> Strings:
    """Return the title of each product, (n,)."""
    draws = _Draws.of(listings, products)
    pieces = np.full((len(products), len(_STYLES[0])), -1, dtype=np.int64)
    _mention_properties(lexicon, listings, products, draws, pieces)
    _name_thing(lexicon, listings.category(products), draws, pieces)
    # Codes after those of the lexicon are for phrases that only titles of the marketplace have.
    phrases: list[str] = []
    for piece, choices, chosen in _choose_phrases(draws):
        code = len(lexicon.titles.words) + len(phrases) + chosen
        pieces[:, piece] = np.where(chosen >= 0, code, -1)
        phrases += choices
    models, has_model = make_models(lexicon, listings, listings.family[products])
    first = len(lexicon.titles.words) + len(phrases)
    pieces[has_model, MODEL] = first + np.flatnonzero(has_model)
    words = Strings.concatenate([lexicon.titles.words, Strings.of(phrases), models])
    of_brand = make_keys(listings.seed, "brand", listings.values(BRAND, products))
    style = (draw(of_brand, "style") * len(_STYLES)).astype(np.int64)
    return join_words(words, _arrange(lexicon, pieces, style))


@dataclass(frozen=True, slots=True, eq=False)
class _Draws:
    """Whose choice a piece of a title is."""

    listing: Keys  # differs within a family, (n,)
    family: Keys  # (n,)
    seller: Keys  # the family's, but the listing's own where its seller changes the words, (n,)

    @classmethod
    def of(cls, listings: Listings, products: NDArray[np.int64]) -> _Draws:
        listing = make_keys(listings.seed, "listing", products)
        family = make_keys(listings.seed, "family", listings.family[products])
        is_rewritten = draw(listing, "rewritten") < assumptions.REWRITTEN
        return cls(listing, family, np.where(is_rewritten, listing, family))


def _mention_properties(
    lexicon: Lexicon,
    listings: Listings,
    products: NDArray[np.int64],
    draws: _Draws,
    pieces: NDArray[np.int64],
) -> None:
    """Mention the brand, and most of what else is true; no title calls itself cheap."""
    for slot in range(PRICE):
        value = listings.values(slot, products)
        keys = draws.listing if slot in VARIANT_SLOTS else draws.family
        is_mentioned = (draw(keys, f"tells {SLOTS[slot]}") < assumptions.MENTIONED) | (
            slot == BRAND
        )
        pieces[:, slot] = np.where(
            is_mentioned & (value >= 0), lexicon.first_value[slot] + value, -1
        )


def _name_thing(
    lexicon: Lexicon, category: NDArray[np.int32], draws: _Draws, pieces: NDArray[np.int64]
) -> None:
    """Give a name, perhaps a second one, praise, and a property the product need not have."""
    words = lexicon.titles
    pieces[:, NAME] = words.names.draw(category, draw(draws.family, "name") ** 2)
    second = words.names.draw(category, draw(draws.seller, "second name"))
    is_stuffed = draw(draws.family, "names twice") < assumptions.STUFFED_NAME
    pieces[:, NAME2] = np.where(is_stuffed & (second != pieces[:, NAME]), second, -1)
    everything = np.zeros(len(category), dtype=np.int64)
    pieces[:, PRAISE] = words.praise.draw(everything, draw(draws.seller, "praise"))
    slot = np.where(draw(draws.family, "untrue slot") < 0.7, FEATURE, COLOR)
    value = lexicon.choices.draw(category * len(SLOTS) + slot, draw(draws.family, "untrue value"))
    is_added = (draw(draws.family, "untrue") < assumptions.UNTRUE) & (value >= 0)
    pieces[:, UNTRUE] = np.where(is_added, lexicon.first_value[slot] + value, -1)


def _choose_phrases(draws: _Draws) -> Iterator[tuple[int, tuple[str, ...], NDArray[np.int64]]]:
    """Yield piece, phrases, and which of them each title has, -1 for none."""
    words = read_seller_words()
    for piece, phrases, keys, share in (
        (USE, words.uses, draws.seller, assumptions.STUFFED_USE),
        (GIFT, words.gifts, draws.seller, assumptions.STUFFED_GIFT),
        (PACK, words.packs, draws.listing, assumptions.IN_PACKS),
        (YEAR, words.years, draws.listing, assumptions.WITH_YEAR),
    ):
        chosen = (draw(keys, f"which {piece}") * len(phrases)).astype(np.int64)
        yield piece, phrases, np.where(draw(keys, f"adds {piece}") < share, chosen, -1)
    is_named = draw(draws.listing, "names seller") < assumptions.SELLER_NAMED
    yield SELLER, _name_sellers(words), np.where(is_named, find_sellers(draws.listing), -1)


def _name_sellers(words: SellerWords) -> tuple[str, ...]:
    forms = words.seller_forms
    return tuple(forms[at % len(forms)].format(name) for at, name in enumerate(words.sellers))


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
    """Make the model number of each family, such as NK4120, and tell which have one, (n,)."""
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
