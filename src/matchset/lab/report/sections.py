"""Sections: what does the report say, and in what words?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from matchset.evaluate.significance import ALPHA
from matchset.lab.dssm.settings import DSSMConfig
from matchset.lab.experiments.comparison import CONFIRMED, REVERSED
from matchset.lab.experiments.contenders import EXACT, GRAPH, LEXICAL, OURS, QUICK_EPOCHS
from matchset.lab.report.figures import (
    draw_beams,
    draw_latencies,
    draw_segments,
    draw_thresholds,
    draw_throughput,
    find_drawn,
)
from matchset.lab.report.formatting import Html, cell, format_percent, format_points, join, tag
from matchset.lab.report.recall_tables import (
    PAPER_PRUNING,
    PAPER_SOURCE,
    beam_table,
    cost_table,
    make_table,
    recall_table,
    segment_table,
    threshold_table,
)
from matchset.matchers.registry import find_kind

Findings = Mapping[str, Any]


def section(heading: str, *children: Html | None, name: str) -> Html:
    """A section of the page."""
    return tag("section", tag("h2", heading), *children, id=name)


def incremental_recall(findings: Findings) -> Html:
    """What our recipe adds to lexical search: the paper's point is to add, not to replace."""
    adds, means = findings["adds"], findings["data"]["relevant_means"]
    if adds is None:
        ours, lexical = (find_kind(kind).label for kind in (OURS, LEXICAL))
        reason = f"Needs both {ours} and {lexical}: give --catalog, or run both rows."
        return section("What it adds", tag("p", reason), name="adds")
    k, (ours, lexical) = adds["k"], adds["names"]
    recall, lexical_recall, mixed = (
        adds[n]["value"] for n in ("recall_first", "recall_second", "interleaved")
    )
    both, alone, other = (adds[n]["value"] for n in ("both", "only_first", "only_second"))
    what = "the products that customers bought" if means == "bought" else "the relevant products"
    sentence = (
        f"With {k} products per query, {lexical} finds {format_percent(lexical_recall)} of {what}, "
        f"{ours} {format_percent(recall)}. {format_percent(alone)} are found by {ours} alone, "
        f"{format_percent(other)} by {lexical} alone. Taking {k} products alternately from both "
        f"finds {format_percent(mixed)}: {format_points(mixed - lexical_recall)} points compared "
        f"with {lexical}, {format_points(mixed - recall)} with {ours}."
    )
    tiles = [
        _tile(adds["recall_second"], f"Recall@{k} of {lexical}"),
        _tile(adds["recall_first"], f"Recall@{k} of {ours}", "ours"),
        _tile(adds["interleaved"], f"Recall@{k} of both interleaved, {k} products in total"),
        _tile(adds["overlap"], "overlap of the two match sets"),
    ]
    shares = {
        "both": (both, "found by both"),
        "ours-alone": (alone, f"by {ours} alone"),
        "theirs-alone": (other, f"by {lexical} alone"),
        "neither": (max(0.0, 1 - both - alone - other), "by neither"),
    }
    bar = [tag("i", class_=n, style=f"width:{100 * v:.3f}%") for n, (v, _) in shares.items()]
    key = [
        tag("li", tag("i", class_=n), f"{t}: {format_percent(v)}") for n, (v, t) in shares.items()
    ]
    return section(
        "What it adds",
        tag("p", sentence, class_="lead"),
        tag("div", *tiles, class_="tiles"),
        tag("div", *bar, class_="bar", aria_hidden="true"),
        tag("ul", *key, class_="key"),
        name="adds",
    )


def _tile(share: Mapping[str, float], what: str, kind: str = "") -> Html:
    low, high = format_percent(share["low"]).removesuffix("\u00a0%"), format_percent(share["high"])
    number = tag("b", format_percent(share["value"]), data_value=repr(share["value"]))
    label = tag("span", f"{what} ({low} to {high})")
    return tag("div", number, label, class_=f"tile {kind}".strip())


