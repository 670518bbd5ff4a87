"""Tables: what does each matcher find and cost, and what did the paper report?

The paper's figures, from "Extreme Multi-label Learning for Semantic Matching in Product Search",
KDD 2021, are for orientation only: 100 million products of a data set that is not public, on 128
processors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from matchset.evaluate.significance import ALPHA
from matchset.lab.experiments.contenders import FLOOR, GRAPH, LEXICAL, OURS
from matchset.lab.experiments.vocabularies import BIGRAMS, MORE_BIGRAMS, TRIGRAMS, UNIGRAMS
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
    share_cell,
    tag,
)


class Reported(NamedTuple):
    """A result of the paper: Recall@100 in percent, and milliseconds per query if given."""

    recall: float
    milliseconds: float | None = None


PAPER_ROWS: Mapping[str, Reported] = {
    UNIGRAMS: Reported(54.86),
    BIGRAMS: Reported(57.70),  # 3 million features
    MORE_BIGRAMS: Reported(58.88),  # 5.6 million features
    TRIGRAMS: Reported(60.30),
    GRAPH: Reported(36.19, 3.13),
    LEXICAL: Reported(21.72),
}
PAPER_BEAMS: Mapping[int, Reported] = {  # at threshold 0.35
    1: Reported(20.95),
    10: Reported(57.63),
    15: Reported(60.94, 1.25),
    50: Reported(65.74, 3.48),
}
PAPER_PRUNING = (
    "In the paper, on other data, a threshold of 0.45 instead of 0.1 shrinks the model from 295 GB "
    "to 62 GB and costs 5.4 points of Recall@100."
)
PAPER_SOURCE = (
    "Chang et al., Extreme Multi-label Learning for Semantic Matching in Product Search, KDD 2021: "
    "100 million products, a log that is not public. Its numbers are for orientation only: data "
    "and machine are different."
)
LATENCIES = tuple(
    f"{part}_p{share}" for part in ("total", "vectorizing", "search") for share in (50, 99)
)
Row = Mapping[str, Any]
Findings = Mapping[str, Any]


def wide(*children: Html, label: str) -> Html:
    """A region that scrolls horizontally on a narrow page."""
    return tag("div", *children, class_="wide", tabindex="0", role="region", aria_label=label)


def make_table(
    label: str, headers: Iterable[str], rows: Iterable[Html], *, n_texts: int = 1
) -> Html:
    """A table; the first column names the rows, and the first `n_texts` columns are text."""
    head = [
        tag("th", header, scope="col", class_="n" if column >= n_texts else None)
        for column, header in enumerate(headers)
    ]
    table = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows))
    return wide(table, label=label)


def recall_of(row: Row, k: int, segment: str = "all") -> Row:
    """The recall of a row with its interval and ceiling."""
    for score in row["scores"]:
        if (score["segment"], score["metric"], score["k"]) == (segment, "recall", k):
            return dict(score)
    return {"value": None, "low": None, "high": None, "ceiling": None}


def recall_table(findings: Findings) -> Html:
    """What each matcher finds: the paper's main table, on this data."""
    rows, ks = findings["rows"], findings["ks"]
    deepest = max(ks)
    headers = [
        "matcher",
        *(f"Recall@{k},\u00a0%" for k in ks),
        f"compared with {_title_of(OURS, rows)}, @{deepest}",
        "the paper (other data), @100",
        "n-grams",
    ]
    best = _find_best(rows, ks)

    def cells(row: Row) -> list[Html]:
        shares = ((k, recall_of(row, k)) for k in ks)
        return [
            *(
                share_cell(s, is_best=_is_best(row, f"recall{k}", s["value"], best, format_percent))
                for k, s in shares
            ),
            _against(row, deepest),
            _paper_cell(row["name"]),
            cell(NOTHING if row["features"] is None else f"{row['features']:,}", row["features"]),
        ]

    body = [_make_row(row, cells, n_columns=len(headers)) for row in rows]
    body.append(_ceiling_row(rows, ks, n_columns=len(headers)))
    return make_table("What each matcher finds", headers, body)


def _title_of(name: str, rows: Sequence[Row]) -> str:
    return str(next(row["title"] for row in rows if row["name"] == name))


def cost_table(findings: Findings) -> Html:
    """What each matcher costs: training time, disk, time per query."""
    rows = findings["rows"]
    has_cost = any(row.get("cost") is not None for row in rows)
    headers = [
        "matcher",
        "training",
        *(["cost"] if has_cost else []),
        "on disk",
        "query, p50",
        "p99",
        "vectorizing, p50",
        "p99",
        "search, p50",
        "p99",
    ]
    best = _find_best(rows, findings["ks"])

    def cells(row: Row) -> list[Html | None]:
        def make_cell(column: str, value: float, show: Callable[[float], str]) -> Html:
            return cell(show(value), value, is_best=_is_best(row, column, value, best, show))

        return [
            make_cell("train_seconds", row["train_seconds"], format_seconds),
            cell(format_price(row["cost"]), row["cost"]) if has_cost else None,
            make_cell("disk_bytes", row["disk_bytes"], format_bytes),
            *(make_cell(name, row["latency"][name], format_latency) for name in LATENCIES),
        ]

    present = [row for row in rows if row["absent"] is None]
    body = [_make_row(row, cells, n_columns=len(headers)) for row in present]
    return make_table("What each matcher costs", headers, body)


