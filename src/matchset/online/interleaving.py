"""Interleaving: how does one customer see the products of two arms, and whom is each credited to?

Team draft after Radlinski, Kurup and Joachims (How Does Clickthrough Data Reflect Retrieval
Quality?, CIKM 2008): in each round both arms draft their best product that is still free, and a
coin decides which is first. Coins depend on experiment, unit and query alone, so that a reload
shows the same list, and a longer list begins with the shorter one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from matchset.online.assignment import flip_coins
from matchset.online.definition import Experiment
from matchset.text import normalize

Origin: TypeAlias = Literal["a", "b", "both"]  # a: the first arm of the experiment
BOTH: Origin = "both"


@dataclass(frozen=True, slots=True)
class Interleaved:
    """One list of two arms."""

    ids: tuple[str, ...]
    origins: tuple[Origin, ...]  # whom each product is credited to; records call it `from`


def interleave(
    experiment: Experiment, unit: str, query: str, a: Sequence[str], b: Sequence[str], k: int
) -> Interleaved:
    """Return the first k products that two arms draft; a and b are ids, best first, none twice."""
    a, b = list(a), list(b)
    coins = flip_coins(experiment, unit, normalize(query), min(k, max(len(a), len(b), 1)))
    ids, teams = draft(a, b, k, coins)
    if experiment.mode == "team_draft":
        n_common = next((i for i in range(len(ids)) if a[i : i + 1] != b[i : i + 1]), len(ids))
        shared = set(a[:n_common])  # drafted by chance: says nothing about either arm
        origins: list[Origin] = [
            "both" if product in shared else team for product, team in zip(ids, teams, strict=True)
        ]
    else:
        in_a, in_b = set(a), set(b)
        origins = [
            "both" if product in in_a and product in in_b else "a" if product in in_a else "b"
            for product in ids
        ]
    return Interleaved(tuple(ids), tuple(origins))


def draft(
    a: Sequence[str], b: Sequence[str], k: int, coins: Sequence[bool]
) -> tuple[list[str], list[Origin]]:
    """Draft products in turns; return them and by whom. Where a coin is true, a is first."""
    ids: list[str] = []
    teams: list[Origin] = []
    taken: set[str] = set()
    best: dict[Origin, Iterator[str]] = {"a": iter(a), "b": iter(b)}
    orders: tuple[tuple[Origin, Origin], ...] = (("b", "a"), ("a", "b"))
    for coin in coins:
        for team in orders[coin]:
            for product in best[team]:
                if product not in taken:
                    taken.add(product)
                    ids.append(product)
                    teams.append(team)
                    break
    return ids[:k], teams[:k]
