"""Explanation: why does a query get a product, in readable form?

One shape for every matcher that can explain: what each part adds, where there are parts, and the
path through the tree, where there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from rich.console import Group
from rich.table import Table
from rich.text import Text

from matchset.matchers.display import printable

SHOWN = 5  # n-grams or words for and against that are displayed
Weights: TypeAlias = tuple[tuple[str, float], ...]  # words or n-grams, and what each adds


@dataclass(frozen=True, slots=True)
class ExplanationStep:
    """One node on the way from the root to the product."""

    level: int
    name: str  # its strongest n-grams, or the title of the product
    score: float  # of this node alone
    rank: int | None  # among the candidates of its level; None where its parent was lost
    is_kept: bool  # it stayed in the beam, or in the answer
    counted_for: Weights  # n-grams of the query and their contributions
    counted_against: Weights
    bias: float  # the same for every query


@dataclass(frozen=True, slots=True)
class ExplanationPart:
    """What one part of a match set knows of the product."""

    name: str
    share: float  # of the linear score
    note: str  # at which rank it proposed the product, or why it did not
    is_proposed: bool | None = None  # None where it is no candidate source
    rank: int | None = None  # by its own score, among all that it read
    words: Weights = ()  # words of the query and what each adds, in units of the part's own score


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
    parts: tuple[ExplanationPart, ...] = ()
    steps: tuple[ExplanationStep, ...] = ()  # of the path through the tree
    is_allowed: bool = True  # by the filter
    linear: float | None = None  # the sum of what the parts add

    @property
    def lost_at(self) -> ExplanationStep | None:
        """The step at which a tree lost the product; None where other parts decide too."""
        return None if self.parts else next((s for s in self.steps if not s.is_kept), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; `read_explanation` reads them."""
        lost = self.lost_at
        return {
            "query": self.query,
            "product": {"id": self.product, "title": self.title},
            "score": self.score,
            "linear": self.linear,
            "is_allowed": self.is_allowed,
            "is_returned": self.is_returned,
            "rank": self.rank,
            "verdict": self.verdict,
            "lost_at": None if lost is None else lost.level,
            "parts": [_part_to_dict(part) for part in self.parts],
            "steps": [_step_to_dict(step) for step in self.steps],
        }

    def __str__(self) -> str:
        lines = [f"{self.query!r} and {self.product}: {self._headline()}"]
        width = max((len(part.name) for part in self.parts), default=0)
        for part in self.parts:
            words = f"; {_list(part.words)}" if part.words else ""
            lines.append(f"  {part.name:<{width}}  {part.share:+8.3f}  {part.note}{words}")
        if self.parts and self.steps:
            lines.append("  path through the tree:")
        for step in self.steps:
            reached = f"score {step.score:.4g}, {show_rank(step)}"
            lines.append(f"  {step.level + 1}. {printable(step.name)}  {reached}")
            lines.append(
                f"     for: {_list(step.counted_for)}; against: {_list(step.counted_against)}"
            )
        return "\n".join(lines)

    def __rich__(self) -> Group:
        """Tables for the terminal; texts are never parsed as markup."""
        head = f"{printable(self.query)}  →  {self.product} {printable(self.title or '')}"
        shown: list[Text | Table] = [Text(head, style="bold"), Text(self._headline())]
        if self.parts:
            shown.append(self._tabulate_parts())
        if self.parts and self.steps:
            shown.append(Text("Path through the tree", style="bold"))
        if self.steps:
            shown.append(self._tabulate_steps())
        return Group(*shown)

    def _tabulate_parts(self) -> Table:
        table = Table("part", "adds", "how", "words of the query")
        table.columns[1].justify = "right"
        for part in self.parts:
            words = _list(part.words) if part.words else ""
            table.add_row(*map(Text, (part.name, f"{part.share:+.3f}", part.note, words)))
        return table

    def _tabulate_steps(self) -> Table:
        table = Table("level", "node", "score", "rank", "for", "against")
        for step in self.steps:
            cells = (
                str(step.level + 1),
                printable(step.name),
                f"{step.score:.4g}",
                show_rank(step),
                _list(step.counted_for),
                _list(step.counted_against),
            )
            table.add_row(*map(Text, cells))
        return table

    def _headline(self) -> str:
        linear = "" if self.linear is None else f" (linear score {self.linear:.3f})"
        return f"{self.score:.4g}{linear}; {self.verdict}"


def _part_to_dict(part: ExplanationPart) -> dict[str, Any]:
    return {
        "name": part.name,
        "share": part.share,
        "note": part.note,
        "is_proposed": part.is_proposed,
        "rank": part.rank,
        "words": _weights_to_dicts(part.words),
    }


def _step_to_dict(step: ExplanationStep) -> dict[str, Any]:
    return {
        "level": step.level,
        "name": step.name,
        "score": step.score,
        "rank": step.rank,
        "in_beam": step.is_kept,
        "bias": step.bias,
        "for": _weights_to_dicts(step.counted_for),
        "against": _weights_to_dicts(step.counted_against),
    }


def _weights_to_dicts(weights: Weights) -> list[dict[str, Any]]:
    return [{"ngram": ngram, "weight": weight} for ngram, weight in weights]


def read_explanation(stored: Mapping[str, Any]) -> Explanation:
    """An explanation from what `to_dict` gave; a KeyError or TypeError if it is none."""
    parts = tuple(
        ExplanationPart(**{**part, "words": _read_weights(part["words"])})
        for part in stored["parts"]
    )
    steps = tuple(
        ExplanationStep(
            level=step["level"],
            name=step["name"],
            score=step["score"],
            rank=step["rank"],
            is_kept=step["in_beam"],
            counted_for=_read_weights(step["for"]),
            counted_against=_read_weights(step["against"]),
            bias=step["bias"],
        )
        for step in stored["steps"]
    )
    names = ("query", "score", "rank", "is_returned", "verdict", "is_allowed", "linear")
    product = stored["product"]
    return Explanation(
        product=product["id"],
        title=product.get("title"),
        parts=parts,
        steps=steps,
        **{name: stored[name] for name in names},
    )


def _read_weights(stored: Iterable[Mapping[str, Any]]) -> Weights:
    return tuple((each["ngram"], each["weight"]) for each in stored)


def show_rank(step: ExplanationStep) -> str:
    """The rank of a step in words."""
    return "its parent was lost" if step.rank is None else f"rank {step.rank:,}"


def _list(pairs: Iterable[tuple[str, float]]) -> str:
    shown = [f"{printable(name)} {value:+.2f}" for name, value in list(pairs)[:SHOWN]]
    return ", ".join(shown) or "nothing"