def _find_best(rows: Sequence[Row], ks: Sequence[int]) -> dict[str, float]:
    """The best value of each column, without the floor and without times of zero."""
    present = [row for row in rows if row["absent"] is None and row["name"] != FLOOR]
    if not present:
        return {}
    best = {f"recall{k}": max(recall_of(row, k)["value"] for row in present) for k in ks}
    for name in ("train_seconds", "disk_bytes"):
        best[name] = min(row[name] for row in present)
    for name in LATENCIES:
        best[name] = min(filter(None, (row["latency"][name] for row in present)), default=0.0)
    return best


def _is_best(
    row: Row, column: str, value: float, best: Mapping[str, float], show: Callable[[float], str]
) -> bool:
    """Whether a value looks like the best of its column once formatted."""
    return row["name"] != FLOOR and NOTHING != show(value) == show(best[column])


def _make_row(row: Row, cells: Callable[[Row], Sequence[Html | None]], *, n_columns: int) -> Html:
    name = tag("th", row["title"], scope="row")
    if row["absent"] is not None:
        reason = tag("td", row["absent"], class_="absent", colspan=str(n_columns - 1))
        return tag("tr", name, reason, class_="quiet", data_row=row["name"])
    kind = "ours" if row["name"] == OURS else "quiet" if row["name"] == FLOOR else None
    return tag("tr", name, *cells(row), class_=kind, data_row=row["name"])


def _against(row: Row, k: int) -> Html:
    found = row["against_ours"].get(str(k))
    if found is None:
        return tag("td", NOTHING, class_="n")
    title = (
        f"95 % interval: {format_points(found['low'])} to {format_points(found['high'])}; "
        f"p = {found['p_holm']:.4f} (Holm)"
    )
    note = "" if found["p_holm"] < ALPHA else " (not significant)"
    return cell(format_points(found["value"]) + note, found["value"], title=title)


def _paper_cell(name: str) -> Html:
    reported = PAPER_ROWS.get(name)
    if reported is None:
        return tag("td", class_="n paper")
    return tag("td", f"{reported.recall:.2f}", class_="n paper")


def _ceiling_row(rows: Sequence[Row], ks: Sequence[int], *, n_columns: int) -> Html:
    present = [row for row in rows if row["absent"] is None]
    ceilings = [recall_of(present[0], k)["ceiling"] for k in ks] if present else []
    cells = [cell(format_percent(value).removesuffix("\u00a0%"), value) for value in ceilings]
    name = tag("th", "Ceiling without titles", scope="row")
    rest = tag("td", colspan=str(n_columns - 1 - len(cells)))
    return tag("tr", name, *cells, rest, class_="quiet")


def segment_table(findings: Findings) -> Html:
    """Recall of each matcher in each segment."""
    rows = [row for row in findings["rows"] if row["absent"] is None]
    k = max(findings["ks"])
    scores = [s for s in rows[0]["scores"] if s["metric"] == "recall" and s["k"] == k]
    segments = [score["segment"] for score in scores]
    headers = ["matcher", *(f"{s['segment']} ({s['queries']:,})" for s in scores)]
    body = []
    for row in rows:
        cells = [share_cell(recall_of(row, k, segment)) for segment in segments]
        body.append(tag("tr", tag("th", row["title"], scope="row"), *cells))
    return make_table(f"Recall@{k} by segment", headers, body)


def threshold_table(sweep: Findings) -> Html:
    """What pruning costs, and what it gains."""
    headers = [
        "threshold",
        *(f"Recall@{k},\u00a0%" for k in sweep["ks"]),
        *("weights", "on disk", "tree in memory", "p50", "p99", "vectorizing, p50", "search, p50"),
    ]
    body = []
    for row in sweep["thresholds"]:
        cells = [
            *(share_cell(row["recall"][str(k)]) for k in sweep["ks"]),
            cell(f"{row['weights']:,}", row["weights"]),
            cell(format_bytes(row["disk_bytes"]), row["disk_bytes"]),
            cell(format_bytes(row["memory_bytes"]), row["memory_bytes"]),
            *_latency_cells(row["latency"]),
        ]
        body.append(tag("tr", tag("th", f"{row['threshold']:g}", scope="row"), *cells))
    return make_table("Pruning", headers, body)


def beam_table(sweep: Findings, rows: Sequence[Row], setting: str, label: str) -> Html:
    """What a wider beam, or a longer search of a graph, costs, and what it gains."""
    headers = [
        label,
        *(f"Recall@{k},\u00a0%" for k in sweep["ks"]),
        *("p50", "p99", "vectorizing, p50", "search, p50", "queries per second"),
    ]
    is_beam = setting == "beam"
    if is_beam:
        headers.append("the paper (other data), @100")
    body = []
    for row in rows:
        cells = [
            *(share_cell(row["recall"][str(k)]) for k in sweep["ks"]),
            *_latency_cells(row["latency"]),
            cell(f"{row['queries_per_second']:,.0f}", row["queries_per_second"]),
            _paper_beam(row["beam"]) if is_beam else None,
        ]
        body.append(tag("tr", tag("th", str(row[setting]), scope="row"), *cells))
    return make_table(label, headers, body)


def _latency_cells(latency: Mapping[str, float]) -> list[Html]:
    names = ("total_p50", "total_p99", "vectorizing_p50", "search_p50")
    return [cell(format_latency(latency[name]), latency[name]) for name in names]


def _paper_beam(beam: int) -> Html:
    reported = PAPER_BEAMS.get(beam)
    if reported is None:
        return tag("td", class_="n paper")
    time = "" if reported.milliseconds is None else f", {reported.milliseconds:g} ms"
    return tag("td", f"{reported.recall:.2f}{time}", class_="n paper")
