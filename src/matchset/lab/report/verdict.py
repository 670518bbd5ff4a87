"""Verdict: should a shop adopt the match set, by these numbers?"""

from __future__ import annotations

from collections.abc import Iterator

from matchset.evaluate.compare import Difference
from matchset.evaluate.overlap import IncrementalRecall
from matchset.evaluate.significance import ALPHA
from matchset.lab.experiments.baselines import FLOOR
from matchset.lab.experiments.findings import OURS, ComparisonFindings, Row
from matchset.lab.report.formatting import (
    Html,
    format_bytes,
    format_latency,
    format_percent,
    format_points,
    format_seconds,
    section,
    tag,
)

SINGLE = ("ours", "engine", "part", "baseline", "paper")


def the_verdict(found: ComparisonFindings) -> Html:
    """The first section: yes or no in words, from the numbers."""
    headline, *facts = list_verdict(found)
    listed = tag("ul", *(tag("li", fact) for fact in facts))
    tiles = _tiles(found) if facts else None
    return section("Verdict", tag("p", headline, class_="headline"), tiles, listed, name="verdict")


def describe_verdict(found: ComparisonFindings) -> str:
    """The verdict as plain text."""
    headline, *facts = list_verdict(found)
    return "\n".join([headline, *(f"  {fact}" for fact in facts)]).replace("\u00a0", " ")


def list_verdict(found: ComparisonFindings) -> list[str]:
    """The headline, then what it is based on."""
    ours, other = found.row(OURS), found.row(found.opponent)
    if ours is None:
        return ["No verdict: the match set was not run."]
    return [
        _headline(found, other),
        *_compare_with_opponent(found, ours, other),
        *_compare_with_best(found),
        _what_it_costs(ours, other),
    ]


def find_best(found: ComparisonFindings, *, is_single: bool = False) -> Row:
    """The row with the highest recall at the largest k; a single one is no fusion, and not ours."""
    rows = [r for r in found.present() if r.name != FLOOR and r.group != "ablation"]
    if is_single:
        rows = [r for r in rows if r.group in SINGLE and r.name != OURS] or rows
    return max(rows, key=lambda row: row.recall(found.k))


def is_significant(difference: Difference | None) -> bool:
    """Whether a difference is there, and not due to chance."""
    return difference is not None and difference.p_holm < ALPHA


def _headline(found: ComparisonFindings, other: Row | None) -> str:
    if other is None:
        return "No verdict: there is no other search to compare with; give --catalog or --run."
    gap = found.difference(OURS, other.name)
    fusion = _best_fusion(found)
    added = None if fusion is None else found.difference(fusion.name, other.name)
    if gap is not None and is_significant(gap) and gap.value > 0:
        return f"Yes: the match set finds more than {other.title}."
    if added is not None and is_significant(added) and added.value > 0:
        return f"Yes, together with {other.title}: both find more than {other.title} alone."
    if gap is not None and is_significant(gap):
        return f"No: on this data {other.title} finds more, and the match set adds nothing to it."
    return f"Not shown: the difference from {other.title} is not significant."


def _compare_with_opponent(
    found: ComparisonFindings, ours: Row, other: Row | None
) -> Iterator[str]:
    if other is None:
        return
    first = min(found.setting.ks)
    gap, near = found.difference(OURS, other.name), found.difference(OURS, other.name, first)
    if gap is None or near is None:
        return
    # Ratings say nothing about traffic: a query then weighs as much as it has ratings.
    searches = "queries" if found.data.is_rated else "searches"
    gain = near.searches
    low, high = (format_count(1000 * each) for each in (gain.low, gain.high))
    more = "more" if gain.value >= 0 else "fewer"
    yield (
        f"Of 1,000 {searches}, {format_count(abs(1000 * gain.value))} {more} have a "
        f"{found.data.relevant_means} product among the first {first} than with {other.title} "
        f"(95 % interval of the gain: {low} to {high})."
    )
    yield (
        f"Recall@{found.k}: {format_percent(ours.recall(found.k))} against "
        f"{format_percent(other.recall(found.k))}, {_describe_gap(gap)}."
    )
    if other.note:
        yield f"{other.title}: {other.note}."
    fusion = _best_fusion(found)
    added = None if fusion is None else found.difference(fusion.name, other.name)
    if fusion is not None and added is not None:
        yield (
            f"Both together, as a fusion, reach {format_percent(fusion.recall(found.k))}; compared "
            f"with {other.title} alone {_describe_gap(added)}."
        )


