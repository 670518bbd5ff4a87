"""Explanation: why does a query get a product, in readable form?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from matchset.features.vectorizer import Vectorizer
from matchset.matchers.display import printable
from matchset.model.explain import LabelPath, Step, strongest
from matchset.model.packed import PackedTree
from matchset.model.products import Products

NAMED_BY = 4  # n-grams that name a node
SHOWN = 5  # n-grams for and against each step that are displayed


@dataclass(frozen=True, slots=True)
class ExplanationStep:
    """One node on the way from the root to the product."""

    level: int
    name: str  # its strongest n-grams, or the title of the product
    score: float  # of this node alone
    rank: int | None  # among the candidates of its level; None where its parent was lost
    is_kept: bool  # it stayed in the beam, or in the answer
    counted_for: tuple[tuple[str, float], ...]  # n-grams of the query and their contributions
    counted_against: tuple[tuple[str, float], ...]
    bias: float  # the same for every query


@dataclass(frozen=True, slots=True)
class Explanation:
    """The path of a product down the tree, step by step."""

    query: str
    product: str
    title: str | None
    score: float  # the product of the scores of all steps
    steps: tuple[ExplanationStep, ...]

    @property
    def lost_at(self) -> ExplanationStep | None:
        """The step at which the product fell out of the beam or the answer, if it did."""
        return next((step for step in self.steps if not step.is_kept), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"{self.query!r} and {self.product}: {self.score:.4g}; {self._verdict()}"]
        for step in self.steps:
            lines.append(
                f"  {step.level + 1}. {printable(step.name)}  score {step.score:.4g}, {_rank(step)}"
            )
            lines.append(
                f"     for: {_list(step.counted_for)}; against: {_list(step.counted_against)}"
            )
        return "\n".join(lines)

    def __rich__(self) -> Group:
        """A table for the terminal; texts are never parsed as markup."""
        table = Table("level", "node", "score", "rank", "for", "against")
        for step in self.steps:
            cells = (
                str(step.level + 1),
                printable(step.name),
                f"{step.score:.4g}",
                _rank(step),
                _list(step.counted_for),
                _list(step.counted_against),
            )
            table.add_row(*map(Text, cells))
        head = f"{printable(self.query)}  →  {self.product} {printable(self.title or '')}"
        return Group(Text(head, style="bold"), Text(f"{self.score:.4g}; {self._verdict()}"), table)

    def _verdict(self) -> str:
        lost = self.lost_at
        if lost is None:
            return f"found at rank {self.steps[-1].rank}"
        return f"lost at level {lost.level + 1} ({_rank(lost)})"


def name_path(
    found: LabelPath, query: str, products: Products, vectorizer: Vectorizer, tree: PackedTree
) -> Explanation:
    """Give names to the nodes and features of a path."""
    title = None if products.titles is None else products.titles[found.label]
    product = products.ids[found.label]
    steps = []
    for step in found.steps:
        is_product = step.level + 1 == len(found.steps)
        name = (title or product) if is_product else _name_node(step, vectorizer, tree)
        steps.append(_name_step(step, name, vectorizer))
    return Explanation(query, product, title, found.score, tuple(steps))


def _name_node(step: Step, vectorizer: Vectorizer, tree: PackedTree) -> str:
    features = strongest(tree, step.level, step.node, NAMED_BY)
    return ", ".join(vectorizer.name(int(feature)) for feature in features)


def _name_step(step: Step, name: str, vectorizer: Vectorizer) -> ExplanationStep:
    counted = [
        (vectorizer.name(int(feature)), round(float(value), 4))
        for feature, value in zip(step.features, step.contributions, strict=True)
    ]
    return ExplanationStep(
        level=step.level,
        name=name,
        score=step.score,
        rank=step.rank,
        is_kept=step.is_kept,
        counted_for=tuple(pair for pair in counted if pair[1] > 0),
        counted_against=tuple(pair for pair in counted if pair[1] < 0),
        bias=step.bias,
    )


def _rank(step: ExplanationStep) -> str:
    return "its parent was lost" if step.rank is None else f"rank {step.rank}"


def _list(pairs: Iterable[tuple[str, float]]) -> str:
    shown = [f"{printable(name)} {value:+.2f}" for name, value in list(pairs)[:SHOWN]]
    return ", ".join(shown) or "nothing"
