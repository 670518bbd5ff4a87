"""Verdict: should a shop adopt the match set, by these numbers?

Each sentence says what was counted: queries count once, searches count a query as often as
customers entered it. The headline says yes or no only where recall, the count of the sentence
below it and both intervals have the same direction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from matchset.evaluate.compare import Difference
from matchset.evaluate.overlap import Share
from matchset.evaluate.significance import ALPHA
from matchset.lab.experiments.baseline_rows import FLOOR
from matchset.lab.experiments.findings import OURS, ComparisonFindings, Row
from matchset.lab.report.formats import (
    format_bytes,
    format_count,
    format_latency,
    format_percent,
    format_points,
    format_seconds,
)

SINGLE = ("ours", "engine", "part", "baseline", "paper")
COLD, WARM = "cold product", "warm product"  # segments
LOSES = "It loses on"  # how a sentence begins that the page shows in red


class Verdict(NamedTuple):
    """A headline, and the sentences that it is based on."""

    headline: str
    facts: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([self.headline, *(f"  {fact}" for fact in self.facts)])


def describe_verdict(results: ComparisonFindings) -> str:
    """Return the verdict as plain text."""
    return str(find_verdict(results)).replace("\u00a0", " ")


def find_verdict(results: ComparisonFindings) -> Verdict:
    """Judge the match set beside the opponent, alone and together with it."""
    ours, other = results.row(OURS), results.row(results.opponent)
    if ours is None:
        return Verdict("No verdict: the match set was not run.")
    if other is None:
        headline = "No verdict: there is no other search to compare with; give --catalog or --run."
        return Verdict(headline, (*_compare_with_best(results), _describe_cost(ours, other)))
    headline, judged = _judge(results, ours, other)
    facts = (
        *_find_blind_spot(results, ours),
        *_count_hits(results, judged, other),
        *_compare_recall(results, ours, other),
        *_compare_with_best(results),
        _describe_cost(ours, other),
    )
    return Verdict(headline, facts)


def _judge(results: ComparisonFindings, ours: Row, other: Row) -> tuple[str, Row]:
    """Return the headline, and the row that it is about: ours, or a fusion with the opponent."""
    fusion = _find_fusion(results, other)
    alone = _find_direction(results, ours, other)
    if alone > 0:
        return f"Yes: the match set finds more than {other.title}.", ours
    if fusion is not None and _find_direction(results, fusion, other) > 0:
        headline = f"Yes, together with {other.title}: both find more than {other.title} alone."
        return headline, fusion
    if alone < 0:
        headline = f"No: on this data {other.title} finds more"
        together = "" if fusion is None else "; that both together find more is not shown"
        return f"{headline}{together}.", ours
    return f"Not shown: whether the match set finds more than {other.title} is not certain.", ours


def _find_direction(results: ComparisonFindings, row: Row, other: Row) -> int:
    """Return 1 or -1 where recall, the count of hits and their intervals agree, else 0."""
    gap = results.difference(row.name, other.name)
    near = results.difference(row.name, other.name, min(results.setting.ks))
    if gap is None or near is None or not is_significant(gap):
        return 0
    gain = _choose_gain(results, near)
    bounds = (gap.value, gap.low, gap.high, gain.value, gain.low, gain.high)
    return 1 if min(bounds) > 0 else -1 if max(bounds) < 0 else 0


def _choose_gain(results: ComparisonFindings, near: Difference) -> Share:
    """Return the gain in queries if people rated products: ratings say nothing about traffic."""
    return near.queries if results.data.is_rated else near.searches


def is_significant(difference: Difference | None) -> bool:
    """Return whether a difference is there, and not due to chance."""
    return difference is not None and difference.p_holm < ALPHA


def find_best(results: ComparisonFindings, *, is_single: bool = False) -> Row:
    """Return the row of the highest recall at the largest k; a single one is no fusion or ours."""
    rows = [row for row in results.present() if row.name != FLOOR and row.group != "ablation"]
    if is_single:
        rows = [row for row in rows if row.group in SINGLE and row.name != OURS] or rows
    return max(rows, key=lambda row: row.recall(results.k))


def _find_fusion(results: ComparisonFindings, other: Row) -> Row | None:
    """Return the best fusion of ours with the opponent."""
    rows = [row for row in results.present("fusion") if results.difference(row.name, other.name)]
    return max(rows, key=lambda row: row.recall(results.k), default=None)


def _count_hits(results: ComparisonFindings, judged: Row, other: Row) -> Iterator[str]:
    first = min(results.setting.ks)
    near = results.difference(judged.name, other.name, first)
    if near is None:
        return
    gain = _choose_gain(results, near)
    low, high = (format_count(1000 * bound) for bound in (gain.low, gain.high))
    counted = "queries" if results.data.is_rated else "searches (each query by its traffic)"
    yield (
        f"Of 1,000 {counted}, {format_count(abs(1000 * gain.value))} "
        f"{'more' if gain.value >= 0 else 'fewer'} have a {results.data.relevant_means} product "
        f"among the first {first} of {judged.title} than of {other.title} "
        f"(95 % interval of the gain: {low} to {high}{_warn_if_wide(gain)})."
    )
    if other.note:
        yield f"{other.title}: {other.note}."


def _compare_recall(results: ComparisonFindings, ours: Row, other: Row) -> Iterator[str]:
    gap = results.difference(OURS, other.name)
    if gap is not None:
        yield (
            f"Recall@{results.k}, as a mean over queries: {format_percent(ours.recall(results.k))} "
            f"against {format_percent(other.recall(results.k))}, {_describe_gap(gap)}."
        )
    fusion = _find_fusion(results, other)
    added = None if fusion is None else results.difference(fusion.name, other.name)
    if fusion is not None and added is not None:
        yield (
            f"Both together, as a fusion, reach {format_percent(fusion.recall(results.k))}; "
            f"compared with {other.title} alone {_describe_gap(added)}."
        )
    yield from _compare_by_product(results, ours, other)


def _compare_by_product(results: ComparisonFindings, ours: Row, other: Row) -> Iterator[str]:
    """Yield recall of products that no training query led to, and of the others, apart."""
    for segment, name in ((COLD, "new products (not in training)"), (WARM, "products of training")):
        mine, theirs = ours.score(results.k, segment), other.score(results.k, segment)
        if mine is None or theirs is None or not mine.queries:
            continue
        start = LOSES if theirs.low > mine.high else "On"
        values = f"{format_percent(mine.value)} against {format_percent(theirs.value)}"
        yield f"{start} {name}: Recall@{results.k} {values}, over {mine.queries:,} queries."


def _find_blind_spot(results: ComparisonFindings, ours: Row) -> Iterator[str]:
    """Yield that new products cannot be judged, if the test has none."""
    cold = ours.score(results.k, COLD)
    if cold is None or not cold.queries:
        yield "This log cannot judge new products: every product of the test was in training."


def _compare_with_best(results: ComparisonFindings) -> Iterator[str]:
    single, best = find_best(results, is_single=True), find_best(results)
    if single.name not in (OURS, results.opponent):
        yield _describe_best(results, single, "The best other single matcher is")
    if best.name not in (OURS, single.name):
        yield _describe_best(results, best, "The best of all is")


def _describe_best(results: ComparisonFindings, row: Row, start: str) -> str:
    gap = results.difference(OURS, row.name)
    end = "" if gap is None else f"; compared with it the match set has {_describe_gap(gap)}"
    recall = format_percent(row.recall(results.k))
    return f"{start} {row.title} with a Recall@{results.k} of {recall}{end}."


def _describe_gap(gap: Difference) -> str:
    interval = f"{format_points(gap.low)} to {format_points(gap.high)}"
    shown = f"{format_points(gap.value)} points ({interval})"
    if not is_significant(gap):
        return f"{shown}, which is not significant"
    return f"{shown}{_warn_if_wide(Share(gap.value, gap.low, gap.high))}"


def _warn_if_wide(share: Share) -> str:
    is_wide = share.high - share.low > abs(share.value)
    return ", an interval wider than the effect" if is_wide else ""


def _describe_cost(ours: Row, other: Row | None) -> str:
    if ours.cost is None:
        return "Its cost was not measured."
    cost, beside = ours.cost, ""
    if other is not None and other.cost is not None:
        beside = f"; {other.title} answers in {format_latency(other.cost.latency['total_p50'])}"
    return (
        f"It costs {format_bytes(cost.disk_bytes)} on disk, mapped into memory, "
        f"{format_seconds(cost.train_seconds)} of training, and "
        f"{format_latency(cost.latency['total_p50'])} per query (99 % within "
        f"{format_latency(cost.latency['total_p99'])}) on one thread{beside}."
    )
