"""Figures of a sweep: what do pruning and the beam cost, and what do they gain?"""

from __future__ import annotations

import numpy as np

from matchset.lab.experiments.findings import SweepFindings
from matchset.lab.report.figures import leave_room, set_log_scale
from matchset.lab.report.formats import format_percent
from matchset.lab.report.plots import (
    INK,
    MARKERS,
    MUTED,
    SERIES,
    Plot,
    color_of,
    drawing,
    embed,
    marker_of,
)


def draw_beams(sweep: SweepFindings) -> Plot:
    """Draw recall against the width of the beam."""
    rows, ks = sweep.beams, sweep.setting.ks
    beams = [row.setting for row in rows]
    with drawing() as (figure, (axes,)):
        for at, (k, color, marker) in enumerate(zip(ks, SERIES, MARKERS, strict=False)):
            values = 100 * np.array([row.recall[at] for row in rows])
            axes.plot(beams, values[:, 0], color=color, marker=marker, label=f"Recall@{k}")
            axes.fill_between(
                beams, values[:, 1], values[:, 2], color=color, alpha=0.18, linewidth=0
            )
        axes.set_xlabel(f"beam (its own: {sweep.own_beam})")
        axes.set_ylabel("recall, %")
        axes.axvline(sweep.own_beam, color=MUTED, linewidth=1, linestyle=":")
        leave_room(axes)
        figure.legend(loc="outside lower center", ncols=len(ks))
    ends = [f"{row.setting:g}: {format_percent(row.recall[-1].value)}" for row in rows]
    summary = f"Recall@{max(ks)} by beam. {'; '.join(ends)}."
    return embed(
        figure, "plot-beams", summary=summary, caption="Recall against the width of the beam."
    )


def draw_thresholds(sweep: SweepFindings) -> Plot:
    """Draw recall above, size below, against the threshold of pruning."""
    rows, ks = sweep.thresholds, sweep.setting.ks
    thresholds = [row.setting for row in rows]
    with drawing(2, height=4.4) as (figure, (upper, lower)):
        for at, (k, color, marker) in enumerate(zip(ks, SERIES, MARKERS, strict=False)):
            values = 100 * np.array([row.recall[at] for row in rows])
            upper.plot(thresholds, values[:, 0], color=color, marker=marker, label=f"Recall@{k}")
            upper.fill_between(
                thresholds, values[:, 1], values[:, 2], color=color, alpha=0.18, linewidth=0
            )
        upper.set_ylabel("recall, %")
        leave_room(upper)
        for name, color, marker in (("disk_bytes", INK, "o"), ("memory_bytes", MUTED, "s")):
            label = "whole model on disk" if name == "disk_bytes" else "tree in memory"
            sizes = [getattr(row, name) / 1e6 for row in rows]
            lower.plot(thresholds, sizes, color=color, marker=marker, label=label)
        lower.set_ylabel("MB")
        lower.set_ylim(bottom=0)
        lower.set_xlabel(f"pruning threshold (its own: {sweep.own_threshold:g})")
        figure.legend(loc="outside lower center", ncols=3)
    ends = [
        f"{row.setting:g}: {format_percent(row.recall[-1].value)}, "
        f"{(row.disk_bytes or 0) / 1e6:.1f} MB"
        for row in rows
    ]
    summary = f"Recall@{max(ks)} and size by threshold. {'; '.join(ends)}."
    caption = "Recall and size against the threshold below which weights are dropped."
    return embed(figure, "plot-thresholds", summary=summary, caption=caption)


def draw_throughput(sweep: SweepFindings) -> Plot:
    """Draw throughput against recall: the upper right is best."""
    k, rows, kind = sweep.setting.ks[-1], sweep.beams, sweep.kind
    recalls = [100 * row.recall[-1].value for row in rows]
    speeds = [row.queries_per_second or 0.0 for row in rows]
    with drawing() as (figure, (axes,)):
        axes.plot(recalls, speeds, color=color_of(kind), marker=marker_of(kind), label=sweep.title)
        for point in {0, len(rows) // 2, len(rows) - 1}:
            at = (recalls[point], speeds[point])
            value = f"{rows[point].setting:g}"
            axes.annotate(value, at, (4, 5), textcoords="offset points", fontsize=8)
        set_log_scale(axes.yaxis, axes.set_yscale, (1.0, 2.0, 5.0))
        axes.set_xlabel(f"Recall@{k}, %")
        axes.set_ylabel("queries per second, one thread")
        axes.margins(x=0.08, y=0.12)
        figure.legend(loc="outside lower center", ncols=2)
    ends = (
        f"{row.queries_per_second:,.0f} per second at {format_percent(row.recall[-1].value)}"
        for row in (rows[0], rows[-1])
    )
    summary = f"Queries per second against Recall@{k}, first and last beam: {', '.join(ends)}."
    caption = "Throughput against recall; the numbers are beams."
    return embed(figure, "plot-throughput", summary=summary, caption=caption)
