"""Paper tables: what did the paper report, does its order hold here, what do sweeps cost?

The paper's figures, from "Extreme Multi-label Learning for Semantic Matching in Product Search",
KDD 2021, are for orientation only: 100 million products of a data set that is not public, on 128
processors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matchset.lab.experiments.baseline_rows import LEXICAL
from matchset.lab.experiments.claims import CONFIRMED, REVERSED, Claim, check_claims
from matchset.lab.experiments.findings import ComparisonFindings, SweepFindings, SweepRow
from matchset.lab.experiments.paper_rows import GRAPH
from matchset.lab.experiments.vocabularies import BIGRAMS, MORE_BIGRAMS, TRIGRAMS, UNIGRAMS
from matchset.lab.report.comparison_tables import (
    Cell,
    Line,
    Table,
    gap_cell,
    make_line,
    recall_headers,
    share_cell,
)
from matchset.lab.report.formats import NOTHING, format_bytes, format_latency, format_points

PAPER_RECALL: Mapping[str, float] = {  # Recall@100 in percent
    UNIGRAMS: 54.86,
    BIGRAMS: 57.70,  # 3 million features
    MORE_BIGRAMS: 58.88,  # 5.6 million features
    TRIGRAMS: 60.30,
    GRAPH: 36.19,
    LEXICAL: 21.72,
}
LATENCY_HEADERS = ("p50", "p99", "vectorizing, p50", "search, p50")


def paper_table(results: ComparisonFindings) -> Table:
    """List the rows of the paper's table, on this data."""
    ks = results.setting.ks
    headers = [
        "matcher",
        *recall_headers(ks),
        f"compared with ours, @{results.k}",
        "the paper (other data), @100",
        "n-grams",
    ]
    lines = [
        make_line(
            row,
            [
                *(share_cell(row.score(k)) for k in ks),
                gap_cell(row, results),
                Cell(f"{PAPER_RECALL[row.name]:.2f}", kind="n paper"),
                Cell(NOTHING if row.features is None else f"{row.features:,}", row.features),
            ],
        )
        for row in results.present()
        if row.name in PAPER_RECALL
    ]
    return Table("The paper's table", headers, {"": lines})


def order_table(results: ComparisonFindings) -> Table:
    """List each pair of the paper's order, tested here at each k: it may change with k."""
    ks = results.setting.ks
    headers = ["the paper's order", *(f"Recall@{k}, points" for k in ks)]
    lines = []
    for claims in zip(*(check_claims(results.differences, k) for k in ks), strict=True):
        pair = [results.title_of(name) for name in (claims[0].better, claims[0].worse)]
        lines.append(Line(" over ".join(pair), [_verdict_cell(claim) for claim in claims]))
    return Table("The paper's order", headers, {"": lines}, n_texts=len(headers))


def _verdict_cell(claim: Claim) -> Cell:
    verdict, gap = claim.verdict, claim.difference
    kind = f"verdict {verdict}" if verdict in (CONFIRMED, REVERSED) else "verdict"
    if gap is None:
        return Cell(verdict, kind=kind)
    interval = f"{format_points(gap.low)} to {format_points(gap.high)}"
    return Cell(verdict, small=f"{format_points(gap.value)} ({interval})", kind=kind)


def threshold_table(sweep: SweepFindings) -> Table:
    """List what pruning costs, and what it gains."""
    headers = ["threshold", *recall_headers(sweep.setting.ks)]
    headers += ["weights", "on disk", "tree in memory", *LATENCY_HEADERS]
    lines = []
    for row in sweep.thresholds:
        sizes = [
            Cell(f"{row.weights:,}", row.weights),
            Cell(format_bytes(row.disk_bytes or 0), row.disk_bytes),
            Cell(format_bytes(row.memory_bytes or 0), row.memory_bytes),
        ]
        lines.append(_setting_line(row, sizes, _latency_cells(row), sweep.own_threshold))
    return Table("Pruning", headers, {"": lines})


def beam_table(sweep: SweepFindings) -> Table:
    """List what a wider beam costs, and what it gains."""
    headers = ["beam", *recall_headers(sweep.setting.ks), *LATENCY_HEADERS, "queries per second"]
    lines = []
    for row in sweep.beams:
        speed = Cell(f"{row.queries_per_second:,.0f}", row.queries_per_second)
        lines.append(_setting_line(row, _latency_cells(row), [speed], sweep.own_beam))
    return Table("The beam", headers, {"": lines})


def _setting_line(row: SweepRow, first: Sequence[Cell], last: Sequence[Cell], own: float) -> Line:
    """Return a line of a sweep; that of the model's own setting is marked."""
    cells = [*map(share_cell, row.recall), *first, *last]
    if row.setting == own:
        return Line(f"{row.setting:g} (its own)", cells, kind="ours")
    return Line(f"{row.setting:g}", cells)


def _latency_cells(row: SweepRow) -> list[Cell]:
    names = ("total_p50", "total_p99", "vectorizing_p50", "search_p50")
    return [Cell(format_latency(row.latency[name]), row.latency[name]) for name in names]
