"""Tables: which numbers of a comparison stand in which row and column?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

from matchset.evaluate.evaluation import Score
from matchset.evaluate.overlap import Share
from matchset.evaluate.significance import ALPHA
from matchset.lab.experiments.baseline_rows import FLOOR
from matchset.lab.experiments.findings import OURS, ComparisonFindings, Cost, MatchSetFacts, Row
from matchset.lab.report.formats import (
    NOTHING,
    format_bytes,
    format_latency,
    format_percent,
    format_points,
    format_seconds,
)
from matchset.matchers.display import percent, with_margin
from matchset.model.reranker import SITUATIONS

GROUPS = {  # of the main table, in its order
    "ours": "",
    "engine": "Your engine",
    "fusion": "Together with the match set",
    "part": "Parts of the match set, each alone",
    "baseline": "Known methods",
}


def _latency(name: str) -> Column:
    return lambda cost: cost.latency[name], format_latency


Column: TypeAlias = tuple[Callable[[Cost], float], Callable[[float], str]]
COSTS: dict[str, Column] = {  # a header: which number, and how it is written
    "training": (lambda cost: cost.train_seconds, format_seconds),
    "on disk": (lambda cost: cost.disk_bytes, format_bytes),
    "query, p50": _latency("total_p50"),
    "query, p99": _latency("total_p99"),
    "vectorizing, p50": _latency("vectorizing_p50"),
    "vectorizing, p99": _latency("vectorizing_p99"),
    "search, p50": _latency("search_p50"),
    "search, p99": _latency("search_p99"),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A formatted number with its exact value, or a text."""

    text: str
    value: float | None = None
    small: str = ""  # after the text, such as a margin
    title: str = ""  # shown on hovering
    is_best: bool = False
    kind: str = "n"  # class of style


@dataclass(frozen=True, slots=True)
class Line:
    """A row of a table."""

    title: str
    cells: Sequence[Cell]
    name: str = ""  # for programs
    note: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose lines stand in groups; the first `n_texts` columns hold text."""

    label: str
    headers: Sequence[str]
    groups: Mapping[str, Sequence[Line]]
    n_texts: int = 1


def share_cell(share: Score | Share | None, *, is_best: bool = False) -> Cell:
    """Return a share in percent with its margin, and with its interval on hovering."""
    if share is None or share.value != share.value:
        return Cell(NOTHING)
    number, _, margin = with_margin(share.value, share.low, share.high).partition(" ")
    title = f"95 % interval: {format_percent(share.low)} to {format_percent(share.high)}"
    return Cell(number, share.value, margin, title, is_best)


def recall_headers(ks: Iterable[int]) -> list[str]:
    """Return the headers of recall at each k."""
    return [f"Recall@{k},\u00a0%" for k in ks]


def make_line(row: Row, cells: Sequence[Cell]) -> Line:
    """Return the line of a matcher."""
    kind = "ours" if row.name == OURS else "quiet" if row.name == FLOOR else ""
    return Line(row.title, cells, row.name, row.note, kind)


def gap_cell(row: Row, results: ComparisonFindings) -> Cell:
    """Return how far a row is ahead of ours."""
    gap = results.difference(OURS, row.name)
    if gap is None:
        return Cell(NOTHING)
    title = (
        f"95 % interval: {format_points(-gap.high)} to {format_points(-gap.low)}; "
        f"p = {gap.p_holm:.4f} (Holm)"
    )
    note = "" if gap.p_holm < ALPHA else " (not significant)"
    return Cell(format_points(-gap.value) + note, gap.value, title=title)


def recall_table(results: ComparisonFindings) -> Table:
    """List what each matcher finds; the paper's variants are in a table of their own."""
    ks = results.setting.ks
    rows = [row for row in results.present(*GROUPS) if row.name != FLOOR]
    best = {k: format_percent(max((row.recall(k) for row in rows), default=0.0)) for k in ks}

    def list_cells(row: Row) -> list[Cell]:
        is_best = {k: row in rows and format_percent(row.recall(k)) == best[k] for k in ks}
        cells = [share_cell(row.score(k), is_best=is_best[k]) for k in ks]
        return [*cells, gap_cell(row, results)]

    ours = results.title_of(OURS)
    headers = ["matcher", *recall_headers(ks), f"compared with {ours}, @{results.k}"]
    groups = {
        heading: [make_line(row, list_cells(row)) for row in results.present(group)]
        for group, heading in GROUPS.items()
    }
    return Table("What each matcher finds", headers, groups)


