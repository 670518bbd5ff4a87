"""Sections: what does the report say, in which words?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from matchset.lab.dssm.settings import DSSMConfig
from matchset.lab.experiments.comparison import REVERSED, SHOWN, UNCLEAR
from matchset.lab.experiments.contenders import EXACT, GRAPH, QUICK_EPOCHS
from matchset.lab.report.figures import (
    draw_beams,
    draw_latencies,
    draw_segments,
    draw_thresholds,
    draw_throughput,
    find_drawn,
)
from matchset.lab.report.formatting import Html, cell, join, percent, points, tag
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
from matchset.lab.report.weaknesses import show_examples

Findings = Mapping[str, Any]


def section(heading: str, *children: Html | None, name: str) -> Html:
    """A part of the page."""
    return tag("section", tag("h2", heading), *children, id=name)


def incremental_recall(findings: Findings) -> Html:
    """The paper's point: not to replace lexical search, but to add to its match set."""
    adds, means = findings["adds"], findings["data"]["relevant_means"]
    if adds is None:
        told = "Needs both matchset and BM25: give --catalog, or run both rows."
        return section("What it adds", tag("p", told), name="adds")
    k = adds["k"]
    ours, theirs, union = (adds[n]["value"] for n in ("recall_first", "recall_second", "union"))
    both, alone, other = (adds[n]["value"] for n in ("both", "only_first", "only_second"))
    what = "the products that customers bought" if means == "bought" else "the relevant products"
    sentence = (
        f"Of {what}, BM25 finds {percent(theirs)} with {k} products per query, matchset "
        f"{percent(ours)}. {percent(alone)} are found by matchset alone, {percent(other)} by BM25 "
        f"alone. Taking the {k} products from both in turn finds {percent(union)}: "
        f"{points(union - theirs)} points to BM25 by itself, {points(union - ours)} to matchset."
    )
    tiles = [
        _tile(adds["recall_second"], f"Recall@{k} of BM25"),
        _tile(adds["recall_first"], f"Recall@{k} of matchset", "ours"),
        _tile(adds["union"], f"Recall@{k} of both in turn, the same {k} products"),
        _tile(adds["overlap"], "overlap of the two match sets"),
    ]
    shares = {
        "both": (both, "found by both"),
        "ours-alone": (alone, "by matchset alone"),
        "theirs-alone": (other, "by BM25 alone"),
        "neither": (max(0.0, 1 - both - alone - other), "by neither"),
    }
    bar = [tag("i", class_=n, style=f"width:{100 * v:.3f}%") for n, (v, _) in shares.items()]
    key = [tag("li", tag("i", class_=n), f"{t}: {percent(v)}") for n, (v, t) in shares.items()]
    return section(
        "What it adds",
        tag("p", sentence, class_="lead"),
        tag("div", *tiles, class_="tiles"),
        tag("div", *bar, class_="bar", aria_hidden="true"),
        tag("ul", *key, class_="key"),
        name="adds",
    )


def _tile(share: Mapping[str, float], what: str, kind: str = "") -> Html:
    low, high = percent(share["low"]).removesuffix("\u00a0%"), percent(share["high"])
    number = tag("b", percent(share["value"]), data_value=repr(share["value"]))
    told = tag("span", f"{what} ({low} to {high})")
    return tag("div", number, told, class_=f"tile {kind}".strip())


def the_data(findings: Findings) -> Html:
    """What it was measured on."""
    data = findings["data"]
    facts = {
        "data": data["origin"],
        "trained on": _tell_side(data, "train"),
        "tested on": _tell_side(data, "test") + f"; {data['asked']:,} queries asked",
        "positive in training": data["train_rule"],
        "relevant in the test": data["test_rule"],
        "catalogue": _tell_catalog(data["catalog_products"]),
        "never seen in training": (
            f"{percent(data['unseen_products'])} of the test products, "
            f"{percent(data['unseen_queries'])} of the test queries"
        ),
        "ceiling of Recall@100": (
            f"{percent(data['ceiling'])}: the best of a matcher that knows training products only; "
            "titles go beyond"
        ),
    }
    return section("The data", facts_list(facts), name="data")


def _tell_side(data: Findings, side: str) -> str:
    sizes = (
        f"{data[f'{side}_pairs']:,} pairs of {data[f'{side}_queries']:,} queries and "
        f"{data[f'{side}_products']:,} products"
    )
    days = data[f"{side}_days"]
    return sizes if days is None else f"{sizes}; {days[0]} to {days[1]}"


def _tell_catalog(n_products: int | None) -> str:
    return "none" if n_products is None else f"{n_products:,} products"


def facts_list(facts: Mapping[str, str]) -> Html:
    """Names and values."""
    pairs = (join([tag("dt", name), tag("dd", value)]) for name, value in facts.items())
    return tag("dl", *pairs, class_="facts")


