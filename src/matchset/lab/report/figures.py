"""Figures: what do the plots of a comparison show?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from matchset.lab.experiments.contenders import MINOR
from matchset.lab.experiments.findings import ComparisonFindings, MatchSetFacts, Row
from matchset.lab.report.formats import format_latency, format_percent
from matchset.lab.report.plots import (
    INK,
    MUTED,
    SERIES,
    Plot,
    color_of,
    drawing,
    embed,
    marker_of,
)

Fill: TypeAlias = Literal["full", "none", "left", "right"]
HOLLOW: tuple[Fill, ...] = ("none", "left", "right")
MIN_POINTS = 10.0  # that an axis of recall spans, so that noise does not look like a cliff


def find_drawn(results: ComparisonFindings) -> list[Row]:
    """Return the rows that plots show."""
    rows = results.present("ours", "engine", "baseline")
    return [row for row in rows if row.name not in MINOR]


def is_variant(row: Row) -> bool:
    """Return whether a row varies its kind; it is drawn in the kind's color, but hollow."""
    return row.name != row.kind and row.group == "baseline"


def fill_of(row: Row, drawn: Sequence[Row]) -> Fill:
    """Return how a marker is filled, so that variants of one kind can be told apart."""
    if not is_variant(row):
        return "full"
    variants = [each.name for each in drawn if each.kind == row.kind and is_variant(each)]
    return HOLLOW[variants.index(row.name) % len(HOLLOW)]


def draw_segments(results: ComparisonFindings) -> Plot:
    """Draw recall by segment, one line per segment and one marker per matcher."""
    drawn, k = find_drawn(results), results.k
    scores = {
        (row.name, score.segment): score
        for row in drawn
        for score in row.scores
        if score.metric == "recall" and score.k == k and score.queries
    }
    segments = list(dict.fromkeys(segment for _, segment in scores))
    tall = max(0.34, 0.055 * len(drawn))  # inches of a segment
    with drawing(height=0.9 + tall * len(segments) + 0.17 * len(drawn)) as (figure, (axes,)):
        for number, row in enumerate(drawn):
            shift = (number - (len(drawn) - 1) / 2) * min(0.1, 0.85 / len(drawn))
            here = [(n, scores.get((row.name, s))) for n, s in enumerate(segments)]
            known = [(n + shift, score) for n, score in here if score is not None]
            values = 100 * np.array([[s.value, s.low, s.high] for _, s in known])
            errors = np.abs(values[:, 1:] - values[:, :1]).T
            axes.errorbar(
                values[:, 0],
                [y for y, _ in known],
                xerr=np.nan_to_num(errors),
                fmt=marker_of(row.kind),
                color=color_of(row.kind),
                fillstyle=fill_of(row, drawn),
                label=row.title,
                elinewidth=1,
                markersize=4.5,
            )
        axes.set_yticks(range(len(segments)), segments)
        axes.invert_yaxis()
        axes.set_xlim(-2, 102)
        axes.set_xlabel(f"Recall@{k}, % (with 95 % interval)")
        figure.legend(loc="outside lower center", ncols=2)
    recalls = "; ".join(f"{row.title} {format_percent(row.recall(k))}" for row in drawn)
    summary = f"Recall@{k} of {len(drawn)} matchers over {', '.join(segments)}. Overall: {recalls}."
    caption = "Recall by kind of query and product."
    return embed(figure, "plot-segments", summary=summary, caption=caption)


