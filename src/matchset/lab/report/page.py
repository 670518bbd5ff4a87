"""Page: how do findings become report.html, results.csv and results.json?"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matchset.evaluate.significance import ALPHA
from matchset.lab.dssm.settings import DSSMConfig
from matchset.lab.experiments.findings import (
    OURS,
    RESULTS,
    ComparisonFindings,
    DataFacts,
    Findings,
    Row,
    Side,
    SweepFindings,
    read_findings,
)
from matchset.lab.experiments.paper_rows import EXACT, GRAPH, QUICK_EPOCHS
from matchset.lab.report import comparison_tables as tables
from matchset.lab.report import figures, paper_tables, sweep_figures
from matchset.lab.report.exports import to_csv, to_json
from matchset.lab.report.formats import format_percent
from matchset.lab.report.losses import find_behind, list_losses
from matchset.lab.report.plots import kind_colors, require_plots
from matchset.lab.report.verdict import COLD, LOSES, Verdict, find_best, find_verdict
from matchset.matchers.display import percent, printable
from matchset.matchers.registry import XR_LINEAR, find_kind
from matchset.model.reranker import LEAST_CALIBRATED
from matchset.storage.atomic import atomic_file

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["require_plots", "write_report"]

PAGE, TABLE = "report.html", "results.csv"
COMPARED = "Should you adopt the match set?"
SWEPT = "What pruning and the beam cost, and what they gain"


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


def make_page(findings: Findings, *, is_same: bool = True) -> str:
    """Return the report as one HTML file; `is_same` is False if a sweep had to be left out."""
    results, sweep = findings.comparison, findings.sweep
    context: dict[str, Any] = {"results": results, "sweep": sweep, "headings": {}, "tables": {}}
    context |= {
        "title": SWEPT,
        "plots": {},
        "style": _read_style(),
        **_describe_run(results, sweep),
    }
    if results is not None:
        _add_comparison(context, results)
    if sweep is not None or not is_same:
        context["headings"]["sweeps"] = "Pruning and the beam"
    if sweep is not None:
        _add_sweep(context, sweep)
    if results is not None:
        _add_data(context, results)
    context["headings"]["repeat"] = "How to reproduce it"
    return _open_template().render(context)


def _open_template() -> Template:
    """Return the template, in which every value is escaped that is not Markup already."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"percent": format_percent, "printable": printable}
    text = (files("matchset.lab.report") / "report.html.jinja").read_text(encoding="utf-8")
    return environment.from_string(text)


def _read_style() -> Any:
    from markupsafe import Markup

    style = (files("matchset.lab.report") / "style.css").read_text(encoding="utf-8")
    return Markup(f"{kind_colors()}\n{style}")  # noqa: S704


def _add_comparison(context: dict[str, Any], results: ComparisonFindings) -> None:
    """Add the sections of a comparison that has rows; the contents list them in this order."""
    headings, ours = context["headings"], results.row(OURS)
    verdict = find_verdict(results)
    headings["verdict"] = "Verdict"
    context |= {
        "title": COMPARED,
        "verdict": verdict,
        "loses": LOSES,
        "tiles": _list_tiles(results, verdict),
        "titles": {row.name: row.title for row in results.rows},
        "means": results.data.relevant_means,
    }
    if results.adds is not None:
        headings["adds"] = f"What it adds to {results.adds.names[1]}"
    headings["table"] = "All matchers"
    context["tables"] |= {
        "recall": tables.recall_table(results),
        "ablation": tables.ablation_table(results),
        "cost": tables.cost_table(results),
    }
    if ours is not None:
        headings["loses"] = "Where the match set loses"
        context["losses"] = list_losses(results, ours)
        context["is_behind_on_cold"] = COLD in find_behind(results, ours)
    if figures.find_drawn(results):
        headings["segments"] = "By kind of query, and latency"
        context["plots"]["segments"] = figures.draw_segments(results)
        context["plots"]["latency"] = figures.draw_latencies(results)
        context["tables"]["segments"] = tables.segment_table(results)
    _add_inside(context, results)
    headings["examples"] = "Side by side"


