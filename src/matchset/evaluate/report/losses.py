"""Losses: who finds more than our recipe, for which queries, and at what cost?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matchset.evaluate.report.html import Html, tag
from matchset.evaluate.report.numbers import percent, points
from matchset.evaluate.report.tables import ALPHA, OURS, recall_of

Row = Mapping[str, Any]


def where_it_loses(findings: Mapping[str, Any]) -> Html:
    """Plainly, by row and by segment; empty where our recipe was not run."""
    rows = [row for row in findings["rows"] if row["absent"] is None]
    ours = next((row for row in rows if row["name"] == OURS), None)
    if ours is None:
        return Html("")
    k = max(findings["ks"])
    lost = [*_rows_ahead(rows, ours), *_segments_behind(rows, ours, k)]
    told = [tag("li", line) for line in lost] or [tag("li", "Nowhere in this table.")]
    why = None
    if any(line.startswith("cold product") for line in lost):
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


def _segments_behind(rows: Sequence[Row], ours: Row, k: int) -> Iterator[str]:
    """Segments in which another row is ahead, and the two intervals do not meet."""
    for segment in dict.fromkeys(score["segment"] for score in ours["scores"]):
        best = max(rows, key=lambda row: recall_of(row, k, segment)["value"] or 0.0)
        mine, theirs = (recall_of(row, k, segment) for row in (ours, best))
        known = None not in (mine["high"], theirs["low"])
        if segment != "all" and best is not ours and known and theirs["low"] > mine["high"]:
            yield (
                f"{segment}: {best['title']} finds {percent(theirs['value'])}, matchset "
                f"{percent(mine['value'])} (Recall@{k})."
            )


def _times(ratio: float) -> str:
    return f"{ratio:.0f} times" if ratio >= 10 else f"{ratio:.1f} times"
