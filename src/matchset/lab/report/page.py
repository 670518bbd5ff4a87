"""Page: in which order is it told?"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from matchset.lab.experiments.comparison import COMPARISON
from matchset.lab.experiments.store import Store
from matchset.lab.experiments.sweeps import SWEEP
from matchset.lab.report.formatting import Html, join, tag
from matchset.lab.report.plots import require_plots
from matchset.lab.report.sections import (
    how_to_repeat,
    incremental_recall,
    side_by_side,
    the_data,
    the_ordering,
    the_plots,
    the_sweeps,
    the_table,
)
from matchset.lab.report.weaknesses import where_it_loses
from matchset.storage.atomic import atomic_file

# Nothing but what the page itself brings may be loaded or run.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

COMPARED = "What matchset finds, and what it costs"
SWEPT = "What pruning and the beam cost matchset, and what they gain"


def make_page(
    comparison: Mapping[str, Any] | None, sweep: Mapping[str, Any] | None, *, is_same: bool = True
) -> str:
    """The whole report as one HTML file; `is_same` is False where a sweep had to be left out."""
    parts: list[Html] = []
    if comparison is not None:
        parts += [
            incremental_recall(comparison),
            the_data(comparison),
            the_table(comparison),
            where_it_loses(comparison),
            the_ordering(comparison),
        ]
    parts += [the_plots(comparison, sweep), the_sweeps(sweep, is_same=is_same)]
    if comparison is not None:
        parts.append(side_by_side(comparison))
    parts.append(how_to_repeat(comparison, sweep))
    heading = COMPARED if comparison is not None else SWEPT
    return _frame(heading, _tell_data(comparison, sweep), parts)


def _tell_data(comparison: Mapping[str, Any] | None, sweep: Mapping[str, Any] | None) -> str:
    if comparison is not None:
        return f"Measured on {comparison['data']['origin']}, {comparison['date']}."
    if sweep is None:
        return ""
    asked = f"{sweep['asked']:,} test queries of {sweep.get('origin', 'a log')}"
    return f"Measured on {asked}, {sweep['date']}."


def _frame(heading: str, about: str, parts: list[Html]) -> str:
    style = (files("matchset.lab.report") / "style.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", heading),
        tag("style", Html(style)),
    )
    title = join([tag("h1", heading), tag("p", about, class_="note")])
    body = tag("body", tag("main", tag("header", title), *parts))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


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


__all__ = ["require_plots", "write_report"]
PAGE, TABLE, RESULTS = "report.html", "results.csv", "results.json"


def write_report(out: Path) -> Path:
    """Tell what the folder's experiments found: report.html, results.csv and results.json.

    A sweep of other test data than the comparison's is left out, and the page says so.
    """
    store = Store(out)
    comparison, sweep = (_without_nan(store.find_findings(kind)) for kind in (COMPARISON, SWEEP))
    if comparison is None and sweep is None:
        raise FileNotFoundError(f"{out}: must hold a comparison or a sweep; got neither")
    is_same = None in (comparison, sweep) or comparison["questions"] == sweep["questions"]
    results = {"matchset": 1, "comparison": comparison, "sweep": sweep if is_same else None}
    page = make_page(comparison, results["sweep"], is_same=is_same)
    for name, text in (
        (RESULTS, json.dumps(results, indent=1, allow_nan=False) + "\n"),
        (TABLE, to_csv(results)),
        (PAGE, page),
    ):
        _write(out / name, text)
    return out / PAGE


def _without_nan(value: Any) -> Any:
    """What is not known is null: JSON has no NaN."""
    if isinstance(value, dict):
        return {key: _without_nan(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _write(file: Path, text: str) -> None:
    with atomic_file(file) as staged:
        staged.write_text(text, encoding="utf-8")