def the_table(findings: Findings) -> Html:
    """The main table, and how to read it."""
    sizes = findings["vocabularies"]
    how_to_read = (
        "Recall@k: share of a query's relevant products among the first k, as a mean over queries, "
        "with its 95 % interval (bootstrap over queries). Best in bold. Against matchset: the "
        "difference in points, 'may be luck' where a paired randomisation test, corrected by "
        "Holm's method, gives p of 0.05 or more."
    )
    times = (
        "Training takes all cores, queries are asked one by one through Python on one thread. "
        "Vectorizing is the time of the same queries to features alone, search the rest of a call. "
        "The matrix product of exact kNN may take more than one core."
    )
    limits = (
        f"V is {sizes['V']:,} n-grams, {100 * sizes['share']:.0f} % of the "
        f"{sizes['distinct_words']:,} distinct words of the training queries, so that every limit "
        f"binds; there are {sizes['distinct_bigrams']:,} bigrams and "
        f"{sizes['distinct_trigrams']:,} character trigrams. Words and bigrams compete by how many "
        "queries have them; each row has the shorter kinds too. These four rows learn from queries "
        "alone, as in the paper; matchset's own recipe learns from titles "
        "too, and has no limit that binds."
    )
    source = f"{PAPER_SOURCE} * with bigrams, of either size."
    parts = [tag("p", note, class_="note") for note in (how_to_read, limits, source)]
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


def the_ordering(findings: Findings) -> Html:
    """Whether the paper's order is the order here."""
    titles = {row["name"]: row["title"] for row in findings["rows"]}
    kinds = {SHOWN: "shown", REVERSED: "reversed", UNCLEAR: "unclear"}
    body = []
    for claim in findings["ordering"]:
        verdict = claim["verdict"]
        pair = f"{titles[claim['better']]} over {titles[claim['worse']]}"
        cells = [tag("td", verdict, class_=f"verdict {kinds.get(verdict, '')}".strip())]
        if "value" in claim:
            interval = f" ({points(claim['low'])} to {points(claim['high'])})"
            cells.append(cell(points(claim["value"]) + interval, claim["value"]))
            cells.append(cell(f"{claim['p_holm']:.4f}", claim["p_holm"]))
        else:
            cells += [tag("td"), tag("td")]
        body.append(tag("tr", tag("th", pair, scope="row"), *cells))
    k = max(findings["ks"])
    headers = ["the paper's order", "here", f"difference in Recall@{k}, points", "p (Holm)"]
    note = (
        "The paper finds trigrams over bigrams over unigrams, and XR-Linear over DSSM over BM25. "
        "Checked here pair by pair; our row with trigrams stands for the paper's XR-Linear."
    )
    if any(row["name"] in (EXACT, GRAPH) and row["absent"] is None for row in findings["rows"]):
        note += _tell_training(is_quick=findings["effort"]["is_quick"])
    return section(
        "Does the paper's order hold?",
        make_table("The paper's order", headers, body, n_texts=2),
        tag("p", note, class_="note"),
        name="ordering",
    )


def _tell_training(*, is_quick: bool) -> str:
    usual = DSSMConfig()
    told = (
        " Our DSSM is trained on the same pairs, but for those of the queries that it holds back "
        f"to stop in time ({100 * usual.validation_share:g} %, {usual.validation_queries:,} at "
        "most); the paper used a checkpoint that was there."
    )
    quick = f" This was a quick run: DSSM had {QUICK_EPOCHS} epochs instead of {usual.epochs}."
    return told + quick if is_quick else told


def the_plots(findings: Findings | None, sweep: Findings | None) -> Html:
    """All plots there is data for."""
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
        return section("Plots", tag("p", "Nothing to draw.", class_="note"), name="plots")
    return section("Plots", tag("div", *plots, class_="plots"), segments, name="plots")


def the_sweeps(sweep: Findings | None, *, is_same: bool) -> Html:
    """What pruning and the beam cost."""
    if sweep is None:
        told = "Not run yet: `matchset sweep` with the same --out adds them."
        if not is_same:
            told = "Those in this folder are of other test data: run `matchset sweep` again."
        return section("Pruning and the beam", tag("p", told, class_="note"), name="sweeps")
    return section(
        "Pruning and the beam",
        tag("h3", f"Pruning, at beam {sweep['thresholds'][0]['beam']}"),
        threshold_table(sweep),
        tag("p", PAPER_PRUNING, class_="note"),
        tag("h3", f"The beam, at threshold {sweep['beams'][0]['threshold']:g}"),
        beam_table(sweep, sweep["beams"], "beam", "beam"),
        tag("h3", "DSSM + HNSW, by expansion_search"),
        *_tell_graphs(sweep),
        name="sweeps",
    )


def _tell_graphs(sweep: Findings) -> list[Html]:
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


def side_by_side(findings: Findings) -> Html:
    """The examples."""
    titles = {row["name"]: row["title"] for row in findings["rows"]}
    means = findings["data"]["relevant_means"]
    note = (
        f"The ten best products of each matcher. Green with ✓: {means} with this query in the "
        f"test; red with ✗: not. Queries that led to something fewer than "
        f"{findings['config']['min_query_count']:g} times are never shown."
    )
    return section(
        "Side by side",
        tag("p", note, class_="note"),
        show_examples(findings["examples"], titles, means),
        name="examples",
    )


def how_to_repeat(findings: Findings | None, sweep: Findings | None) -> Html:
    """Command, machine, versions, configuration."""
    told = [part for part in (findings, sweep) if part is not None]
    commands = "\n".join(part["command"] for part in told if part["command"])
    machine = {k: str(v) for k, v in told[0]["machine"].items()}
    versions = ", ".join(f"{name} {number}" for name, number in told[0]["versions"].items())
    facts = {**machine, "versions": versions, "date": told[0]["date"]}
    if "seed" in told[0]:
        facts["seed"] = str(told[0]["seed"])
    config = json.dumps(told[0]["config"], indent=1, ensure_ascii=False)
    return section(
        "How to repeat it",
        tag("pre", commands) if commands else None,
        facts_list(facts),
        tag("details", tag("summary", "Configuration of matchset's row"), tag("pre", config)),
        name="repeat",
    )
