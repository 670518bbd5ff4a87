"""Lexicon: which numbers stand for which words, so that products and queries are arrays?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.lab.shop.wording import Lists, headline, plural
from matchset.lab.shop.words import (
    BRAND,
    CATEGORY_SLOTS,
    LINE,
    PRICE,
    SLOTS,
    Value,
    Vocabulary,
)
from matchset.matrices import offsets_of
from matchset.strings import Strings

CHEAP, MIDDLE, FINE = range(3)  # values of the slot PRICE: a third of the category's range each
_TRAILING = ("for ", "with ", "without ", "under ", "that ", "in ", "pack of ", "set of ", "from ")


@dataclass(frozen=True, slots=True, eq=False)
class TitleWords:
    """What titles are made of."""

    words: Strings  # the values in the order of their codes, then names, praise and a dash
    is_trailing: NDArray[np.bool_]  # words that follow the name, (n_words,)
    names: Lists  # category -> words
    praise: Lists  # one list of words
    dash: int


@dataclass(frozen=True, slots=True, eq=False)
class QueryWords:
    """What customers say."""

    phrases: Strings
    is_trailing: NDArray[np.bool_]  # phrases that follow the name, (n_phrases,)
    values: Lists  # code of a value -> phrases
    names: Lists  # category -> phrases
    plurals: NDArray[np.int64]  # phrase -> phrase; only names change, (n_phrases,)
    needs: Lists  # category -> phrases
    gifts: Lists  # category -> phrases
    broad: Lists  # category -> phrases
    limits: NDArray[np.int64]  # a phrase such as "under 20" for what is cheap, (n_categories,)
    fillers: Lists  # before, after -> phrases


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """The vocabulary in codes.

    A product's value in a slot is numbered within the slot; `first_value[slot]` plus that number
    is its code among all values.
    """

    vocabulary: Vocabulary
    brands: tuple[str, ...]
    brands_of: Lists  # department -> brands
    department: NDArray[np.int64]  # index into vocabulary.departments, (n_categories,)
    choices: Lists  # category * len(SLOTS) + slot -> values
    first_value: NDArray[np.int64]  # (n_slots + 1,)
    titles: TitleWords
    queries: QueryWords


def make_lexicon(vocabulary: Vocabulary, *, brands: int, seed: int) -> Lexicon:
    """Number every word, with `brands` brands spread over the departments."""
    rng = np.random.default_rng([seed, 0])
    brand_values = _make_brands(vocabulary, brands, rng)
    values = _collect_values(vocabulary, brand_values)
    departments = vocabulary.departments
    return Lexicon(
        vocabulary=vocabulary,
        brands=tuple(value.title for value in brand_values),
        brands_of=_spread_brands(brands, len(departments), rng),
        department=np.array([departments.index(c.department) for c in vocabulary.categories]),
        choices=_collect_choices(vocabulary, values),
        first_value=offsets_of(list(map(len, values))),
        titles=_make_title_words(vocabulary, values),
        queries=_make_query_words(vocabulary, values),
    )


def _make_brands(vocabulary: Vocabulary, n: int, rng: np.random.Generator) -> list[Value]:
    """Invented brands; some customers split them: "northpeak" is "north peak"."""
    first, second = vocabulary.brand_halves
    pairs = rng.permutation(len(first) * len(second)).tolist()
    halves = [(first[pair // len(second)], second[pair % len(second)]) for pair in pairs]
    # Neither "Stonestone" nor three equal letters in a row.
    halves = [(a, b) for a, b in halves if a.lower() != b and a[-2:].lower() != b[0] * 2]
    return [
        Value(a + b, (a.lower() + b, a.lower() + b, a.lower() + b, f"{a.lower()} {b}"))
        for a, b in halves[:n]
    ]


def _spread_brands(n_brands: int, n_departments: int, rng: np.random.Generator) -> Lists:
    """Deal the brands out evenly; one in six also sells in a second department."""
    homes: list[list[int]] = [[] for _ in range(n_departments)]
    for brand, second in enumerate(rng.integers(0, 6 * n_departments, n_brands).tolist()):
        homes[brand % n_departments].append(brand)
        if second < n_departments and second != brand % n_departments:
            homes[second].append(brand)
    return Lists.of(homes)


def _collect_values(vocabulary: Vocabulary, brands: list[Value]) -> list[list[Value]]:
    """Return all values of each slot; a color that several categories have is one value."""
    values: list[list[Value]] = [[] for _ in SLOTS]
    values[BRAND] = brands
    values[LINE] = [Value(line, (line.lower(),)) for line in vocabulary.lines]
    values[PRICE] = [Value("", vocabulary.tiers.get(tier, ())) for tier in ("cheap", "", "fine")]
    for slot in CATEGORY_SLOTS:
        seen = {v: None for c in vocabulary.categories for v in c.values.get(slot, ())}
        values[slot] = list(seen)
    return values


def _collect_choices(vocabulary: Vocabulary, values: list[list[Value]]) -> Lists:
    index = [{value: number for number, value in enumerate(of_slot)} for of_slot in values]
    return Lists.of(
        [
            [index[slot][value] for value in category.values.get(slot, ())]
            for category in vocabulary.categories
            for slot in range(len(SLOTS))
        ]
    )


class _Numbered(dict[str, int]):
    """Texts numbered as they come, from a first number."""

    def __init__(self, first: int = 0) -> None:
        super().__init__()
        self.first = first

    def add(self, texts: Iterable[str]) -> list[int]:
        return [self.setdefault(text, self.first + len(self)) for text in texts]


def _make_title_words(vocabulary: Vocabulary, values: list[list[Value]]) -> TitleWords:
    # Values whose titles read alike stay apart, so that a value's code is its index.
    value_titles = [value.title for of_slot in values for value in of_slot]
    others = _Numbered(first=len(value_titles))
    names = [others.add(map(headline, c.names)) for c in vocabulary.categories]
    praise = [others.add(vocabulary.praise)]
    (dash,) = others.add(["-"])
    words = [*value_titles, *others]
    return TitleWords(Strings.of(words), _follow(words), Lists.of(names), Lists.of(praise), dash)


def _make_query_words(vocabulary: Vocabulary, values: list[list[Value]]) -> QueryWords:
    categories = vocabulary.categories
    phrases = _Numbered()
    said = [phrases.add(value.said) for of_slot in values for value in of_slot]
    names = [phrases.add(c.names) for c in categories]
    plurals = {phrases[n]: phrases.add([plural(n)])[0] for c in categories for n in c.names}
    needs = [phrases.add(c.needs) for c in categories]
    gifts = [phrases.add(t for who in c.gifts for t in vocabulary.gifts[who]) for c in categories]
    broad = [phrases.add(c.broad) for c in categories]
    limits = phrases.add(f"under {_round_limit(c.price)}" for c in categories)
    fillers = [phrases.add(vocabulary.fillers[position]) for position in ("before", "after")]
    return QueryWords(
        phrases=Strings.of(list(phrases)),
        is_trailing=_follow(phrases),
        values=Lists.of(said),
        names=Lists.of(names),
        plurals=np.array([plurals.get(phrase, phrase) for phrase in range(len(phrases))]),
        needs=Lists.of(needs),
        gifts=Lists.of(gifts),
        broad=Lists.of(broad),
        limits=np.array(limits),
        fillers=Lists.of(fillers),
    )


def _follow(texts: Iterable[str]) -> NDArray[np.bool_]:
    """Return which texts follow the name of a thing."""
    return np.array([text.startswith(_TRAILING) for text in texts], dtype=np.bool_)


def _round_limit(price: Sequence[float]) -> int:
    """Return a round number just above the cheap third of a category's prices."""
    step = 5 if price[1] < 100 else 25 if price[1] < 500 else 100
    cheap = price[0] * math.pow(price[1] / price[0], 1 / 3)
    return math.ceil((cheap + 1) / step) * step
