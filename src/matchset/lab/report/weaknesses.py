"""Weaknesses: where is the match set behind others, query by query and by segment?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from matchset.lab.experiments.findings import OURS, Answer, ComparisonFindings, Example, Row
from matchset.lab.report.formatting import (
    Html,
    foreign,
    format_percent,
    format_points,
    join,
    section,
    tag,
    wide,
)
from matchset.lab.report.verdict import is_significant
from matchset.matchers.display import printable

EXAMPLES = {
    "wins": "Where the match set finds more than {partner}: the largest differences",
    "loses": "Where the match set finds less than {partner}: the largest differences",
    "random": "Other queries, chosen at random",
}
NOWHERE = (
    "No other matcher has a significantly higher recall, overall or in a segment. What it costs in "
    "comparison is in the table above."
)


def side_by_side(found: ComparisonFindings) -> Html:
    """Section: what each matcher returns for some queries."""
    data = found.data
    note = (
        f"The ten best products of each matcher. Green with ✓: {data.relevant_means} for this "
        f"query in the test; grey: {_describe_others(found)}. Queries with fewer than "
        f"{found.setting.config['min_query_count']:g} events are never shown."
    )
    return section(
        "Side by side",
        tag("p", note, class_="note"),
        _show_examples(found),
        name="examples",
    )


def _describe_others(found: ComparisonFindings) -> str:
    if found.data.is_rated:
        return "not judged, or judged less relevant, which is not the same as wrong"
    return f"not {found.data.relevant_means} in the test, which does not mean that it is wrong"


def _show_examples(found: ComparisonFindings) -> Html:
    titles = {row.name: row.title for row in found.rows}
    if not found.examples or found.opponent is None:
        return tag("p", "No test query is frequent enough to be shown.", class_="note")
    parts = []
    for kind, heading in EXAMPLES.items():
        chosen = [query for query in found.examples if query.kind == kind]
        parts.append(tag("h3", heading.format(partner=titles[found.opponent])))
        if not chosen:
            parts.append(tag("p", "There is none among the sampled queries.", class_="note"))
        parts += [_show(query, titles, found.data.relevant_means) for query in chosen]
    return join(parts)


def _show(query: Example, titles: Mapping[str, str], means: str) -> Html:
    lists = [
        tag("section", tag("h4", _head(titles[name], answers, means)), _list(answers, means))
        for name, answers in query.answers.items()
    ]
    n = query.n_relevant
    note = tag("small", f" · {n:,} {'product' if n == 1 else 'products'} {means} in the test")
    label = f"Answers to {printable(query.query, 60)}"
    return tag(
        "article",
        tag("p", tag("b", foreign(query.query)), note),
        wide(tag("div", *lists, class_="answers"), label=label),
        class_="example",
    )


def _head(title: str, answers: Sequence[Answer], means: str) -> Html:
    n_found = sum(answer.is_relevant for answer in answers)
    return join([title, tag("br"), tag("small", f"{n_found} of {len(answers)} {means}")])


def _list(answers: Sequence[Answer], means: str) -> Html:
    items = []
    for answer in answers:
        mark = tag("span", f"{means}: ", class_="hidden") if answer.is_relevant else None
        kind = "yes" if answer.is_relevant else None
        shown, title = foreign(answer.title), printable(answer.title, 300)
        items.append(tag("li", mark, shown, class_=kind, title=title))
    if not answers:
        items.append(tag("li", "no products", class_="none"))
    return tag("ol", *items)


def where_it_loses(found: ComparisonFindings) -> Html:
    """Section: losses by matcher and by segment; empty if our match set was not run."""
    ours = found.row(OURS)
    if ours is None:
        return Html("")
    rows = [row for row in found.present() if row.group != "ablation"]
    behind = _find_behind(rows, ours, found.k)
    losses = [*_list_ahead(found, rows, ours), *_list_segments(behind, ours, found.k)]
    items = [tag("li", line) for line in losses or [NOWHERE]]
    why = None
    if "cold product" in behind:
        why = tag(
            "p",
            f"{format_percent(found.data.unseen_products)} of the test products were not relevant "
            "to any training query. They can only be found by their titles.",
            class_="note",
        )
    return section("Where the match set loses", tag("ul", *items), why, name="loses")


def _list_ahead(found: ComparisonFindings, rows: Sequence[Row], ours: Row) -> Iterator[str]:
    for row in rows:
        gaps = {k: found.difference(OURS, row.name, k) for k in found.setting.ks}
        ahead = {k: -d.value for k, d in gaps.items() if d and is_significant(d) and d.value < 0}
        if ahead:
            gains = ", ".join(f"{format_points(gain)} at {k}" for k, gain in ahead.items())
            yield f"{row.title} finds more: {gains} (points of recall).{_costs(row, ours)}"


def _costs(row: Row, ours: Row) -> str:
    if row.cost is None or ours.cost is None:
        return ""
    training = row.cost.train_seconds / ours.cost.train_seconds
    latency = row.cost.latency["total_p50"] / ours.cost.latency["total_p50"]
    return (
        f" It takes {_times(training)} the training time and {_times(latency)} the time per query."
    )


def _find_behind(rows: Sequence[Row], ours: Row, k: int) -> dict[str, Row]:
    """Segments in which another row is ahead with a disjoint interval, and that row."""
    behind = {}
    for segment in dict.fromkeys(score.segment for score in ours.scores):
        mine = ours.score(k, segment)
        scored = [(row, score) for row in rows if (score := row.score(k, segment)) is not None]
        known = [(row, score) for row, score in scored if score.value == score.value]
        if segment == "all" or mine is None or not known:
            continue
        best, score = max(known, key=lambda each: each[1].value)
        if score.low > mine.high:
            behind[segment] = best
    return behind


def _list_segments(behind: Mapping[str, Row], ours: Row, k: int) -> Iterator[str]:
    for title in dict.fromkeys(row.title for row in behind.values()):
        shares = [
            f"{segment} {_share(row, k, segment)} against {_share(ours, k, segment)}"
            for segment, row in behind.items()
            if row.title == title
        ]
        yield f"By segment, Recall@{k}: {title} finds more of {', '.join(shares)}."


def _share(row: Row, k: int, segment: str) -> str:
    score = row.score(k, segment)
    return format_percent(None if score is None else score.value)


def _times(ratio: float) -> str:
    return f"{ratio:.0f} times" if ratio >= 10 else f"{ratio:.1f} times"
