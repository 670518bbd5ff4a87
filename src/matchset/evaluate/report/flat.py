"""Flat: the same numbers as one long table, for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_NO_INTERVAL = (None, None)


class Number(NamedTuple):
    """One number of the report."""

    table: str
    name: str  # of the row
    measure: str
    k: int | None
    segment: str | None
    value: float | None
    low: float | None
    high: float | None


def list_numbers(results: Mapping[str, Any]) -> Iterator[Number]:
    """Every number of the report."""
    comparison, sweep = results["comparison"], results["sweep"]
    if comparison is not None:
        yield from _adds(comparison["adds"])
        for row in comparison["rows"]:
            yield from _row(row)
        for claim in comparison["ordering"]:
            if "value" in claim:
                name, k = f"{claim['better']} over {claim['worse']}", max(comparison["ks"])
                yield Number("ordering", name, "difference", k, None, *_share(claim))
    for table, setting in (
        ("thresholds", "threshold"),
        ("beams", "beam"),
        ("graphs", "expansion_search"),
    ):
        for row in sweep[table] if sweep is not None else ():
            yield from _setting(table, f"{setting} {row[setting]:g}", row)


def to_csv(results: Mapping[str, Any]) -> str:
    """As CSV, with a header."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(Number._fields)
    writer.writerows(list_numbers(results))
    return out.getvalue()


def _share(found: Mapping[str, Any]) -> tuple[float | None, float | None, float | None]:
    return found["value"], found["low"], found["high"]


def _adds(adds: Mapping[str, Any] | None) -> Iterator[Number]:
    for name, share in (adds or {}).items():
        if isinstance(share, Mapping) and adds is not None:
            yield Number("adds", "matchset and bm25", name, adds["k"], None, *_share(share))


def _row(row: Mapping[str, Any]) -> Iterator[Number]:
    if row["absent"] is not None:
        return
    for score in row["scores"]:
        named = (score["metric"], score["k"], score["segment"])
        yield Number("comparison", row["name"], *named, *_share(score))
        for measure, share in _others(score):
            yield Number("comparison", row["name"], measure, *named[1:], *share)
    for k, found in row["against_ours"].items():
        yield Number("comparison", row["name"], "against matchset", int(k), None, *_share(found))
    for measure in ("features", "train_seconds", "cost", "disk_bytes"):
        if row[measure] is not None:
            yield Number(
                "comparison", row["name"], measure, None, None, row[measure], *_NO_INTERVAL
            )
    yield from _latency("comparison", row["name"], row["latency"])


def _others(score: Mapping[str, Any]) -> Iterator[tuple[str, tuple[float | None, ...]]]:
    """By traffic and ceiling of a score, where it has them."""
    if score["by_traffic"] is not None:
        bounds = (score["by_traffic_low"], score["by_traffic_high"])
        yield f"{score['metric']}_by_traffic", (score["by_traffic"], *bounds)
    if score["ceiling"] is not None:
        yield f"{score['metric']}_ceiling", (score["ceiling"], *_NO_INTERVAL)


def _setting(table: str, name: str, row: Mapping[str, Any]) -> Iterator[Number]:
    for k, share in row["recall"].items():
        yield Number(table, name, "recall", int(k), "all", *_share(share))
    for measure in ("weights", "disk_bytes", "memory_bytes", "queries_per_second"):
        if measure in row:
            yield Number(table, name, measure, None, None, row[measure], *_NO_INTERVAL)
    yield from _latency(table, name, row["latency"])


def _latency(table: str, name: str, latency: Mapping[str, float]) -> Iterator[Number]:
    for part, spent in latency.items():
        yield Number(table, name, f"latency_{part}", None, None, spent, *_NO_INTERVAL)