def _compare_with_best(found: ComparisonFindings) -> Iterator[str]:
    single, best = find_best(found, is_single=True), find_best(found)
    if single.name not in (OURS, found.opponent):
        gap = found.difference(OURS, single.name)
        shown = "" if gap is None else f"; compared with it the match set has {_describe_gap(gap)}"
        yield (
            f"The best other single matcher is {single.title} with "
            f"{format_percent(single.recall(found.k))}{shown}."
        )
    if best.name not in (OURS, single.name):
        gap = found.difference(OURS, best.name)
        shown = "" if gap is None else f"; compared with it the match set has {_describe_gap(gap)}"
        yield f"The best of all is {best.title}: {format_percent(best.recall(found.k))}{shown}."


def _what_it_costs(ours: Row, other: Row | None) -> str:
    if ours.cost is None:
        return "Its cost was not measured."
    cost = ours.cost
    beside = ""
    if other is not None and other.cost is not None:
        beside = f"; {other.title} answers in {format_latency(other.cost.latency['total_p50'])}"
    return (
        f"It costs {format_bytes(cost.disk_bytes)} on disk, mapped into memory, "
        f"{format_seconds(cost.train_seconds)} of training, and "
        f"{format_latency(cost.latency['total_p50'])} per query (99 % within "
        f"{format_latency(cost.latency['total_p99'])}) on one thread{beside}."
    )


def _describe_gap(gap: Difference) -> str:
    shown = (
        f"{format_points(gap.value)} points ({format_points(gap.low)} to {format_points(gap.high)})"
    )
    return shown if is_significant(gap) else f"{shown}, which is not significant"


def _best_fusion(found: ComparisonFindings) -> Row | None:
    """The best fusion of ours with the opponent."""
    other = found.opponent or ""
    rows = [r for r in found.present("fusion") if found.difference(r.name, other) is not None]
    return max(rows, key=lambda row: row.recall(found.k), default=None)


def format_count(value: float) -> str:
    """A number of searches in a thousand, with its sign if it is negative."""
    shown = f"{value:.1f}" if abs(value) < 10 else f"{value:.0f}"
    return shown.replace("-", "−")


def _tiles(found: ComparisonFindings) -> Html:
    """The recalls that decide: ours, the opponent's, the best single one, and the best of all."""
    rows = (
        found.row(OURS),
        found.row(found.opponent),
        find_best(found, is_single=True),
        find_best(found),
    )
    distinct = {row.name: row for row in rows if row is not None}
    tiles = [_tile(row, found.k) for row in distinct.values()]
    return tag("div", *tiles, class_="tiles")


def _tile(row: Row, k: int) -> Html:
    kind = "ours" if row.name == OURS else ""
    score = row.score(k)
    if score is None:
        return Html("")
    low, high = format_percent(score.low).removesuffix("\u00a0%"), format_percent(score.high)
    number = tag("b", format_percent(score.value), data_value=repr(score.value))
    label = tag("span", f"Recall@{k} of {row.title} ({low} to {high})")
    return tag("div", number, label, class_=f"tile {kind}".strip())


def what_it_adds(found: ComparisonFindings) -> Html:
    """What our match set finds beside the opponent: each alone, and both."""
    adds = found.adds
    if adds is None:
        return Html("")
    ours, other = adds.names
    sentence = (
        f"Of the {found.data.relevant_means} products of a query, as a mean over "
        f"{adds.queries:,} queries, {format_percent(adds.only_first.value)} are found by {ours} "
        f"alone among {adds.k}, {format_percent(adds.only_second.value)} by {other} alone. The two "
        f"match sets have {format_percent(adds.overlap.value)} of their products in common."
    )
    return section(
        f"What it adds to {other}",
        tag("p", sentence),
        *_bar(adds),
        name="adds",
    )


def _bar(adds: IncrementalRecall) -> list[Html]:
    ours, other = adds.names
    both, alone, theirs = (s.value for s in (adds.both, adds.only_first, adds.only_second))
    shares = {
        "both": (both, "found by both"),
        "ours-alone": (alone, f"by {ours} alone"),
        "theirs-alone": (theirs, f"by {other} alone"),
        "neither": (max(0.0, 1 - both - alone - theirs), "by neither"),
    }
    bar = [tag("i", class_=n, style=f"width:{100 * v:.3f}%") for n, (v, _) in shares.items()]
    key = [
        tag("li", tag("i", class_=n), f"{t}: {format_percent(v)}") for n, (v, t) in shares.items()
    ]
    return [tag("div", *bar, class_="bar", aria_hidden="true"), tag("ul", *key, class_="key")]
