"""Losses: where is the match set behind others, overall and by segment?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from matchset.lab.experiments.findings import OURS, ComparisonFindings, Row
from matchset.lab.report.formats import format_percent, format_points
from matchset.lab.report.verdict import is_significant


def list_losses(results: ComparisonFindings, ours: Row) -> list[str]:
    """List the matchers and segments in which ours is significantly behind, as sentences."""
    rows = [row for row in results.present() if row.group != "ablation"]
    behind = find_behind(results, ours)
    return [*_list_ahead(results, rows, ours), *_list_segments(behind, ours, results.k)]


def _list_ahead(results: ComparisonFindings, rows: Sequence[Row], ours: Row) -> Iterator[str]:
    for row in rows:
        gaps = {k: results.difference(OURS, row.name, k) for k in results.setting.ks}
        ahead = {k: -d.value for k, d in gaps.items() if d and is_significant(d) and d.value < 0}
        if ahead:
            gains = ", ".join(f"{format_points(gain)} at {k}" for k, gain in ahead.items())
            yield f"{row.title} finds more: {gains} (points of recall).{_compare_costs(row, ours)}"


def _compare_costs(row: Row, ours: Row) -> str:
    if row.cost is None or ours.cost is None:
        return ""
    training = _times(row.cost.train_seconds / ours.cost.train_seconds)
    latency = _times(row.cost.latency["total_p50"] / ours.cost.latency["total_p50"])
    return f" It takes {training} the training time and {latency} the time per query."


def find_behind(results: ComparisonFindings, ours: Row) -> dict[str, Row]:
    """Return the segments in which another row is ahead with a disjoint interval, and that row."""
    rows = [row for row in results.present() if row.group != "ablation"]
    behind = {}
    for segment in dict.fromkeys(score.segment for score in ours.scores):
        mine = ours.score(results.k, segment)
        scored = [(score, row) for row in rows if (score := row.score(results.k, segment))]
        known = [(score, row) for score, row in scored if score.value == score.value]
        if segment == "all" or mine is None or not known:
            continue
        best, row = max(known, key=lambda each: each[0].value)
        if best.low > mine.high:
            behind[segment] = row
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
