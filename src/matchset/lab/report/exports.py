"""Exports: how are all numbers of a report written as JSON and as CSV?"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import fields
from typing import NamedTuple

from matchset.evaluate.evaluation import Score
from matchset.evaluate.overlap import IncrementalRecall, Share
from matchset.lab.experiments.findings import (
    FORMAT,
    OURS,
    ComparisonFindings,
    Findings,
    MatchSetFacts,
    Row,
    SweepFindings,
)
from matchset.storage.codec import encode


class Number(NamedTuple):
    """One number of the report."""

    table: str
    name: str  # of the row
    measure: str
    k: int | None
    segment: str | None
    value: float | None
    low: float | None = None
    high: float | None = None


def to_json(findings: Findings) -> str:
    """Return all findings; an unknown number is null."""
    plain = {"matchset": FORMAT, **encode(findings)[0]}
    return json.dumps(plain, indent=1, allow_nan=False) + "\n"


def to_csv(findings: Findings) -> str:
    """Return all numbers, with a header; an unknown one is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(Number._fields)
    for number in list_numbers(findings):
        writer.writerow(value if value == value else None for value in number)
    return out.getvalue()


def list_numbers(findings: Findings) -> Iterator[Number]:
    """Yield every number of the report."""
    if findings.comparison is not None:
        yield from _list_compared(findings.comparison)
    if findings.sweep is not None:
        yield from _list_swept(findings.sweep)


def _list_compared(results: ComparisonFindings) -> Iterator[Number]:
    if results.adds is not None:
        names = f"{OURS} and {results.opponent}"
        for field in fields(IncrementalRecall):
            if isinstance(share := getattr(results.adds, field.name), Share):
                yield Number("adds", names, field.name, results.adds.k, None, *share)
    for row in results.present():
        yield from _list_row(row)
    for gap in results.differences:
        at = "differences", f"{gap.first} over {gap.second}"
        yield Number(*at, "recall", gap.k, None, gap.value, gap.low, gap.high)
        yield Number(*at, "p_holm", gap.k, None, gap.p_holm)
        yield Number(*at, "searches", gap.k, None, *gap.searches)
        yield Number(*at, "queries", gap.k, None, *gap.queries)
    if results.match_set is not None:
        yield from _list_scores(results.match_set, results.k)


def _list_scores(facts: MatchSetFacts, k: int) -> Iterator[Number]:
    """Yield what scores mean, and what a least score costs."""
    for part in facts.reliability:
        name = f"{part.low:g} to {part.low + 0.1:g}"
        for measure in ("answers", "mean_score", "share"):
            yield Number("reliability", name, measure, None, None, getattr(part, measure))
    for cut in facts.cutoffs:
        name = f"min_score {cut.min_score:g}"
        for measure in ("recall", "recall_by_traffic", "size", "empty"):
            yield Number("cutoffs", name, measure, k, None, getattr(cut, measure))


def _list_row(row: Row) -> Iterator[Number]:
    for score in row.scores:
        yield from _list_score(row.name, score)
    at = "comparison", row.name
    if row.features is not None:
        yield Number(*at, "features", None, None, row.features)
    if row.cost is not None:
        yield Number(*at, "train_seconds", None, None, row.cost.train_seconds)
        yield Number(*at, "disk_bytes", None, None, row.cost.disk_bytes)
        for part, seconds in row.cost.latency.items():
            yield Number(*at, f"latency_{part}", None, None, seconds)


def _list_score(name: str, score: Score) -> Iterator[Number]:
    """Yield the score, by traffic too, and the limit of products seen in training."""
    at = score.k, score.segment
    yield Number("comparison", name, score.metric, *at, score.value, score.low, score.high)
    by_traffic = score.by_traffic, score.by_traffic_low, score.by_traffic_high
    yield Number("comparison", name, f"{score.metric}_by_traffic", *at, *by_traffic)
    if score.metric == "recall":
        yield Number("comparison", name, "recall_seen_limit", *at, score.seen_limit)


def _list_swept(sweep: SweepFindings) -> Iterator[Number]:
    tables = (
        ("thresholds", "threshold", sweep.thresholds),
        ("beams", "beam", sweep.beams),
    )
    for table, setting, rows in tables:
        for row in rows:
            at = table, f"{setting} {row.setting:g}"
            for k, share in zip(sweep.setting.ks, row.recall, strict=True):
                yield Number(*at, "recall", k, "all", *share)
            for measure in ("weights", "disk_bytes", "memory_bytes", "queries_per_second"):
                if (value := getattr(row, measure)) is not None:
                    yield Number(*at, measure, None, None, value)
            for part, seconds in row.latency.items():
                yield Number(*at, f"latency_{part}", None, None, seconds)
