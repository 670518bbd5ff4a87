"""Vocabulary: what can the shop sell, and which words are there for it?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TypeAlias

from matchset.lab.shop.wording import headline

# The properties that distinguish products. A category gives values for the middle ones; brand,
# line and price tier come with every product.
SLOTS = ("brand", "line", "colour", "material", "feature", "size", "audience", "kind", "price")
BRAND, LINE, COLOR, MATERIAL, FEATURE, SIZE, AUDIENCE, KIND, PRICE = range(len(SLOTS))
CATEGORY_SLOTS = range(COLOR, PRICE)
Phrases: TypeAlias = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Value:
    """One value of a slot: how a title writes it, and how customers say it, most common first."""

    title: str
    said: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Category:
    """A kind of product, such as couches."""

    names: tuple[str, ...]  # the first is the shop's own
    department: str
    values: Mapping[int, tuple[Value, ...]]  # by slot
    price: tuple[float, float]
    needs: tuple[str, ...]  # what customers say who do not name the thing
    gifts: tuple[str, ...]  # for whom it makes a present
    broad: tuple[str, ...]  # what customers say who want something of the department
    season: str  # when it sells best, "" for all year
    has_models: bool


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Everything that titles and queries are made of."""

    categories: tuple[Category, ...]
    gifts: Mapping[str, tuple[str, ...]]  # what is said, by recipient
    fillers: Mapping[str, tuple[str, ...]]  # words that narrow nothing, "before" and "after"
    tiers: Mapping[str, tuple[str, ...]]  # words for "cheap" and "fine"
    praise: tuple[str, ...]
    brand_halves: tuple[tuple[str, ...], tuple[str, ...]]
    lines: tuple[str, ...]

    @property
    def departments(self) -> tuple[str, ...]:
        """Names of the departments, sorted."""
        return tuple(sorted({category.department for category in self.categories}))


@cache
def read_vocabulary() -> Vocabulary:
    """Read the lists that come with the package."""
    folder = resources.files("matchset.lab.shop") / "vocabulary"
    shared, units, sayings, brands = (
        {name: lists[""] for name, lists in read_entries(folder / f"{file}.txt")}
        for file in ("lists", "units", "sayings", "brands")
    )
    files = sorted((folder / "departments").iterdir(), key=lambda file: file.name)
    return Vocabulary(
        categories=tuple(
            category
            for file in files
            if file.name.endswith(".txt")
            for category in _read_department(file, shared, units)
        ),
        gifts=_choose(sayings, "gift"),
        fillers=_choose(sayings, "filler"),
        tiers=_choose(sayings, "tier"),
        praise=sayings["praise"],
        brand_halves=(brands["first"], brands["second"]),
        lines=brands["lines"],
    )


def read_entries(file: Traversable) -> Iterator[tuple[str, dict[str, tuple[str, ...]]]]:
    """Yield the entries of a file of lists.

    An entry is a line, and the indented lines that continue it: `name: one, two; key: three, four`
    is "name" with {"": ("one", "two"), "key": ("three", "four")}.
    """
    for line in file.read_text("utf-8").replace("\n  ", " ").splitlines():
        if not line.startswith("#"):
            (name, _, first), *others = (field.partition(": ") for field in line.split("; "))
            values = {"": first} | {key: listed for key, _, listed in others}
            yield name, {key: tuple(listed.split(", ")) for key, listed in values.items()}


def _choose(lists: Phrases, kind: str) -> Phrases:
    """Return the lists of one kind, such as "gift dad", by what follows it."""
    return {name.split(" ", 1)[1]: said for name, said in lists.items() if name.startswith(kind)}


def _read_department(file: Traversable, shared: Phrases, units: Phrases) -> Iterator[Category]:
    """Yield the categories of a department: its first entry is the department itself."""
    (department, common), *entries = read_entries(file)
    for name, lists in entries:
        own, _, price = name.removesuffix(")").partition(" (")
        cheapest, dearest = map(float, price.split("-"))
        (season,) = lists.get("season", common.get("season", ("",)))
        yield Category(
            names=(own, *lists[""]),
            department=department,
            values={
                slot: _read_values(lists[SLOTS[slot]], SLOTS[slot], shared, units)
                for slot in CATEGORY_SLOTS
                if SLOTS[slot] in lists
            },
            price=(cheapest, dearest),
            needs=lists.get("needs", ()),
            gifts=lists.get("gifts", ()),
            broad=common[""],
            season=season,
            has_models="model" in lists,
        )


def _read_values(
    entry: tuple[str, ...], slot: str, shared: Phrases, units: Phrases
) -> tuple[Value, ...]:
    """Read values: "@fashion" for a shared list, "title|said|said", or "[8 10 12] inch"."""
    if entry[0].startswith("@"):
        entry = shared[f"{slot} {entry[0][1:]}"]
    return tuple(value for text in entry for value in _read_value(text, units))


def _read_value(text: str, units: Phrases) -> Iterator[Value]:
    if not text.startswith("["):
        said = tuple(text.split("|"))
        yield Value(headline(said[0]), said)
        return
    numbers, _, unit = text[1:].partition("] ")
    for number in numbers.split():
        title, *forms = (form.format(n=number) for form in units[unit])
        yield Value(title, tuple(forms))
