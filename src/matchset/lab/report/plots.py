"""Plots: how does a figure become a part of the page that follows its colours?

Figures are drawn with colours that nothing else has, and each is then replaced by a variable of the
page's style, so that one drawing serves by day and by night. Text stays text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from matchset.lab.report.formatting import Html, tag

WIDTH, HEIGHT = 4.7, 3.3  # inches; near a phone's width, so that its text stays readable there
INK, MUTED, LINE = "#010101", "#020202", "#030303"
COLORS = ("#0a0101", "#0a0202", "#0a0303", "#0a0404", "#0a0505", "#0a0606")
VARIABLES = {INK: "--ink", MUTED: "--muted", LINE: "--line"} | {
    color: f"--c{number}" for number, color in enumerate(COLORS, start=1)
}
MARKERS = ("o", "s", "^", "D", "v", "P")
SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "matchset",
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": LINE,
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.0,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "figure.constrained_layout.use": True,
}


def require_plots() -> None:
    """Refuse to start where the report could not be drawn in the end."""
    try:
        import_module("matplotlib.figure")
    except ImportError:
        raise ImportError(
            "the report must have matplotlib, an extra; get it by: pip install 'matchset[report]'"
        ) from None


@contextmanager
def drawing(rows: int = 1, *, height: float = HEIGHT) -> Iterator[tuple[Any, Sequence[Any]]]:
    """A figure and its axes, one below the other, in our settings."""
    require_plots()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH, height))
        axes = list(figure.subplots(rows, 1, sharex=rows > 1, squeeze=False)[:, 0])
        yield figure, axes


def embed(figure: Any, name: str, *, says: str, caption: str) -> Html:
    """The figure as a part of the page: `says` is for those who cannot see it."""
    from matplotlib import rc_context

    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with rc_context(SETTINGS):
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    drawn = _adapt(buffer.getvalue(), name)
    shown = Html(drawn.replace("<svg ", f'<svg role="img" aria-labelledby="{name}-says" ', 1))
    title = tag("title", says, id=f"{name}-says")
    whole = Html(shown.replace(">", f">{title}", 1))
    return tag("figure", whole, tag("figcaption", caption), id=name)


def _adapt(svg: str, name: str) -> str:
    """The element alone, with the page's colours and font, and ids that no other figure has."""
    svg = svg[svg.index("<svg ") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg [^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"'?DejaVu Sans'?[^;\"]*", "inherit", svg)
    for color, variable in VARIABLES.items():
        svg = svg.replace(color, f"var({variable})")
    return svg
