"""Figures: what do the report's plots show?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from matchset.lab.experiments.contenders import GRAPH, MINOR, OURS
from matchset.lab.report.formatting import Html, format_latency, format_percent
from matchset.lab.report.plots import (
    INK,
    MARKERS,
    MUTED,
    SERIES,
    color_of,
    drawing,
    embed,
    marker_of,
)
from matchset.matchers.registry import find_kind

MIN_POINTS = 10.0  # that an axis of recall spans, so that noise does not look like a cliff

Rows = Sequence[Mapping[str, Any]]


def find_drawn(rows: Rows) -> list[Mapping[str, Any]]:
    """The rows that plots show."""
    return [row for row in rows if row["absent"] is None and row["name"] not in MINOR]


def is_variant(row: Mapping[str, Any]) -> bool:
    """Whether a row varies its kind; it is drawn in the kind's color, but hollow."""
    return bool(row["name"] != row["kind"])


def draw_segments(rows: Rows, k: int) -> Html:
    """Recall by segment, one line per segment and one marker per matcher."""
    drawn = find_drawn(rows)
    scores = {
        (row["name"], score["segment"]): score
        for row in drawn
        for score in row["scores"]
        if score["metric"] == "recall" and score["k"] == k and score["queries"]
    }
    segments = list(dict.fromkeys(segment for _, segment in scores))
    with drawing(height=0.9 + 0.34 * len(segments) + 0.17 * len(drawn)) as (figure, (axes,)):
        for number, row in enumerate(drawn):
            shift = (number - (len(drawn) - 1) / 2) * 0.1
            found = [(n, scores.get((row["name"], s))) for n, s in enumerate(segments)]
            known = [(n + shift, score) for n, score in found if score is not None]
            values = np.array(
                [[100 * s[name] for name in ("value", "low", "high")] for _, s in known]
            )
            errors = np.abs(values[:, 1:] - values[:, :1]).T
            axes.errorbar(
                values[:, 0],
                [y for y, _ in known],
                xerr=np.nan_to_num(errors),
                fmt=marker_of(row["kind"]),
                color=color_of(row["kind"]),
                fillstyle="none" if is_variant(row) else "full",
                label=row["title"],
                elinewidth=1,
                markersize=4.5,
            )
        axes.set_yticks(range(len(segments)), segments)
        axes.invert_yaxis()
        axes.set_xlim(-2, 102)
        axes.set_xlabel(f"Recall@{k}, % (with 95 % interval)")
        figure.legend(loc="outside lower center", ncols=2)
    recalls = "; ".join(
        f"{row['title']} {format_percent(scores[row['name'], 'all']['value'])}" for row in drawn
    )
    summary = f"Recall@{k} of {len(drawn)} matchers over {', '.join(segments)}. Overall: {recalls}."
    caption = "Recall by segment. Cold products were not relevant to any training query."
    return embed(figure, "plot-segments", summary=summary, caption=caption)


def draw_latencies(rows: Rows) -> Html:
    """Histograms of the latency of single queries, one below the other."""
    drawn = find_drawn(rows)
    with drawing(height=0.9 + 0.45 * len(drawn)) as (figure, (axes,)):
        for base, row in enumerate(reversed(drawn)):
            edges = 1e3 * np.array(row["histogram"]["edges"])
            counts = np.array(row["histogram"]["counts"], dtype=np.float64)
            heights = 0.85 * counts / max(counts.max(), 1)
            color, alpha = color_of(row["kind"]), 0.1 if is_variant(row) else 0.35
            axes.stairs(base + heights, edges, baseline=base, fill=True, color=color, alpha=alpha)
            axes.stairs(base + heights, edges, baseline=base, color=color, linewidth=1.2)
            p50 = 1e3 * row["latency"]["total_p50"]
            axes.plot([p50, p50], [base, base + 0.9], color=INK, linewidth=1)
            axes.annotate(row["title"], (0.01, base + 0.55), xycoords=("axes fraction", "data"))
        _set_log_scale(axes.xaxis, axes.set_xscale, (1.0,))
        left, right = axes.get_xlim()
        axes.set_xlim(left / (right / left) ** 0.6, right)  # room for the names
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("milliseconds per query, one thread; bar: median")
    medians = "; ".join(
        f"{row['title']} {format_latency(row['latency']['total_p50'])}" for row in drawn
    )
    caption = "Distribution of the latency of single queries, without the slowest 1\u00a0%."
    return embed(figure, "plot-latency", summary=f"Median latency: {medians}.", caption=caption)


