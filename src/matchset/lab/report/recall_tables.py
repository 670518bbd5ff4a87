"""Tables: what does each matcher find, and what does it cost?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from matchset.evaluate.significance import ALPHA
from matchset.lab.experiments.baselines import FLOOR
from matchset.lab.experiments.findings import OURS, ComparisonFindings, Cost, Row
from matchset.lab.report.formatting import (
    NOTHING,
    Html,
    cell,
    format_bytes,
    format_latency,
    format_percent,
    format_points,
    format_price,
    format_seconds,
    make_table,
    share_cell,
    tag,
)

GROUPS = {  # of the main table, in its order
    "ours": "",
    "engine": "Your engine",
    "fusion": "Together with the match set",
    "part": "Parts of the match set, each alone",
    "baseline": "Known methods",
}
LATENCIES = tuple(
    f"{part}_p{share}" for part in ("total", "vectorizing", "search") for share in (50, 99)
)


def recall_table(found: ComparisonFindings) -> Html:
    """What each matcher finds; the paper's variants are in a table of their own."""
    ks = found.setting.ks
    headers = [
        "matcher",
        *(f"Recall@{k},\u00a0%" for k in ks),
        f"compared with {_title_of(OURS, found)}, @{found.k}",
    ]
    best = {k: _find_best(found, k) for k in ks}
    body: list[Html] = []
    for group, heading in GROUPS.items():
        rows = [row for row in found.rows if row.group == group]
        if heading and rows:
            name = tag("th", heading, scope="rowgroup", colspan=str(len(headers)))
            body.append(tag("tr", name, class_="group"))
        for row in rows:
            shares = [
                share_cell(row.score(k), is_best=_looks_best(row, row.recall(k), best[k]))
                for k in ks
            ]
            body.append(make_row(row, [*shares, against_ours(row, found)], len(headers)))
    return make_table("What each matcher finds", headers, body)


def ablation_table(found: ComparisonFindings) -> Html | None:
    """The match set, and without each of its parts; None where that was not run."""
    rows = found.present("ours", "ablation")
    if not found.present("ablation"):
        return None
    ks = found.setting.ks
    headers = [
        "parts",
        *(f"Recall@{k},\u00a0%" for k in ks),
        f"compared with all parts, @{found.k}",
    ]
    body = [
        make_row(row, [*(share_cell(row.score(k)) for k in ks), against_ours(row, found)], 0)
        for row in rows
    ]
    return make_table("The match set without each part", headers, body)


def _title_of(name: str, found: ComparisonFindings) -> str:
    return next((row.title for row in found.rows if row.name == name), name)


def _find_best(found: ComparisonFindings, k: int) -> float:
    rows = [row for row in found.present() if row.name != FLOOR and row.group in GROUPS]
    return max((row.recall(k) for row in rows), default=0.0)


def _looks_best(row: Row, value: float, best: float) -> bool:
    """Whether a value looks like the best of its column once formatted."""
    return row.name != FLOOR and format_percent(value) == format_percent(best)


def cost_table(found: ComparisonFindings) -> Html:
    """What each matcher costs: training time, disk, time per query."""
    rows = [(row, row.cost) for row in found.present("ours", "fusion", "baseline")]
    costs = [cost for row, cost in rows if cost is not None and row.name != FLOOR]
    has_price = any(cost.price is not None for cost in costs)
    headers = ["matcher", "training", *(["price"] if has_price else []), "on disk", "query, p50"]
    headers += ["p99", "vectorizing, p50", "p99", "search, p50", "p99"]
    body = []
    for row, cost in rows:
        if cost is not None:
            is_floor = row.name == FLOOR
            cells = _cost_cells(cost, [] if is_floor else costs, has_price=has_price)
            body.append(make_row(row, cells, len(headers)))
    return make_table("What each matcher costs", headers, body)


def _cost_cells(cost: Cost, others: Sequence[Cost], *, has_price: bool) -> list[Html | None]:
    """Cells of a row; those that look like the least of their column are bold."""

    def make(value: float, show: Callable[[float], str], column: Iterable[float]) -> Html:
        least = min(filter(None, column), default=0.0)
        is_best = bool(others) and NOTHING != show(value) == show(least)
        return cell(show(value), value, is_best=is_best)

    price = cell(NOTHING if cost.price is None else format_price(cost.price), cost.price)
    return [
        make(cost.train_seconds, format_seconds, [each.train_seconds for each in others]),
        price if has_price else None,
        make(cost.disk_bytes, format_bytes, [each.disk_bytes for each in others]),
        *(
            make(cost.latency[name], format_latency, [each.latency[name] for each in others])
            for name in LATENCIES
        ),
    ]


def make_row(row: Row, cells: Sequence[Html | None], n_columns: int) -> Html:
    """A row of a table, or the reason why it is empty."""
    note = tag("small", row.note) if row.note else None
    name = tag("th", row.title, note, scope="row")
    if row.absent:
        reason = tag("td", row.absent, class_="absent", colspan=str(n_columns - 1))
        return tag("tr", name, reason, class_="quiet", data_row=row.name)
    kind = "ours" if row.name == OURS else "quiet" if row.name == FLOOR else None
    return tag("tr", name, *cells, class_=kind, data_row=row.name)


def against_ours(row: Row, found: ComparisonFindings) -> Html:
    """How far a row is ahead of ours."""
    gap = found.difference(OURS, row.name)
    if gap is None:
        return tag("td", NOTHING, class_="n")
    title = (
        f"95 % interval: {format_points(-gap.high)} to {format_points(-gap.low)}; "
        f"p = {gap.p_holm:.4f} (Holm)"
    )
    note = "" if gap.p_holm < ALPHA else " (not significant)"
    return cell(format_points(-gap.value) + note, gap.value, title=title)


def segment_table(found: ComparisonFindings) -> Html:
    """Recall of each matcher in each segment."""
    rows = [row for row in found.present() if row.group in GROUPS]
    scores = [s for s in rows[0].scores if s.metric == "recall" and s.k == found.k]
    headers = ["matcher", *(f"{s.segment} ({s.queries:,})" for s in scores)]
    body = []
    for row in rows:
        cells = [share_cell(row.score(found.k, score.segment)) for score in scores]
        body.append(tag("tr", tag("th", row.title, scope="row"), *cells))
    return make_table(f"Recall@{found.k} by segment", headers, body)
