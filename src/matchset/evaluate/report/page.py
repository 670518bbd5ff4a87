"""Page: in which order is it told?"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from matchset.evaluate.report.html import Html, join, tag
from matchset.evaluate.report.losses import where_it_loses
from matchset.evaluate.report.sections import (
    how_to_repeat,
    side_by_side,
    the_data,
    the_ordering,
    the_plots,
    the_sweeps,
    the_table,
    what_it_adds,
)

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
            what_it_adds(comparison),
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
    style = (files("matchset.evaluate.report") / "style.css").read_text(encoding="utf-8")
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
