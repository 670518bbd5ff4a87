"""Queries: what do customers of the marketplace ask for, and in which words?

Every customer has a product in mind, and asks for some of its properties in everyday words. The
customer is then content with any product that has these properties. Customers know nothing of
titles: a nickname or a campaign's word is in none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.lab.shop.customers import (
    ASKS,
    AT_AFTER,
    AT_BEFORE,
    AT_MODEL,
    AT_NAME,
    AT_NEED,
    GIVEN,
    MODEL,
    NAMED,
    NEEDED,
    ORDER,
)
from matchset.lab.shop.lexicon import CHEAP, MIDDLE, Lexicon
from matchset.lab.shop.market import assumptions
from matchset.lab.shop.market.assumptions import Shares
from matchset.lab.shop.market.draws import Keys, draw, draw_normal, make_keys
from matchset.lab.shop.market.listings import Listings
from matchset.lab.shop.market.titles import make_models, read_seller_words
from matchset.lab.shop.wording import N_SLIPS, compact, join_words, slip
from matchset.lab.shop.words import BRAND, PRICE, SIZE, SLOTS
from matchset.strings import Strings

NICKNAME, CAMPAIGN = 5, 6  # ways to ask beside those of the shop's customers
_CONSONANTS, _VOWELS = (
    np.frombuffer(letters, dtype=np.uint8) for letters in (b"bdgjkmnpvz", b"aiou")
)


@dataclass(frozen=True, slots=True)
class Ask:
    """A way to ask: which properties a customer names, and how the thing itself."""

    share: float  # of the queries
    manner: int  # NAMED, NEEDED, GIVEN, MODEL, NICKNAME or CAMPAIGN
    slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """Some queries of one way to ask."""

    number: NDArray[np.int64]  # among all queries of the log, (n,)
    target: NDArray[np.int64]  # the product in mind, (n,)
    taste: NDArray[np.int64]  # that goes with the words, -1 for none, (n,)
    texts: Strings  # as typed, (n,)

    def __len__(self) -> int:
        return len(self.number)


def list_asks() -> tuple[Ask, ...]:
    """Return all ways to ask; their shares sum to 1.

    Customers name the same properties as in the shop, but more of them, because thousands of
    products are alike.
    """
    special = (
        Ask(assumptions.NEEDED, NEEDED),
        Ask(assumptions.GIVEN, GIVEN),
        Ask(assumptions.BY_MODEL, MODEL),
        Ask(assumptions.NICKNAME, NICKNAME),
        Ask(assumptions.CAMPAIGN, CAMPAIGN),
    )
    named = 1.0 - sum(ask.share for ask in special)
    weights = [weight * (1 + len(slots)) for weight, slots in ASKS]
    rows = zip(weights, ASKS, strict=True)
    usual = (Ask(named * weight / sum(weights), NAMED, slots) for weight, (_, slots) in rows)
    return (*usual, *special)


def make_queries(
    lexicon: Lexicon,
    listings: Listings,
    ask: Ask,
    number: NDArray[np.int64],
    interest: NDArray[np.float64],
    shares: Shares,
) -> Queries:
    """Return the queries of some numbers; `interest` in each product is given as running sums."""
    keys = make_keys(listings.seed, "query", number)
    wanted = draw(keys, "target") * interest[-1]
    target = np.minimum(np.searchsorted(interest, wanted, side="right"), len(listings) - 1)
    pieces = np.full((len(number), len(ORDER)), -1, dtype=np.int64)
    for slot in ask.slots:
        pieces[:, slot] = _say_value(lexicon, listings, target, slot, keys)
    words, named = _say_thing(lexicon, listings, ask, target, pieces, keys)
    for at, which in ((AT_BEFORE, 0), (AT_AFTER, 1)):
        filler = lexicon.queries.fillers.draw(np.full(len(number), which), draw(keys, f"word {at}"))
        is_said = (draw(keys, f"filled {at}") < assumptions.FILLED / 2) & (pieces[:, at] < 0)
        pieces[:, at] = np.where(is_said, filler, pieces[:, at])
    texts = join_words(words, _arrange(lexicon, pieces, keys))
    return Queries(
        number=number,
        target=target,
        taste=_find_taste(listings.seed, named),
        texts=_misspell(texts, keys, shares),
    )


def _say_value(
    lexicon: Lexicon, listings: Listings, target: NDArray[np.int64], slot: int, keys: Keys
) -> NDArray[np.int64]:
    """Draw a phrase for what is asked of a slot, -1 where the product in mind has nothing there."""
    value = listings.values(slot, target)
    code = lexicon.first_value[slot] + np.maximum(value, 0)
    phrase = lexicon.queries.values.draw(code, draw(keys, f"says {SLOTS[slot]}") ** 1.5)
    is_said = value >= 0
    if slot == PRICE:
        limit = lexicon.queries.limits[listings.category(target)]
        phrase = np.where((value == CHEAP) & (draw(keys, "limit") < 0.4), limit, phrase)
        is_said = value != MIDDLE
    return np.where(is_said, phrase, -1)


def _say_thing(
    lexicon: Lexicon,
    listings: Listings,
    ask: Ask,
    target: NDArray[np.int64],
    pieces: NDArray[np.int64],
    keys: Keys,
) -> tuple[Strings, NDArray[np.int64]]:
    """Fill in the words for the thing itself.

    Returns all phrases that pieces refer to, and the phrase that shows the customer's taste.
    """
    spoken = lexicon.queries
    category, family = listings.category(target), listings.family[target]
    name = spoken.names.draw(category, draw(keys, "name") ** 1.4)
    said = np.where(draw(keys, "plural") < assumptions.PLURAL, spoken.plurals[name], name)
    pieces[:, AT_NAME] = said
    others = Strings.of([])  # phrases that the lexicon does not have
    if ask.manner == NEEDED:
        pieces[:, AT_NEED] = spoken.needs.draw(category, draw(keys, "need"))
        pieces[pieces[:, AT_NEED] >= 0, AT_NAME] = -1
    elif ask.manner == GIVEN:
        gift = spoken.gifts.draw(category, draw(keys, "gift"))
        pieces[:, AT_NAME] = np.where(gift >= 0, gift, said)
    elif ask.manner == MODEL:
        others = _say_model(lexicon, listings, family, pieces, draw(keys, "way"))
    elif ask.manner == NICKNAME:
        others = make_nicknames(listings.seed, family)
        pieces[:, AT_MODEL] = len(spoken.phrases) + np.arange(len(family))
        pieces[draw(keys, "way") < 0.4, AT_NAME] = -1
    elif ask.manner == CAMPAIGN:
        others = Strings.of(read_seller_words().campaigns)
        campaign = listings.families.campaign[family].astype(np.int64) % len(others)
        pieces[:, AT_BEFORE] = len(spoken.phrases) + campaign
    of_taste = np.where(pieces[:, AT_NAME] == said, name, pieces[:, AT_NEED])
    return Strings.concatenate([spoken.phrases, others]), of_taste


def _say_model(
    lexicon: Lexicon,
    listings: Listings,
    family: NDArray[np.int32],
    pieces: NDArray[np.int64],
    way: NDArray[np.float64],
) -> Strings:
    """Ask by model number, perhaps with brand or name; by brand and name where there is none."""
    models, has_model = make_models(lexicon, listings, family)
    pieces[has_model, AT_MODEL] = len(lexicon.queries.phrases) + np.flatnonzero(has_model)
    pieces[has_model & (way < 0.6), AT_NAME] = -1
    brand = lexicon.first_value[BRAND] + listings.families.values[family, BRAND]
    phrase = lexicon.queries.values.draw(brand, np.zeros(len(family)))
    pieces[:, BRAND] = np.where(has_model & (way <= 0.35), -1, phrase)
    return _to_lower(models)


def make_nicknames(seed: int, family: NDArray[np.integer]) -> Strings:
    """Make what customers call a design among themselves: three syllables, "zumoka", (n,)."""
    keys = make_keys(seed, "family", family)
    letters = np.empty((len(family), 6), dtype=np.uint8)
    for at in range(6):
        alphabet = _VOWELS if at % 2 else _CONSONANTS
        letters[:, at] = alphabet[(draw(keys, f"letter {at}") * len(alphabet)).astype(np.int64)]
    return compact(letters)


def _find_taste(seed: int, phrase: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the taste of customers who use a phrase, -1 where they used none, (n,)."""
    keys = make_keys(seed, "phrase", np.maximum(phrase, 0))
    return np.where(phrase >= 0, (draw(keys, "taste") * assumptions.TASTES).astype(np.int64), -1)