def draw_beams(rows: Rows, ks: Sequence[int]) -> Html:
    """Recall against the width of the beam."""
    beams = [row["beam"] for row in rows]
    with drawing() as (figure, (axes,)):
        for k, color, marker in zip(ks, SERIES, MARKERS, strict=False):
            values = 100 * np.array([_recall(row, k) for row in rows])
            axes.plot(beams, values[:, 0], color=color, marker=marker, label=f"Recall@{k}")
            axes.fill_between(
                beams, values[:, 1], values[:, 2], color=color, alpha=0.18, linewidth=0
            )
        axes.set_xlabel(f"beam (threshold {rows[0]['threshold']:g})")
        axes.set_ylabel("recall, %")
        _leave_room(axes)
        figure.legend(loc="outside lower center", ncols=len(ks))
    ends = [
        f"{row['beam']}: {format_percent(row['recall'][str(max(ks))]['value'])}" for row in rows
    ]
    summary = f"Recall@{max(ks)} by beam. {'; '.join(ends)}."
    return embed(
        figure, "plot-beams", summary=summary, caption="Recall against the width of the beam."
    )


def draw_thresholds(rows: Rows, ks: Sequence[int]) -> Html:
    """Recall above, size below, against the threshold of pruning."""
    thresholds = [row["threshold"] for row in rows]
    with drawing(2, height=4.4) as (figure, (upper, lower)):
        for k, color, marker in zip(ks, SERIES, MARKERS, strict=False):
            values = 100 * np.array([_recall(row, k) for row in rows])
            upper.plot(thresholds, values[:, 0], color=color, marker=marker, label=f"Recall@{k}")
            upper.fill_between(
                thresholds, values[:, 1], values[:, 2], color=color, alpha=0.18, linewidth=0
            )
        upper.set_ylabel("recall, %")
        _leave_room(upper)
        for name, color, marker in (("disk_bytes", INK, "o"), ("memory_bytes", MUTED, "s")):
            label = "whole model on disk" if name == "disk_bytes" else "tree in memory"
            sizes = [row[name] / 1e6 for row in rows]
            lower.plot(thresholds, sizes, color=color, marker=marker, label=label)
        lower.set_ylabel("MB")
        lower.set_ylim(bottom=0)
        lower.set_xlabel(f"pruning threshold (beam {rows[0]['beam']})")
        figure.legend(loc="outside lower center", ncols=3)
    ends = [
        f"{row['threshold']:g}: {format_percent(_recall(row, max(ks))[0])}, "
        f"{row['disk_bytes'] / 1e6:.1f} MB"
        for row in rows
    ]
    summary = f"Recall@{max(ks)} and size by threshold. {'; '.join(ends)}."
    caption = "Recall and size against the threshold below which weights are dropped."
    return embed(figure, "plot-thresholds", summary=summary, caption=caption)


def draw_throughput(beams: Rows, graphs: Rows, k: int) -> Html:
    """Throughput against recall: the upper right is best."""
    curves = [(OURS, f"{find_kind(OURS).label}, beams", beams, "beam")]
    if graphs:
        label = f"{find_kind(GRAPH).label}, expansion"
        curves.append((GRAPH, label, graphs, "expansion_search"))
    with drawing() as (figure, (axes,)):
        for kind, title, rows, setting in curves:
            recalls = [100 * row["recall"][str(k)]["value"] for row in rows]
            speeds = [row["queries_per_second"] for row in rows]
            axes.plot(recalls, speeds, color=color_of(kind), marker=marker_of(kind), label=title)
            for point in {0, len(rows) // 2, len(rows) - 1}:
                value = f"{rows[point][setting]}"
                at = (recalls[point], speeds[point])
                axes.annotate(value, at, (4, 5), textcoords="offset points", fontsize=8)
        _set_log_scale(axes.yaxis, axes.set_yscale, (1.0, 2.0, 5.0))
        axes.set_xlabel(f"Recall@{k}, %")
        axes.set_ylabel("queries per second, one thread")
        axes.margins(x=0.08, y=0.12)
        figure.legend(loc="outside lower center", ncols=2)
    ends = [
        f"{title}: {', '.join(_format_speed(row, k) for row in (rows[0], rows[-1]))}"
        for _, title, rows, _ in curves
    ]
    summary = f"Queries per second against Recall@{k}, first and last point. {'; '.join(ends)}."
    numbers = "beams, or expansion_search of the graph" if graphs else "beams"
    caption = f"Throughput against recall; the numbers are {numbers}."
    return embed(figure, "plot-throughput", summary=summary, caption=caption)


def _set_log_scale(axis: Any, set_scale: Callable[[str], None], steps: Sequence[float]) -> None:
    """A logarithmic axis with plain numbers."""
    from matplotlib.ticker import LogLocator, NullFormatter

    set_scale("log")
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(lambda value, _: f"{value:,.12g}")
    axis.set_minor_formatter(NullFormatter())


def _format_speed(row: Mapping[str, Any], k: int) -> str:
    recall = format_percent(row["recall"][str(k)]["value"])
    return f"{row['queries_per_second']:,.0f} per second at {recall}"


def _recall(row: Mapping[str, Any], k: int) -> tuple[float, float, float]:
    share = row["recall"][str(k)]
    return share["value"], share["low"], share["high"]


def _leave_room(axes: Any) -> None:
    """Show a range of at least `MIN_POINTS`."""
    low, high = axes.get_ylim()
    missing = max(0.0, MIN_POINTS - (high - low)) / 2
    axes.set_ylim(max(0.0, low - missing), min(100.0, high + missing))
