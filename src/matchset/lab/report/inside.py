"""Inside: what is each part of the match set worth, and what do its scores mean?"""

from __future__ import annotations

from matchset.lab.experiments.findings import ComparisonFindings, MatchSetFacts
from matchset.lab.report.figures import draw_cutoffs, draw_reliability
from matchset.lab.report.formatting import (
    Html,
    cell,
    format_bytes,
    format_percent,
    format_points,
    make_table,
    section,
    tag,
)
from matchset.model.reranker import LEAST_CALIBRATED, SITUATIONS

MEANING = (
    "A score is the probability that the product is {means} for such a query, as measured on the "
    "queries held back in training. The plot shows whether that holds on the test: each point is "
    "a tenth of the scale with at least 500 answers, and lies on the line if the scores are right. "
    "A product that nobody {acted} may still be relevant: scores predict what people do, and a low "
    "score does not mean that a product is wrong."
)


def inside_the_match_set(found: ComparisonFindings) -> Html:
    """Scores and their cut-off, weights of the re-ranker, what each part is worth and takes."""
    facts = found.match_set
    if facts is None:
        return Html("")
    rated = found.data.is_rated
    acted = "rated" if rated else "bought" if found.data.relevant_means == "bought" else "clicked"
    means = "judged relevant" if rated else acted
    plots = [draw_cutoffs(facts, found.k)]
    meaning = (
        "Too few answers were held back to measure scores: they order, but are no probabilities."
    )
    if facts.learned.get("positives", 0) >= LEAST_CALIBRATED:
        plots = [draw_reliability(facts), *plots]
        meaning = MEANING.format(means=means, acted=acted)
    return section(
        "Inside the match set",
        tag("h3", "What a score means, and where to cut"),
        tag("p", meaning, class_="note"),
        tag("div", *plots, class_="plots"),
        cutoff_table(facts, found.k),
        tag("h3", "Its parts"),
        part_table(facts),
        tag("p", _describe_learning(facts), class_="note"),
        tag("details", tag("summary", "Weights of the linear re-ranker"), weight_table(facts)),
        name="inside",
    )


def cutoff_table(facts: MatchSetFacts, k: int) -> Html:
    """Recall and size of the match set at each least score."""
    headers = [
        "min_score",
        f"Recall@{k},\u00a0%",
        "by traffic,\u00a0%",
        "products per query",
        "queries without an answer,\u00a0%",
    ]
    rows = []
    for cut in facts.cutoffs:
        cells = [cell(_percent(value), value) for value in (cut.recall, cut.recall_by_traffic)]
        cells += [cell(f"{cut.size:.1f}", cut.size), cell(_percent(cut.empty), cut.empty)]
        rows.append(tag("tr", tag("th", f"{cut.min_score:g}", scope="row"), *cells))
    return make_table("Recall and size by min_score", headers, rows)


def part_table(facts: MatchSetFacts) -> Html:
    """What each part takes, and what was lost without it on validation queries."""
    recall = facts.learned.get("recall") or {}
    whole = recall.get("all")
    headers = ["part", "in memory", *(f"worth at {k}, points" for k in (10, 50, 100))]
    rows = []
    for part, n_bytes in facts.part_bytes.items():
        left = recall.get(f"without {part}")
        cells = [cell(format_bytes(n_bytes), n_bytes)]
        for at in range(3):
            worth = None if whole is None or left is None else whole[at] - left[at]
            cells.append(tag("td", "–" if worth is None else format_points(worth), class_="n"))
        rows.append(tag("tr", tag("th", part, scope="row"), *cells))
    return make_table("Parts of the match set", headers, rows)


def weight_table(facts: MatchSetFacts) -> Html:
    """Weight of each feature, for products without and with a positive query in training."""
    rows = []
    for feature, weights in facts.weights.items():
        cells = [cell(f"{value:.3g}", value) for value in weights]
        rows.append(tag("tr", tag("th", feature, scope="row"), *cells))
    headers = [f"{name}, {kind} product" for name in SITUATIONS for kind in ("cold", "warm")]
    return make_table("Weights of the re-ranker", ["feature", *headers], rows)


def _describe_learning(facts: MatchSetFacts) -> str:
    if not facts.learned.get("is_learned"):
        reason = facts.learned.get("reason") or "unknown"
        return f"The re-ranker has its default weights: {reason}."
    return (
        f"Worth: points of recall lost on {facts.learned['queries']:,} queries held back in "
        "training where the part is left out and the weights are fitted again. The table of "
        "matchers above has the same on the test."
    )


def _percent(value: float) -> str:
    return format_percent(value).removesuffix("\u00a0%")
