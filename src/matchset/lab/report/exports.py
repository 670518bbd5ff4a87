"""Exports: how are all numbers of a report written as JSON and as CSV?"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import NamedTuple

from matchset.cli.console import to_plain
from matchset.evaluate.evaluation import Score
from matchset.evaluate.overlap import Share
from matchset.lab.experiments.findings import (
    FORMAT,
    OURS,
    ComparisonFindings,
    Findings,
    Row,
    SweepFindings,
    SweepRow,
)


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
    """All findings."""
    plain = {"matchset": FORMAT, **to_plain(findings)}
    return json.dumps(plain, indent=1, allow_nan=False) + "\n"


def to_csv(findings: Findings) -> str:
    """All numbers, with a header; an unknown one is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(Number._fields)
    writer.writerows(map(to_plain_row, list_numbers(findings)))
    return out.getvalue()


def to_plain_row(number: Number) -> list[object]:
    """The fields, with nothing for NaN."""
    return list(to_plain(number).values())


def list_numbers(findings: Findings) -> Iterator[Number]:
    """Every number of the report."""
    if findings.comparison is not None:
        yield from _compared(findings.comparison)
    if findings.sweep is not None:
        yield from _swept(findings.sweep)


def _compared(found: ComparisonFindings) -> Iterator[Number]:
    if found.adds is not None:
        names = f"{OURS} and {found.opponent}"
        for share in ("overlap", "recall_first", "recall_second", "both", "only_first",
                      "only_second", "interleaved", "union"):  # fmt: skip
            yield Number("adds", names, share, found.adds.k, None, *getattr(found.adds, share))
    for row in found.present():
        yield from _row(row)
    for d in found.differences:
        name = f"{d.first} over {d.second}"
        yield Number("differences", name, "recall", d.k, None, d.value, d.low, d.high)
        yield Number("differences", name, "p_holm", d.k, None, d.p_holm)
        yield Number("differences", name, "searches", d.k, None, *d.searches)
        yield Number("differences", name, "queries", d.k, None, *d.queries)
    if found.match_set is not None:
        for each in found.match_set.reliability:
            name = f"{each.low:g} to {each.low + 0.1:g}"
            for measure in ("answers", "mean_score", "share"):
                yield Number("reliability", name, measure, None, None, getattr(each, measure))
        for cut in found.match_set.cutoffs:
            for measure in ("recall", "recall_by_traffic", "size", "empty"):
                name = f"min_score {cut.min_score:g}"
                yield Number("cutoffs", name, measure, found.k, None, getattr(cut, measure))


def _row(row: Row) -> Iterator[Number]:
    for score in row.scores:
        yield from _score(row.name, score)
    if row.features is not None:
        yield Number("comparison", row.name, "features", None, None, row.features)
    if row.cost is not None:
        for measure in ("train_seconds", "disk_bytes", "price"):
            if (value := getattr(row.cost, measure)) is not None:
                yield Number("comparison", row.name, measure, None, None, value)
        for part, spent in row.cost.latency.items():
            yield Number("comparison", row.name, f"latency_{part}", None, None, spent)


def _score(name: str, score: Score) -> Iterator[Number]:
    """The score, by traffic too, and the limit of products seen in training."""
    at = score.k, score.segment
    yield Number("comparison", name, score.metric, *at, score.value, score.low, score.high)
    by_traffic = score.by_traffic, score.by_traffic_low, score.by_traffic_high
    yield Number("comparison", name, f"{score.metric}_by_traffic", *at, *by_traffic)
    if score.metric == "recall":
        yield Number("comparison", name, "recall_seen_limit", *at, score.seen_limit)


def _swept(sweep: SweepFindings) -> Iterator[Number]:
    tables = (
        ("thresholds", "threshold", sweep.thresholds),
        ("beams", "beam", sweep.beams),
        ("graphs", "expansion_search", sweep.graphs),
    )
    for table, setting, rows in tables:
        for row in rows:
            yield from _setting(table, f"{setting} {row.setting:g}", row)


def _setting(table: str, name: str, row: SweepRow) -> Iterator[Number]:
    shares: dict[int, Share] = dict(row.recall)
    for k, share in shares.items():
        yield Number(table, name, "recall", k, "all", *share)
    for measure in ("weights", "disk_bytes", "memory_bytes", "queries_per_second"):
        if (value := getattr(row, measure)) is not None:
            yield Number(table, name, measure, None, None, value)
    for part, spent in row.latency.items():
        yield Number(table, name, f"latency_{part}", None, None, spent)
