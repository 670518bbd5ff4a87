"""Grids: what does each matcher give for a query, side by side?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matchset.evaluate.report.html import Html, foreign, join, tag
from matchset.evaluate.report.tables import wide
from matchset.matchers.show import printable

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