def _add_inside(context: dict[str, Any], results: ComparisonFindings) -> None:
    facts = results.match_set
    if facts is None:
        return
    context["headings"]["inside"] = "Inside the match set"
    context["plots"]["cutoffs"] = figures.draw_cutoffs(facts, results.k)
    if facts.learned.get("positives", 0) >= LEAST_CALIBRATED:
        context["plots"]["reliability"] = figures.draw_reliability(facts)
    context["tables"] |= {
        "cutoffs": tables.cutoff_table(facts, results.k),
        "parts": tables.part_table(facts),
        "weights": tables.weight_table(facts),
    }


def _add_sweep(context: dict[str, Any], sweep: SweepFindings) -> None:
    context["plots"] |= {
        "throughput": sweep_figures.draw_throughput(sweep),
        "beams": sweep_figures.draw_beams(sweep),
        "thresholds": sweep_figures.draw_thresholds(sweep),
    }
    context["tables"] |= {
        "thresholds": paper_tables.threshold_table(sweep),
        "beams": paper_tables.beam_table(sweep),
    }
    context["is_paper_tree"] = sweep.kind == XR_LINEAR


def _add_data(context: dict[str, Any], results: ComparisonFindings) -> None:
    headings = context["headings"]
    headings["data"] = "The data"
    context["facts_of_data"] = _describe_data(results.data)
    if results.present("paper"):
        headings["paper"] = "The paper's tables"
        context["tables"] |= {
            "paper": paper_tables.paper_table(results),
            "order": paper_tables.order_table(results),
        }
        context |= {"dssm": DSSMConfig(), "quick_epochs": QUICK_EPOCHS}
        context["has_dssm"] = any(results.row(name) for name in (EXACT, GRAPH))


def _list_tiles(results: ComparisonFindings, verdict: Verdict) -> list[dict[str, Any]]:
    """Return the recalls that decide: ours, the opponent's, and those of the best rows."""
    if not verdict.facts:
        return []
    best = find_best(results, is_single=True), find_best(results)
    rows: tuple[Row | None, ...] = (results.row(OURS), results.row(results.opponent), *best)
    distinct = {row.name: row for row in rows if row is not None}
    return [
        {
            "title": row.title,
            "score": score,
            "interval": f"{percent(score.low)} to {format_percent(score.high)}",
        }
        for row in distinct.values()
        if (score := row.score(results.k)) is not None
    ]


def _describe_data(data: DataFacts) -> dict[str, str]:
    return {
        "data": data.origin,
        "trained on": _describe_side(data.train),
        "tested on": f"{_describe_side(data.test)}; {data.n_queries:,} queries used",
        "positive in training": data.train.rule,
        "relevant in the test": data.test.rule,
        "catalog": "none" if (n := data.catalog_products) is None else f"{n:,} products",
        "never seen in training": (
            f"{format_percent(data.unseen_products)} of the test products, "
            f"{format_percent(data.unseen_queries)} of the test queries"
        ),
        "seen in training": (
            f"products that allow a Recall@100 of {format_percent(data.seen_limit)}; it is a "
            "ceiling for matchers without titles, and others exceed it"
        ),
    }


def _describe_side(side: Side) -> str:
    sizes = f"{side.pairs:,} pairs of {side.queries:,} queries and {side.products:,} products"
    return sizes if side.days is None else f"{sizes}; {' to '.join(side.days)}"


def _describe_run(
    results: ComparisonFindings | None, sweep: SweepFindings | None
) -> dict[str, Any]:
    """Return command, machine, versions and configuration, and which rows were not run."""
    settings = [part.setting for part in (results, sweep) if part is not None]
    first = settings[0]
    versions = ", ".join(f"{name} {number}" for name, number in first.versions.items())
    return {
        "commands": "\n".join(each.command for each in settings if each.command),
        "facts_of_run": {
            **first.machine,
            "versions": versions,
            "date": first.date,
            "seed": str(first.seed),
        },
        "config": json.dumps(first.config, indent=1, ensure_ascii=False),
        "ours_label": find_kind(OURS).label,
        "alpha": ALPHA,
        "absent": "" if results is None else _list_absent(results),
    }


def _list_absent(results: ComparisonFindings) -> str:
    """Return which rows were not run, by the reason."""
    reasons: dict[str, list[str]] = {}
    for row in results.rows:
        if row.absent:
            reasons.setdefault(row.absent, []).append(row.title)
    return "; ".join(f"{', '.join(titles)} ({reason})" for reason, titles in reasons.items())