def the_data(findings: Findings) -> Html:
    """The data of the measurement."""
    data = findings["data"]
    facts = {
        "data": data["origin"],
        "trained on": _describe_side(data, "train"),
        "tested on": _describe_side(data, "test") + f"; {data['n_queries']:,} queries used",
        "positive in training": data["train_rule"],
        "relevant in the test": data["test_rule"],
        "catalog": _describe_catalog(data["catalog_products"]),
        "never seen in training": (
            f"{format_percent(data['unseen_products'])} of the test products, "
            f"{format_percent(data['unseen_queries'])} of the test queries"
        ),
        "ceiling of Recall@100": (
            f"{format_percent(data['ceiling'])}: the best possible without titles: such matchers "
            "find only products seen in training"
        ),
    }
    return section("The data", facts_list(facts), name="data")


def _describe_side(data: Findings, side: str) -> str:
    sizes = (
        f"{data[f'{side}_pairs']:,} pairs of {data[f'{side}_queries']:,} queries and "
        f"{data[f'{side}_products']:,} products"
    )
    days = data[f"{side}_days"]
    return sizes if days is None else f"{sizes}; {days[0]} to {days[1]}"


def _describe_catalog(n_products: int | None) -> str:
    return "none" if n_products is None else f"{n_products:,} products"


def facts_list(facts: Mapping[str, str]) -> Html:
    """A list of names and values."""
    pairs = (join([tag("dt", name), tag("dd", value)]) for name, value in facts.items())
    return tag("dl", *pairs, class_="facts")


def the_table(findings: Findings) -> Html:
    """The main table, and how to read it."""
    sizes = findings["vocabularies"]
    how_to_read = (
        "Recall@k: share of a query's relevant products among the first k, as a mean over queries, "
        "with its 95 % interval (bootstrap over queries). The best is bold. Differences are in "
        "points, and not significant if a paired randomization test, corrected by Holm's method, "
        f"gives p of {ALPHA} or more."
    )
    times = (
        "Training uses all cores; queries run one by one through Python on one thread. Vectorizing "
        "turns a query into features, search is the rest of a call. The matrix product of exact "
        "kNN may use more than one core."
    )
    limits = (
        f"V is {sizes['V']:,} n-grams, {100 * sizes['share']:.0f} % of the "
        f"{sizes['distinct_words']:,} distinct words of the training queries, so that every limit "
        f"binds; there are {sizes['distinct_bigrams']:,} bigrams and "
        f"{sizes['distinct_trigrams']:,} character trigrams. Words and bigrams compete by the "
        "number of queries that have them, and each row includes the shorter n-grams. These four "
        "rows learn from queries alone, as in the paper; the first row also learns from titles, if "
        "there are any, and has no limit that binds."
    )
    parts = [tag("p", note, class_="note") for note in (how_to_read, limits, PAPER_SOURCE)]
    return section(
        "The table",
        tag("h3", "What each matcher finds"),
        recall_table(findings),
        *parts,
        tag("h3", "What each matcher costs"),
        cost_table(findings),
        tag("p", times, class_="note"),
        name="table",
    )


def the_papers_order(findings: Findings) -> Html:
    """Whether the paper's order holds here."""
    titles = {row["name"]: row["title"] for row in findings["rows"]}
    body = []
    for claim in findings["ordering"]:
        verdict = claim["verdict"]
        pair = f"{titles[claim['better']]} over {titles[claim['worse']]}"
        cells = [tag("td", verdict, class_=_verdict_class(verdict))]
        if "value" in claim:
            interval = f" ({format_points(claim['low'])} to {format_points(claim['high'])})"
            cells.append(cell(format_points(claim["value"]) + interval, claim["value"]))
            cells.append(cell(f"{claim['p_holm']:.4f}", claim["p_holm"]))
        else:
            cells += [tag("td"), tag("td")]
        body.append(tag("tr", tag("th", pair, scope="row"), *cells))
    k = max(findings["ks"])
    headers = ["the paper's order", "here", f"difference in Recall@{k}, points", "p (Holm)"]
    note = (
        "In the paper, trigrams find more than bigrams and these more than unigrams, and XR-Linear "
        "finds more than DSSM and this more than BM25. Here each pair is tested; the row with "
        "trigrams stands for the paper's XR-Linear."
    )
    if any(row["name"] in (EXACT, GRAPH) and row["absent"] is None for row in findings["rows"]):
        note += _describe_dssm(is_quick=findings["budget"]["is_quick"])
    return section(
        "Does the paper's order hold?",
        make_table("The paper's order", headers, body, n_texts=2),
        tag("p", note, class_="note"),
        name="ordering",
    )


