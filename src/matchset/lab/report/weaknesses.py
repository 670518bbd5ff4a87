"""Weaknesses: where is our recipe behind others, query by query and by segment?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matchset.evaluate.significance import ALPHA
from matchset.lab.experiments.contenders import OURS
from matchset.lab.report.formatting import Html, foreign, format_percent, format_points, join, tag
from matchset.lab.report.recall_tables import Row, recall_of, wide
from matchset.matchers.display import printable

EXAMPLES = {
    "wins": "Where {ours} finds more than {partner}: the largest differences",
    "loses": "Where {ours} finds less than {partner}: the largest differences",
    "random": "Other queries, chosen at random",
}
NOWHERE = (
    "No other matcher has a significantly higher recall, overall or in a segment. What it costs in "
    "comparison is in the table above."
)


def side_by_side(findings: Mapping[str, Any]) -> Html:
    """Section: what each matcher returns for some queries."""
    means = findings["data"]["relevant_means"]
    note = (
        f"The ten best products of each matcher. Green with ✓: {means} for this query in the test; "
        "red with ✗: not. Queries with fewer than "
        f"{findings['config']['min_query_count']:g} clicks or purchases are never shown."
    )
    titles = {row["name"]: row["title"] for row in findings["rows"]}
    examples = _show_examples(findings["examples"], titles, means)
    heading = tag("h2", "Side by side")
    return tag("section", heading, tag("p", note, class_="note"), examples, id="examples")


def _show_examples(
    examples: Mapping[str, Any] | None, titles: Mapping[str, str], means: str
) -> Html:
    """Answers side by side; `means` is what a green product is: bought, or relevant."""
    if examples is None or not examples["queries"]:
        return tag("p", "No test query is frequent enough to be shown.", class_="note")
    names = {"ours": titles[OURS], "partner": titles[examples["partner"]]}
    parts = []
    for kind, heading in EXAMPLES.items():
        chosen = [query for query in examples["queries"] if query["kind"] == kind]
        parts.append(tag("h3", heading.format(**names)))
        if not chosen:
            parts.append(tag("p", "There is none among the sampled queries.", class_="note"))
        parts += [_show(query, examples["columns"], titles, means) for query in chosen]
    return join(parts)


def _show(
    query: Mapping[str, Any], columns: Sequence[str], titles: Mapping[str, str], means: str
) -> Html:
    lists = [
        tag("section", tag("h4", _head(titles[name], query["answers"][name], means)),
            _list(query["answers"][name], means))
        for name in columns
    ]  # fmt: skip
    n = query["n_relevant"]
    note = tag("small", f" · {n:,} {'product' if n == 1 else 'products'} {means} in the test")
    label = f"Answers to {printable(query['query'], 60)}"
    return tag(
        "article",
        tag("p", tag("b", foreign(query["query"])), note),
        wide(tag("div", *lists, class_="answers"), label=label),
        class_="example",
    )


def _head(title: str, answers: Sequence[Mapping[str, Any]], means: str) -> Html:
    n_found = sum(answer["is_relevant"] for answer in answers)
    return join([title, tag("br"), tag("small", f"{n_found} of {len(answers)} {means}")])


def _list(answers: Sequence[Mapping[str, Any]], means: str) -> Html:
    items = []
    for answer in answers:
        is_relevant = answer["is_relevant"]
        verdict = tag("span", f"{means}: " if is_relevant else f"not {means}: ", class_="hidden")
        shown = foreign(answer["title"])
        kind = "yes" if is_relevant else "no"
        items.append(tag("li", verdict, shown, class_=kind, title=printable(answer["title"], 300)))
    if not answers:
        items.append(tag("li", "no products", class_="none"))
    return tag("ol", *items)


def where_it_loses(findings: Mapping[str, Any]) -> Html:
    """Section: losses by matcher and by segment; empty if our recipe was not run."""
    rows = [row for row in findings["rows"] if row["absent"] is None]
    ours = next((row for row in rows if row["name"] == OURS), None)
    if ours is None:
        return Html("")
    k = max(findings["ks"])
    behind = _find_behind(rows, ours, k)
    losses = [*_list_ahead(rows, ours), *_list_segments(behind, ours, k)]
    items = [tag("li", line) for line in losses or [NOWHERE]]
    why = None
    if "cold product" in behind:
        why = tag(
            "p",
            f"{format_percent(findings['data']['unseen_products'])} of the test products were not "
            "relevant to any training query. They can only be found by their titles, where a "
            "matcher that compares texts has the advantage.",
            class_="note",
        )
    heading = tag("h2", f"Where {ours['title']} loses")
    return tag("section", heading, tag("ul", *items), why, id="loses")


def _list_ahead(rows: Sequence[Row], ours: Row) -> Iterator[str]:
    for row in rows:
        ahead = {
            k: found["value"]
            for k, found in row["against_ours"].items()
            if found["value"] > 0 and found["p_holm"] < ALPHA
        }
        if ahead:
            gains = ", ".join(f"{format_points(gain)} at {k}" for k, gain in ahead.items())
            training = row["train_seconds"] / ours["train_seconds"]
            latency = row["latency"]["total_p50"] / ours["latency"]["total_p50"]
            yield (
                f"{row['title']} finds more: {gains} (points of recall). It takes "
                f"{_times(training)} the training time and {_times(latency)} the time per query."
            )


def _find_behind(rows: Sequence[Row], ours: Row, k: int) -> dict[str, Row]:
    """Segments in which another row is ahead with a disjoint interval, and that row."""
    behind = {}
    for segment in dict.fromkeys(score["segment"] for score in ours["scores"]):
        best = max(rows, key=lambda row: recall_of(row, k, segment)["value"] or 0.0)
        high, low = recall_of(ours, k, segment)["high"], recall_of(best, k, segment)["low"]
        if segment != "all" and None not in (high, low) and low > high:
            behind[segment] = best
    return behind


def _list_segments(behind: Mapping[str, Row], ours: Row, k: int) -> Iterator[str]:
    for title in dict.fromkeys(row["title"] for row in behind.values()):
        shares = [
            f"{segment} {format_percent(recall_of(row, k, segment)['value'])} against "
            f"{format_percent(recall_of(ours, k, segment)['value'])}"
            for segment, row in behind.items()
            if row["title"] == title
        ]
        yield f"By segment, Recall@{k}: {title} finds more of {', '.join(shares)}."


def _times(ratio: float) -> str:
    return f"{ratio:.0f} times" if ratio >= 10 else f"{ratio:.1f} times"