def _arrange(lexicon: Lexicon, pieces: NDArray[np.int64], keys: Keys) -> NDArray[np.int64]:
    """Put phrases in the order of English, which some customers do not keep to."""
    order = np.array([ORDER[piece] for piece in range(len(ORDER))])
    position = np.repeat(order[None, :], len(pieces), axis=0)
    is_known = (pieces >= 0) & (pieces < len(lexicon.queries.is_trailing))
    is_trailing = lexicon.queries.is_trailing[np.where(is_known, pieces, 0)] & is_known
    position[:, : len(SLOTS)] += 10 * is_trailing[:, : len(SLOTS)]
    position[:, SIZE] += np.where(draw(keys, "size last") < 0.4, 5, 0)  # "pan 12 inch"
    is_free = draw(keys, "any order") < assumptions.ANY_ORDER
    for piece in range(len(ORDER)):
        position[is_free, piece] += 5 * draw_normal(keys[is_free], f"position {piece}")
    return np.take_along_axis(pieces, np.argsort(position, axis=1, kind="stable"), axis=1)


def _misspell(texts: Strings, keys: Keys, shares: Shares) -> Strings:
    slips = np.flatnonzero(draw(keys, "misspelt") < shares.misspelt)
    kind = (draw(keys[slips], "slip") * N_SLIPS).astype(np.int64)
    mixed = Strings.concatenate([texts, slip(texts.take(slips), kind, draw(keys[slips], "where"))])
    index = np.arange(len(texts))
    index[slips] = len(texts) + np.arange(len(slips))
    return mixed.take(index)


def _to_lower(texts: Strings) -> Strings:
    is_upper = (texts.data >= ord("A")) & (texts.data <= ord("Z"))
    return Strings((texts.data + 32 * is_upper).astype(np.uint8), texts.offsets)