def _verdict_class(verdict: str) -> str:
    return f"verdict {verdict}" if verdict in (CONFIRMED, REVERSED) else "verdict"


def _describe_dssm(*, is_quick: bool) -> str:
    default = DSSMConfig()
    note = (
        " Our DSSM is trained on the same pairs, except for those of the queries that it holds out "
        f"for early stopping ({100 * default.validation_share:g} %, at most "
        f"{default.validation_queries:,}); the paper used an existing checkpoint."
    )
    quick = f" This was a quick run: DSSM had {QUICK_EPOCHS} epochs instead of {default.epochs}."
    return note + quick if is_quick else note


def the_plots(findings: Findings | None, sweep: Findings | None) -> Html:
    """All plots that there is data for."""
    plots = []
    if findings is not None and find_drawn(findings["rows"]):
        plots += [draw_segments(findings["rows"], max(findings["ks"]))]
        plots += [draw_latencies(findings["rows"])]
    if sweep is not None:
        deepest = max(sweep["ks"])
        plots += [
            draw_throughput(sweep["beams"], sweep["graphs"], deepest),
            draw_beams(sweep["beams"], sweep["ks"]),
            draw_thresholds(sweep["thresholds"], sweep["ks"]),
        ]
    segments = None
    if findings is not None and plots:
        summary = tag("summary", "Recall by segment, in numbers (queries in parentheses)")
        segments = tag("details", summary, segment_table(findings))
    if not plots:
        return section("Plots", tag("p", "There is nothing to plot.", class_="note"), name="plots")
    return section("Plots", tag("div", *plots, class_="plots"), segments, name="plots")


def the_sweeps(sweep: Findings | None, *, is_same: bool) -> Html:
    """What pruning and the beam cost, and what they gain."""
    if sweep is None:
        note = "Not run yet: `matchset sweep` with the same --out adds them."
        if not is_same:
            note = "The sweep in this folder is of other test data: run `matchset sweep` again."
        return section("Pruning and the beam", tag("p", note, class_="note"), name="sweeps")
    return section(
        "Pruning and the beam",
        tag("h3", f"Pruning, at beam {sweep['thresholds'][0]['beam']}"),
        threshold_table(sweep),
        tag("p", PAPER_PRUNING, class_="note"),
        tag("h3", f"The beam, at threshold {sweep['beams'][0]['threshold']:g}"),
        beam_table(sweep, sweep["beams"], "beam", "beam"),
        tag("h3", f"{find_kind(GRAPH).label}, by expansion_search"),
        *_graph_table(sweep),
        name="sweeps",
    )


def _graph_table(sweep: Findings) -> list[Html]:
    graphs = sweep["graphs"]
    if not graphs:
        return [tag("p", f"Absent: {sweep['no_graphs']}", class_="note")]
    k = max(sweep["ks"])
    note = (
        f"Below k = {k} expansion_search changes nothing: the graph keeps at least k candidates. "
        "As in the paper, M0 = 32 (usearch's connectivity of 16, doubled at the lowest level), "
        "expansion_add = 300, float32."
    )
    table = beam_table(sweep, graphs, "expansion_search", "expansion_search")
    return [table, tag("p", note, class_="note")]


def how_to_reproduce(findings: Findings | None, sweep: Findings | None) -> Html:
    """Command, machine, versions, configuration."""
    runs = [part for part in (findings, sweep) if part is not None]
    commands = "\n".join(run["command"] for run in runs if run["command"])
    machine = {k: str(v) for k, v in runs[0]["machine"].items()}
    versions = ", ".join(f"{name} {number}" for name, number in runs[0]["versions"].items())
    facts = {**machine, "versions": versions, "date": runs[0]["date"]}
    if "seed" in runs[0]:
        facts["seed"] = str(runs[0]["seed"])
    of_what = f"Configuration of {find_kind(OURS).label}"
    config = json.dumps(runs[0]["config"], indent=1, ensure_ascii=False)
    return section(
        "How to reproduce it",
        tag("pre", commands) if commands else None,
        facts_list(facts),
        tag(
            "details",
            tag("summary", of_what),
            tag("pre", config),
        ),
        name="repeat",
    )
