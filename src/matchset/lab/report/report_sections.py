"""Report sections: what does the report say of the data, the matchers and the measurement?"""

from __future__ import annotations

import json

from matchset.evaluate.significance import ALPHA
from matchset.lab.experiments.findings import (
    OURS,
    ComparisonFindings,
    DataFacts,
    Side,
    SweepFindings,
)
from matchset.lab.report.figures import draw_latencies, draw_segments, find_drawn
from matchset.lab.report.formatting import Html, facts_list, format_percent, section, tag
from matchset.lab.report.recall_tables import (
    ablation_table,
    cost_table,
    recall_table,
    segment_table,
)
from matchset.matchers.registry import find_kind

HOW_TO_READ = (
    "Recall@k: share of a query's relevant products among the first k, as a mean over queries, "
    "with its 95 % interval (bootstrap over queries). The best is bold. Differences are in points, "
    "and not significant if a paired randomization test, corrected by Holm's method, gives p of "
    f"{ALPHA} or more."
)
FUSED = (
    "A fusion gives as many products as each of its two. Its way of mixing was not tuned: that "
    "would take queries that your engine answered and that are not in this test."
)
TIMED = (
    "Training uses all cores; queries run one by one through Python on one thread. Vectorizing "
    "turns a query into features, search is the rest of a call. The matrix product of exact kNN "
    "may use more than one core. What your engine costs is not known here."
)
ABLATED = (
    "Each row leaves one part out, with its candidates and features, and fits the re-ranker again; "
    "the other parts are not trained again."
)


def the_data(data: DataFacts) -> Html:
    """The data of the measurement."""
    limit = format_percent(data.seen_limit)
    facts = {
        "data": data.origin,
        "trained on": _describe_side(data.train),
        "tested on": _describe_side(data.test) + f"; {data.n_queries:,} queries used",
        "positive in training": data.train.rule,
        "relevant in the test": data.test.rule,
        "catalog": "none" if (n := data.catalog_products) is None else f"{n:,} products",
        "never seen in training": (
            f"{format_percent(data.unseen_products)} of the test products, "
            f"{format_percent(data.unseen_queries)} of the test queries"
        ),
        "seen in training": (
            f"products that allow a Recall@100 of {limit}; it is a ceiling for matchers without "
            "titles, and others exceed it"
        ),
    }
    return section("The data", facts_list(facts), name="data")


def _describe_side(side: Side) -> str:
    sizes = f"{side.pairs:,} pairs of {side.queries:,} queries and {side.products:,} products"
    return sizes if side.days is None else f"{sizes}; {' to '.join(side.days)}"


def the_table(found: ComparisonFindings) -> Html:
    """The main table, what each part is worth, and what all cost."""
    ablation = ablation_table(found)
    parts = [tag("h3", "The match set without each of its parts"), ablation] if ablation else []
    if ablation is not None:
        parts.append(tag("p", ABLATED, class_="note"))
    return section(
        "All matchers",
        recall_table(found),
        tag("p", HOW_TO_READ, class_="note"),
        tag("p", FUSED, class_="note") if found.present("fusion") else None,
        *parts,
        tag("h3", "What each matcher costs"),
        cost_table(found),
        tag("p", TIMED, class_="note"),
        name="table",
    )


def the_segments(found: ComparisonFindings) -> Html:
    """Recall by segment, and the latency of single queries."""
    if not find_drawn(found):
        return Html("")
    summary = tag("summary", "Recall by segment, in numbers (queries in parentheses)")
    other = next((row.title for row in found.rows if row.name == found.opponent), "the other")
    note = (
        "Head queries make up half of the traffic, tail queries the rest; rare queries were "
        "entered fewer than five times in the test; unseen queries were not in training. Cold "
        f"products were {found.data.relevant_means} for no training query. Zero-result queries are "
        f"those to which {other} answers nothing, if there are any."
    )
    return section(
        "By kind of query, and latency",
        tag("div", draw_segments(found), draw_latencies(found), class_="plots"),
        tag("p", note, class_="note"),
        tag("details", summary, segment_table(found)),
        name="segments",
    )


def how_to_reproduce(found: ComparisonFindings | None, sweep: SweepFindings | None) -> Html:
    """Command, machine, versions, configuration."""
    settings = [part.setting for part in (found, sweep) if part is not None]
    commands = "\n".join(each.command for each in settings if each.command)
    versions = ", ".join(f"{name} {number}" for name, number in settings[0].versions.items())
    facts = {**settings[0].machine, "versions": versions, "date": settings[0].date}
    facts["seed"] = str(settings[0].seed)
    config = json.dumps(settings[0].config, indent=1, ensure_ascii=False)
    summary = tag("summary", f"Configuration of {find_kind(OURS).label}")
    return section(
        "How to reproduce it",
        tag("pre", commands) if commands else None,
        facts_list(facts),
        tag("details", summary, tag("pre", config)),
        name="repeat",
    )