def draw_latencies(results: ComparisonFindings) -> Plot:
    """Draw histograms of the latency of single queries, one below the other."""
    drawn = [(row, row.cost) for row in find_drawn(results) if row.cost is not None]
    with drawing(height=0.9 + 0.45 * len(drawn)) as (figure, (axes,)):
        for base, (row, cost) in enumerate(reversed(drawn)):
            edges = 1e3 * np.array(cost.edges)
            counts = np.array(cost.counts, dtype=np.float64)
            heights = 0.85 * counts / max(counts.max(), 1)
            color, alpha = color_of(row.kind), 0.1 if is_variant(row) else 0.35
            axes.stairs(base + heights, edges, baseline=base, fill=True, color=color, alpha=alpha)
            axes.stairs(base + heights, edges, baseline=base, color=color, linewidth=1.2)
            p50 = 1e3 * cost.latency["total_p50"]
            axes.plot([p50, p50], [base, base + 0.9], color=INK, linewidth=1)
            axes.annotate(row.title, (0.01, base + 0.55), xycoords=("axes fraction", "data"))
        set_log_scale(axes.xaxis, axes.set_xscale, (1.0,))
        left, right = axes.get_xlim()
        axes.set_xlim(left / (right / left) ** 0.8, right)  # room for the names, without numbers
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.12g}" if value > left else "")
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("milliseconds per query, one thread; bar: median")
    medians = "; ".join(
        f"{row.title} {format_latency(cost.latency['total_p50'])}" for row, cost in drawn
    )
    caption = "Distribution of the latency of single queries, without the slowest 1\u00a0%."
    return embed(figure, "plot-latency", summary=f"Median latency: {medians}.", caption=caption)


def draw_reliability(facts: MatchSetFacts) -> Plot:
    """Draw the share of relevant answers against the mean score, by tenth of the scale."""
    bins = facts.reliability
    with drawing() as (figure, (axes,)):
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=":", label="as it should be")
        scores, shares = [b.mean_score for b in bins], [b.share for b in bins]
        axes.plot(scores, shares, color=SERIES[0], marker="o", label="the match set")
        for each in bins:
            at = (each.mean_score, each.share)
            axes.annotate(f"{each.answers:,}", at, (5, -9), textcoords="offset points", fontsize=8)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1)
        axes.set_xlabel("mean score of the answers")
        axes.set_ylabel("share of them that is relevant")
        figure.legend(loc="outside lower center", ncols=2)
    ends = "; ".join(f"{b.mean_score:.2f}: {b.share:.2f} of {b.answers:,}" for b in bins)
    summary = f"Share of relevant answers by mean score. {ends or 'Too few answers'}."
    caption = "Do scores mean what they say? The numbers are answers in each tenth of the scale."
    return embed(figure, "plot-reliability", summary=summary, caption=caption)


def draw_cutoffs(facts: MatchSetFacts, k: int) -> Plot:
    """Draw recall against the mean size of the match set, by least score."""
    cuts = [cut for cut in facts.cutoffs if cut.size > 0]
    with drawing() as (figure, (axes,)):
        sizes, recalls = [cut.size for cut in cuts], [100 * cut.recall for cut in cuts]
        axes.plot(sizes, recalls, color=SERIES[0], marker="o")
        room = 0.05 * max(sizes, default=0.0)
        for before, cut in zip([None, *cuts], cuts, strict=False):
            if before is not None and before.size - cut.size < room:
                continue  # the names would cover each other
            at = (cut.size, 100 * cut.recall)
            axes.annotate(
                f"{cut.min_score:g}", at, (4, -11), textcoords="offset points", fontsize=8
            )
        axes.set_xlabel("products per query, mean")
        axes.set_ylabel(f"Recall@{k}, %")
        axes.margins(x=0.1, y=0.12)
        leave_room(axes)
    ends = "; ".join(f"{c.min_score:g}: {format_percent(c.recall)} in {c.size:.1f}" for c in cuts)
    summary = f"Recall and size of the match set by min_score. {ends}."
    caption = "What a minimum score costs and saves; the numbers are min_score."
    return embed(figure, "plot-cutoffs", summary=summary, caption=caption)


def set_log_scale(axis: Any, set_scale: Callable[[str], None], steps: Sequence[float]) -> None:
    """Make an axis logarithmic, with plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    set_scale("log")
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(lambda value, _: f"{value:,.12g}")
    axis.set_minor_formatter(NullFormatter())


def leave_room(axes: Any) -> None:
    """Show a range of at least `MIN_POINTS`."""
    low, high = axes.get_ylim()
    missing = max(0.0, MIN_POINTS - (high - low)) / 2
    axes.set_ylim(max(0.0, low - missing), min(100.0, high + missing))