def ablation_table(results: ComparisonFindings) -> Table:
    """List the match set, and the match set without each of its parts."""
    ks = results.setting.ks
    headers = ["parts", *recall_headers(ks), f"compared with all parts, @{results.k}"]
    lines = [
        make_line(row, [*(share_cell(row.score(k)) for k in ks), gap_cell(row, results)])
        for row in results.present("ours", "ablation")
    ]
    return Table("The match set without each part", headers, {"": lines})


def cost_table(results: ComparisonFindings) -> Table:
    """List what each matcher costs; the least of each column is bold."""
    rows = [row for row in results.present("ours", "fusion", "baseline") if row.cost is not None]
    costs = {row.name: row.cost for row in rows if row.cost is not None}

    def list_cells(name: str) -> Iterator[Cell]:
        for get, show in COSTS.values():
            value = get(costs[name])
            others = (get(costs[each]) for each in costs if each != FLOOR)
            least = min(filter(None, others), default=0.0)
            is_best = name != FLOOR and NOTHING != show(value) == show(least)
            yield Cell(show(value), value, is_best=is_best)

    lines = [make_line(row, list(list_cells(row.name))) for row in rows]
    return Table("What each matcher costs", ["matcher", *COSTS], {"": lines})


def segment_table(results: ComparisonFindings) -> Table:
    """List the recall of each matcher in each segment."""
    rows = results.present(*GROUPS)
    scores = [s for s in rows[0].scores if s.metric == "recall" and s.k == results.k]
    headers = ["matcher", *(f"{s.segment} ({s.queries:,})" for s in scores)]
    lines = [
        Line(row.title, [share_cell(row.score(results.k, score.segment)) for score in scores])
        for row in rows
    ]
    return Table(f"Recall@{results.k} by segment", headers, {"": lines})


def cutoff_table(facts: MatchSetFacts, k: int) -> Table:
    """List recall and size of the match set at each least score."""
    lines = [
        Line(
            f"{cut.min_score:g}",
            [
                Cell(percent(cut.recall), cut.recall),
                Cell(percent(cut.recall_by_traffic), cut.recall_by_traffic),
                Cell(f"{cut.size:.1f}", cut.size),
                Cell(percent(cut.empty), cut.empty),
            ],
        )
        for cut in facts.cutoffs
    ]
    headers = ["min_score", *recall_headers([k]), "by traffic,\u00a0%", "products per query"]
    headers.append("queries without an answer,\u00a0%")
    return Table("Recall and size by min_score", headers, {"": lines})


def part_table(facts: MatchSetFacts) -> Table:
    """List what each part takes, and what was lost without it on validation queries."""
    recall = facts.learned.get("recall") or {}
    whole = recall.get("all")
    lines = []
    for part, n_bytes in facts.part_bytes.items():
        left = recall.get(f"without {part}")
        worth = [NOTHING] * 3
        if whole is not None and left is not None:
            worth = [format_points(one - other) for one, other in zip(whole, left, strict=True)]
        lines.append(Line(part, [Cell(format_bytes(n_bytes), n_bytes), *map(Cell, worth)]))
    headers = ["part", "in memory", *(f"worth at {k}, points" for k in (10, 50, 100))]
    return Table("Parts of the match set", headers, {"": lines})


def weight_table(facts: MatchSetFacts) -> Table:
    """List the weights of each feature: for cold and warm products in each situation."""
    lines = [
        Line(feature, [Cell(f"{value:.3g}", value) for value in weights])
        for feature, weights in facts.weights.items()
    ]
    headers = [f"{name}, {kind} product" for name, kind in product(SITUATIONS, ("cold", "warm"))]
    return Table("Weights of the re-ranker", ["feature", *headers], {"": lines})
