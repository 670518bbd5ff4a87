"""Grids: what does each matcher give for a query, side by side?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matchset.lab.report.formatting import Html, foreign, join, percent, points, tag
from matchset.lab.report.recall_tables import ALPHA, OURS, recall_of, wide
from matchset.matchers.display import printable

PLACES = 10
KINDS = {
    "wins": "Where matchset finds more than {partner}: the largest differences",
    "loses": "Where matchset finds less than {partner}: the largest differences",
    "by chance": "Others, drawn by chance",
}


def show_examples(
    examples: Mapping[str, Any] | None, titles: Mapping[str, str], means: str
) -> Html:
    """The examples by kind; `means` is what a green product was: bought, or relevant."""
    if examples is None or not examples["queries"]:
        return tag("p", "No test query is frequent enough to be shown.", class_="note")
    partner = titles[examples["partner"]]
    parts = []
    for kind, heading in KINDS.items():
        chosen = [query for query in examples["queries"] if query["kind"] == kind]
        parts.append(tag("h3", heading.format(partner=partner)))
        if not chosen:
            parts.append(tag("p", "None among the queries looked at.", class_="note"))
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
    places = []
    for answer in answers:
        is_relevant = answer["is_relevant"]
        told = tag("span", f"{means}: " if is_relevant else f"not {means}: ", class_="hidden")
        shown = foreign(answer["title"])
        kind = "yes" if is_relevant else "no"
        places.append(tag("li", told, shown, class_=kind, title=printable(answer["title"], 300)))
    if not answers:
        places.append(tag("li", "no answer", class_="none"))
    return tag("ol", *places)


Row = Mapping[str, Any]
NOWHERE = (
    "In recall, no row and no segment is ahead of it beyond chance. What it costs more than others "
    "do is in the table above."
)


def where_it_loses(findings: Mapping[str, Any]) -> Html:
    """Plainly, by row and by segment; empty where our recipe was not run."""
    rows = [row for row in findings["rows"] if row["absent"] is None]
    ours = next((row for row in rows if row["name"] == OURS), None)
    if ours is None:
        return Html("")
    k = max(findings["ks"])
    behind = _find_behind(rows, ours, k)
    lost = [*_rows_ahead(rows, ours), *_tell_segments(behind, ours, k)]
    told = [tag("li", line) for line in lost] or [tag("li", NOWHERE)]
    why = None
    if "cold product" in behind:
        why = tag(
            "p",
            f"{percent(findings['data']['unseen_products'])} of the test products were never an "
            "answer in training. These can be found by their titles alone, and there a matcher "
            "that compares texts has the advantage.",
            class_="note",
        )
    heading = tag("h2", "Where matchset loses")
    return tag("section", heading, tag("ul", *told), why, id="loses")


def _rows_ahead(rows: Sequence[Row], ours: Row) -> Iterator[str]:
    for row in rows:
        ahead = {
            k: found["value"]
            for k, found in row["against_ours"].items()
            if found["value"] > 0 and found["p_holm"] < ALPHA
        }
        if ahead:
            gains = ", ".join(f"{points(gain)} at {k}" for k, gain in ahead.items())
            training = row["train_seconds"] / ours["train_seconds"]
            latency = row["latency"]["total_p50"] / ours["latency"]["total_p50"]
            yield (
                f"{row['title']} finds more: {gains} (points of recall). It takes "
                f"{_times(training)} the training time, and {_times(latency)} the time of a query."
            )


def _find_behind(rows: Sequence[Row], ours: Row, k: int) -> dict[str, Row]:
    """Segments in which another row is ahead, and the two intervals do not meet; and who it is."""
    behind = {}
    for segment in dict.fromkeys(score["segment"] for score in ours["scores"]):
        best = max(rows, key=lambda row: recall_of(row, k, segment)["value"] or 0.0)
        high, low = recall_of(ours, k, segment)["high"], recall_of(best, k, segment)["low"]
        if segment != "all" and None not in (high, low) and low > high:
            behind[segment] = best
    return behind


def _tell_segments(behind: Mapping[str, Row], ours: Row, k: int) -> Iterator[str]:
    for title in dict.fromkeys(row["title"] for row in behind.values()):
        shares = [
            f"{segment} {percent(recall_of(row, k, segment)['value'])} against "
            f"{percent(recall_of(ours, k, segment)['value'])}"
            for segment, row in behind.items()
            if row["title"] == title
        ]
        yield f"By segment, Recall@{k}: {title} finds more of {', '.join(shares)}."


def _times(ratio: float) -> str:
    return f"{ratio:.0f} times" if ratio >= 10 else f"{ratio:.1f} times"
