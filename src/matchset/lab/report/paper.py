"""Paper: what did the paper report, does its order hold here, and what do pruning and beam cost?

The paper's figures, from "Extreme Multi-label Learning for Semantic Matching in Product Search",
KDD 2021, are for orientation only: 100 million products of a data set that is not public, on 128
processors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matchset.lab.dssm.settings import DSSMConfig
from matchset.lab.experiments.baselines import EXACT, GRAPH, LEXICAL, QUICK_EPOCHS
from matchset.lab.experiments.claims import CONFIRMED, REVERSED, Claim, check_claims
from matchset.lab.experiments.findings import ComparisonFindings, SweepFindings, SweepRow
from matchset.lab.experiments.vocabularies import BIGRAMS, MORE_BIGRAMS, TRIGRAMS, UNIGRAMS
from matchset.lab.report.formatting import (
    NOTHING,
    Html,
    cell,
    format_bytes,
    format_latency,
    format_points,
    make_table,
    section,
    share_cell,
    tag,
)
from matchset.lab.report.recall_tables import against_ours, make_row
from matchset.lab.report.sweep_figures import draw_beams, draw_thresholds, draw_throughput
from matchset.matchers.registry import find_kind

PAPER_RECALL: Mapping[str, float] = {  # Recall@100 in percent
    UNIGRAMS: 54.86,
    BIGRAMS: 57.70,  # 3 million features
    MORE_BIGRAMS: 58.88,  # 5.6 million features
    TRIGRAMS: 60.30,
    GRAPH: 36.19,
    LEXICAL: 21.72,
}
PAPER_SOURCE = (
    "Chang et al., Extreme Multi-label Learning for Semantic Matching in Product Search, KDD 2021: "
    "100 million products, a log that is not public. Its numbers are for orientation only: data "
    "and machine are different."
)
PAPER_SWEEPS = (
    "In the paper, on other data, a threshold of 0.45 instead of 0.1 shrinks the model from 295 GB "
    "to 62 GB and costs 5.4 points of Recall@100; at 0.35, beams of 1, 10, 15 and 50 reach 20.95, "
    "57.63, 60.94 and 65.74 %."
)
PAPER_ORDER = (
    "In the paper, trigrams find more than bigrams and these more than unigrams, and XR-Linear "
    "finds more than DSSM and this more than BM25. Here each pair is tested at each k, with Holm's "
    "correction; the row with trigrams stands for the paper's XR-Linear."
)


def the_paper(found: ComparisonFindings) -> Html:
    """Folded away: the paper's table, and whether its order holds here."""
    sizes = found.vocabularies
    limits = (
        f"V is {sizes['V']:,.0f} n-grams, {100 * sizes['share']:.0f} % of the "
        f"{sizes['distinct_words']:,.0f} distinct words of the training queries, so that every "
        f"limit binds; there are {sizes['distinct_bigrams']:,.0f} bigrams and "
        f"{sizes['distinct_trigrams']:,.0f} character trigrams. Words and bigrams compete by the "
        "number of queries that have them, and each row includes the shorter n-grams. XR-Linear "
        "learns from queries alone here, as in the paper."
    )
    order = PAPER_ORDER + (
        _describe_dssm(is_quick=found.setting.is_quick) if _has_dssm(found) else ""
    )
    return section(
        "The paper's tables",
        tag(
            "details",
            tag("summary", "For researchers: XR-Linear as in the paper, and its order of methods"),
            paper_table(found),
            *(tag("p", note, class_="note") for note in (limits, PAPER_SOURCE)),
            tag("h3", "Does the paper's order hold?"),
            order_table(found),
            tag("p", order, class_="note"),
        ),
        name="paper",
    )


def _has_dssm(found: ComparisonFindings) -> bool:
    return any(found.row(name) is not None for name in (EXACT, GRAPH))


def paper_table(found: ComparisonFindings) -> Html:
    """The rows of the paper's table, on this data."""
    ks = found.setting.ks
    headers = [
        "matcher",
        *(f"Recall@{k},\u00a0%" for k in ks),
        f"compared with ours, @{found.k}",
        "the paper (other data), @100",
        "n-grams",
    ]
    body = []
    for row in (row for row in found.rows if row.name in PAPER_RECALL):
        n_grams = NOTHING if row.features is None else f"{row.features:,}"
        cells = [
            *(share_cell(row.score(k)) for k in ks),
            against_ours(row, found),
            tag("td", f"{PAPER_RECALL[row.name]:.2f}", class_="n paper"),
            cell(n_grams, row.features),
        ]
        body.append(make_row(row, cells, len(headers)))
    return make_table("The paper's table", headers, body)


def order_table(found: ComparisonFindings) -> Html:
    """Each pair of the paper's order, tested here at each k: the order may change with k."""
    titles = {row.name: row.title for row in found.rows}
    ks = found.setting.ks
    checked = [check_claims(found.differences, k) for k in ks]
    headers = ["the paper's order", *(f"Recall@{k}, points" for k in ks)]
    body = []
    for claims in zip(*checked, strict=True):
        pair = f"{titles[claims[0].better]} over {titles[claims[0].worse]}"
        body.append(tag("tr", tag("th", pair, scope="row"), *map(_verdict_cell, claims)))
    return make_table("The paper's order", headers, body, n_texts=len(headers))


