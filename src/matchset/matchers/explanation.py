"""Explanation: why does a query get a product, in readable form?

One value for every matcher that can explain: what each part adds, where there are parts, and the
path through the tree, where there is one. Its JSON is that of the server, the page and the client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from rich.console import Group
from rich.text import Text

from matchset.matchers.display import Grid, printable, to_plain, to_rich

_SHOWN = 8  # words of a cell


@dataclass(frozen=True, slots=True)
class Contribution:
    """A word of the query, and what it adds."""

    word: str
    weight: float


@dataclass(frozen=True, slots=True)
class ExplanationStep:
    """One node on the way from the root of the tree to the product."""

    level: int
    name: str  # its strongest words of the query and the title; for the last one the product
    score: float  # of this node alone
    rank: int | None  # among the candidates of its level; None where its parent was lost
    is_kept: bool  # it stayed in the beam, or in the answer
    bias: float  # the same for every query
    words: tuple[Contribution, ...]


@dataclass(frozen=True, slots=True)
class ExplanationPart:
    """What one part of a match set knows of the product."""

    name: str
    share: float  # of the linear score
    note: str  # at which rank it proposed the product, or why it did not
    is_proposed: bool | None = None  # None where it is no candidate source
    rank: int | None = None  # by its own score, among all that it read
    words: tuple[Contribution, ...] = ()  # in units of the part's own score


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a product was found, or why not."""

    query: str
    product: str
    title: str | None
    score: float  # what `match` gives it; else what it would get
    rank: int | None  # in the answer, or among the candidates; None where it is neither
    is_returned: bool
    verdict: str  # a sentence without its period
    is_allowed: bool = True  # by the filter
    linear: float | None = None  # the sum of what the parts add; None for a tree alone
    parts: tuple[ExplanationPart, ...] = ()
    steps: tuple[ExplanationStep, ...] = ()  # of the path through the tree

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Self:
        """Read what `to_dict` gave; a KeyError or TypeError if it is none."""
        values = {each.name: stored[each.name] for each in fields(cls)}
        for name, kind in (("parts", ExplanationPart), ("steps", ExplanationStep)):
            values[name] = tuple(
                kind(**{**row, "words": tuple(Contribution(**word) for word in row["words"])})
                for row in stored[name]
            )
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join([*self._heads(), *map(to_plain, self._grids())])

    def __rich__(self) -> Group:
        """Return tables for the terminal; texts are never parsed as markup."""
        head, verdict = self._heads()
        return Group(Text(head, style="bold"), Text(verdict), *map(to_rich, self._grids()))

    def _heads(self) -> tuple[str, str]:
        head = " ".join(map(printable, (self.query, "→", self.product, self.title or "")))
        linear = "" if self.linear is None else f" (linear score {self.linear:.3f})"
        return head.strip(), f"{self.score:.4g}{linear}; {self.verdict}"

    def _grids(self) -> Iterator[Grid]:
        if self.parts:
            rows = [(p.name, f"{p.share:+.3f}", p.note, _list(p.words)) for p in self.parts]
            headers = ("part", "adds", "how", "words of the query")
            yield Grid("What each part adds", headers, rows, len(rows))
        if self.steps:
            headers = ("node", "score", "rank", "words of the query")
            rows = [
                (printable(s.name), f"{s.score:.4g}", show_rank(s.rank), _list(s.words))
                for s in self.steps
            ]
            yield Grid("Path through the tree", headers, rows, len(rows))


def show_rank(rank: int | None) -> str:
    """Return the rank of a step in words."""
    return "its parent was lost" if rank is None else f"rank {rank:,}"


def _list(words: Iterable[Contribution]) -> str:
    shown = [f"{printable(each.word)} {each.weight:+.2f}" for each in words]
    return ", ".join(shown[:_SHOWN])
