"""Vocabulary: what can the shop sell, and which words are there for it?"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from matchset.lab.shop.wording import headline

# The properties that distinguish products. A category gives values for the middle ones; brand,
# line and price tier come with every product.
SLOTS = ("brand", "line", "colour", "material", "feature", "size", "audience", "kind", "price")
BRAND, LINE, COLOR, MATERIAL, FEATURE, SIZE, AUDIENCE, KIND, PRICE = range(len(SLOTS))
CATEGORY_SLOTS = range(COLOR, PRICE)


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
    """Read the tables that come with the package."""
    folder = resources.files("matchset.lab.shop")
    lists, units, sayings, brands = (
        tomllib.loads((folder / f"{name}.toml").read_text("utf-8"))
        for name in ("lists", "units", "sayings", "brands")
    )
    files = sorted((folder / "departments").iterdir(), key=lambda file: file.name)
    return Vocabulary(
        categories=tuple(
            category
            for file in files
            if file.name.endswith(".toml")
            for category in _read_department(tomllib.loads(file.read_text("utf-8")), lists, units)
        ),
        gifts={name: tuple(said) for name, said in sayings["gifts"].items()},
        fillers={position: tuple(said) for position, said in sayings["fillers"].items()},
        tiers={tier: tuple(said) for tier, said in sayings["tier"].items()},
        praise=tuple(sayings["praise"]["words"]),
        brand_halves=(tuple(brands["first"]), tuple(brands["second"])),
        lines=tuple(brands["lines"]),
    )


def _read_department(
    table: dict[str, Any], lists: dict[str, Any], units: dict[str, Any]
) -> list[Category]:
    names = [name for name, entry in table.items() if isinstance(entry, dict)]
    return [
        Category(
            names=(name, *table[name].get("also", ())),
            department=table["department"],
            values={
                slot: _read_values(table[name][SLOTS[slot]], lists.get(SLOTS[slot], {}), units)
                for slot in CATEGORY_SLOTS
                if SLOTS[slot] in table[name]
            },
            price=(float(table[name]["price"][0]), float(table[name]["price"][1])),
            needs=tuple(table[name].get("needs", ())),
            gifts=tuple(table[name].get("gifts", ())),
            broad=tuple(table["broad"]),
            season=table[name].get("season", table.get("season", "")),
            has_models=table[name].get("model", False),
        )
        for name in names
    ]


def _read_values(
    entry: str | list[str] | dict[str, list[float]],
    lists: dict[str, list[str]],
    units: dict[str, Any],
) -> tuple[Value, ...]:
    """Values from the name of a shared list, a list of "title|said|said", or {unit = numbers}."""
    if isinstance(entry, str):
        entry = lists[entry]
    if isinstance(entry, list):
        forms = [tuple(text.split("|")) for text in entry]
        return tuple(Value(headline(said[0]), said) for said in forms)
    return tuple(
        Value(
            units[unit]["title"].format(n=number),
            tuple(said.format(n=number) for said in units[unit]["said"]),
        )
        for unit, numbers in entry.items()
        for number in numbers
    )