def _verdict_cell(claim: Claim) -> Html:
    verdict, gap = claim.verdict, claim.difference
    kind = f"verdict {verdict}" if verdict in (CONFIRMED, REVERSED) else "verdict"
    if gap is None:
        return tag("td", verdict, class_=kind)
    interval = f"{format_points(gap.low)} to {format_points(gap.high)}"
    numbers = f"{format_points(gap.value)} ({interval})"
    return tag("td", verdict, tag("br"), tag("span", numbers, class_="note"), class_=kind)


def _describe_dssm(*, is_quick: bool) -> str:
    default = DSSMConfig()
    note = (
        " Our DSSM is trained on the same pairs, except for those of the queries that it holds out "
        f"for early stopping ({100 * default.validation_share:g} %, at most "
        f"{default.validation_queries:,}); the paper used an existing checkpoint."
    )
    quick = f" This was a quick run: DSSM had {QUICK_EPOCHS} epochs instead of {default.epochs}."
    return note + quick if is_quick else note


def the_sweeps(sweep: SweepFindings | None, *, is_same: bool) -> Html:
    """What pruning and the beam cost, and what they gain."""
    if sweep is None:
        note = "Not run yet: `matchset sweep` with the same --out adds them."
        if not is_same:
            note = "The sweep in this folder is of other test data: run `matchset sweep` again."
        return section("Pruning and the beam", tag("p", note, class_="note"), name="sweeps")
    plots = [draw_throughput(sweep), draw_beams(sweep), draw_thresholds(sweep)]
    return section(
        "Pruning and the beam",
        tag("p", f"Of the tree in {sweep.title}, around its own settings.", class_="note"),
        tag("div", *plots, class_="plots"),
        tag("h3", f"Pruning, at beam {sweep.own_beam}"),
        threshold_table(sweep),
        tag("p", PAPER_SWEEPS, class_="note"),
        tag("h3", f"The beam, at threshold {sweep.own_threshold:g}"),
        beam_table(sweep, sweep.beams, "beam"),
        tag("h3", f"{find_kind(GRAPH).label}, by expansion_search"),
        *_graph_table(sweep),
        name="sweeps",
    )


def _graph_table(sweep: SweepFindings) -> list[Html]:
    if not sweep.graphs:
        return [tag("p", f"Absent: {sweep.no_graphs}", class_="note")]
    note = (
        f"Below k = {max(sweep.setting.ks)} expansion_search changes nothing: the graph keeps at "
        "least k candidates. As in the paper, M0 = 32 (usearch's connectivity of 16, doubled at "
        "the lowest level), expansion_add = 300, float32."
    )
    table = beam_table(sweep, sweep.graphs, "expansion_search")
    return [table, tag("p", note, class_="note")]


def threshold_table(sweep: SweepFindings) -> Html:
    """What pruning costs, and what it gains."""
    ks = sweep.setting.ks
    headers = [
        "threshold",
        *(f"Recall@{k},\u00a0%" for k in ks),
        *("weights", "on disk", "tree in memory", "p50", "p99", "vectorizing, p50", "search, p50"),
    ]
    body = []
    for row in sweep.thresholds:
        cells = [
            *(share_cell(row.recall[k]) for k in ks),
            cell(f"{row.weights:,}", row.weights),
            cell(format_bytes(row.disk_bytes or 0), row.disk_bytes),
            cell(format_bytes(row.memory_bytes or 0), row.memory_bytes),
            *_latency_cells(row.latency),
        ]
        body.append(_setting_row(row, cells, sweep.own_threshold))
    return make_table("Pruning", headers, body)


def beam_table(sweep: SweepFindings, rows: Sequence[SweepRow], setting: str) -> Html:
    """What a wider beam, or a longer search of a graph, costs, and what it gains."""
    ks = sweep.setting.ks
    headers = [
        setting,
        *(f"Recall@{k},\u00a0%" for k in ks),
        *("p50", "p99", "vectorizing, p50", "search, p50", "queries per second"),
    ]
    body = []
    for row in rows:
        cells = [
            *(share_cell(row.recall[k]) for k in ks),
            *_latency_cells(row.latency),
            cell(f"{row.queries_per_second:,.0f}", row.queries_per_second),
        ]
        body.append(_setting_row(row, cells, sweep.own_beam if setting == "beam" else None))
    return make_table(setting, headers, body)


def _setting_row(row: SweepRow, cells: Sequence[Html], own: float | None) -> Html:
    """A row; that of the model's own setting is marked."""
    is_own = row.setting == own
    name = f"{row.setting:g} (its own)" if is_own else f"{row.setting:g}"
    return tag("tr", tag("th", name, scope="row"), *cells, class_="ours" if is_own else None)


def _latency_cells(latency: Mapping[str, float]) -> list[Html]:
    names = ("total_p50", "total_p99", "vectorizing_p50", "search_p50")
    return [cell(format_latency(latency[name]), latency[name]) for name in names]
