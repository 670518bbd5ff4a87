"""Page: how do findings become report.html, results.csv and results.json?"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from matchset.lab.experiments.findings import (
    RESULTS,
    ComparisonFindings,
    Findings,
    SweepFindings,
    read_findings,
)
from matchset.lab.report.exports import to_csv, to_json
from matchset.lab.report.formatting import Html, join, tag
from matchset.lab.report.inside import inside_the_match_set
from matchset.lab.report.paper import the_paper, the_sweeps
from matchset.lab.report.plots import kind_colors, require_plots
from matchset.lab.report.report_sections import how_to_reproduce, the_data, the_segments, the_table
from matchset.lab.report.verdict import the_verdict, what_it_adds
from matchset.lab.report.weaknesses import side_by_side, where_it_loses
from matchset.storage.atomic import atomic_file

__all__ = ["require_plots", "write_report"]

PAGE, TABLE = "report.html", "results.csv"
# Nothing may be loaded or run except what is on the page itself.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
COMPARED = "Should you adopt the match set?"
SWEPT = "What pruning and the beam cost, and what they gain"


def make_page(findings: Findings, *, is_same: bool = True) -> str:
    """The whole report as one HTML file; `is_same` is False if a sweep had to be left out."""
    found, sweep = findings.comparison, findings.sweep
    parts: list[Html] = []
    if found is not None:
        parts += [
            the_verdict(found),
            what_it_adds(found),
            the_table(found),
            where_it_loses(found),
            the_segments(found),
            inside_the_match_set(found),
            side_by_side(found),
        ]
    parts.append(the_sweeps(sweep, is_same=is_same))
    if found is not None:
        parts.append(the_data(found.data))
    parts.append(how_to_reproduce(found, sweep))
    if found is not None:
        parts.append(the_paper(found))
    heading = SWEPT if found is None else found.data.title or COMPARED
    return frame_page(heading, _describe_data(found, sweep), [part for part in parts if part])


def _describe_data(found: ComparisonFindings | None, sweep: SweepFindings | None) -> str:
    if found is not None:
        data = found.data
        days = "" if data.test.days is None else f", {' to '.join(data.test.days)}"
        return f"{data.origin}: {data.n_queries:,} test queries{days}. Made {found.setting.date}."
    if sweep is None:
        return ""
    test = f"{sweep.n_queries:,} test queries of {sweep.origin}"
    return f"Measured on {test}, {sweep.setting.date}."


def frame_page(heading: str, about: str, parts: list[Html]) -> str:
    """A page of sections; the first is the verdict, and the others are listed below it."""
    style = (files("matchset.lab.report") / "style.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", heading),
        tag("style", Html(f"{kind_colors()}\n{style}")),
    )
    title = join([tag("h1", heading), tag("p", about, class_="note")])
    body = tag("body", tag("main", tag("header", title), parts[0], _contents(parts), *parts[1:]))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _contents(parts: list[Html]) -> Html:
    """Links to all sections but the first, which they stand below."""
    found = [re.match(r'<section id="([a-z]+)"><h2>(.*?)</h2>', part) for part in parts[1:]]
    links = [tag("li", tag("a", Html(m[2]), href=f"#{m[1]}")) for m in found if m is not None]
    return tag("nav", tag("ul", *links), aria_label="Contents")


def write_report(
    out: Path,
    *,
    comparison: ComparisonFindings | None = None,
    sweep: SweepFindings | None = None,
) -> Path:
    """Write report.html, results.csv and results.json into the folder of an experiment.

    Findings that are not passed are those that were written there before. A sweep with other test
    data than the comparison is left out, and the page says so.
    """
    before = read_findings(out)
    comparison, sweep = comparison or before.comparison, sweep or before.sweep
    if comparison is None and sweep is None:
        raise FileNotFoundError(f"{out}: must hold a comparison or a sweep; got neither")
    is_same = comparison is None or sweep is None or comparison.setting.qrels == sweep.setting.qrels
    findings = Findings(comparison, sweep if is_same else None)
    page = make_page(findings, is_same=is_same)
    out.mkdir(parents=True, exist_ok=True)
    for name, text in ((RESULTS, to_json(findings)), (TABLE, to_csv(findings)), (PAGE, page)):
        with atomic_file(out / name) as staged:
            staged.write_text(text, encoding="utf-8")
    return out / PAGE
