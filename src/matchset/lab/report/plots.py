"""Plots: how does a figure become part of the page and follow its colors?

Figures are drawn in placeholder colors, each of which is then replaced by a variable of the page's
style, so that one drawing works in light and in dark mode. Text stays text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from matchset.errors import install_command
from matchset.matchers.registry import list_kinds

if TYPE_CHECKING:
    from markupsafe import Markup

WIDTH, HEIGHT = 4.7, 3.3  # inches; close to a phone's width, where text must stay readable
INK, MUTED, LINE = "#010101", "#020202", "#030303"
SERIES = tuple(f"#0a00{number:02x}" for number in range(1, 7))  # one color per k
MARKERS = ("o", "^", "s", "D", "v", "P", "*", "X", "p", "h", "<", ">")
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


def color_of(kind: str) -> str:
    """Return the placeholder of the color that the registry gives to a kind of matcher."""
    return f"#0b00{list(list_kinds()).index(kind):02x}"


def marker_of(kind: str) -> str:
    """Return the marker of a kind of matcher in every plot."""
    return MARKERS[list(list_kinds()).index(kind) % len(MARKERS)]


def list_variables() -> dict[str, str]:
    """Return the variable of the page's style for each placeholder color."""
    return (
        {INK: "--ink", MUTED: "--muted", LINE: "--line"}
        | {color: f"--c{number}" for number, color in enumerate(SERIES, start=1)}
        | {color_of(kind): f"--kind-{kind}" for kind in list_kinds()}
    )


def kind_colors() -> str:
    """Return a style of the registry's colors, lightened as far as the page asks."""
    mixed = (
        f"--kind-{kind.name}: color-mix(in oklab, {kind.color}, white var(--lighten));"
        for kind in list_kinds().values()
    )
    return f":root {{ {' '.join(mixed)} }}"


def require_plots() -> None:
    """Fail early if the report could not be drawn at the end."""
    for package in ("matplotlib.figure", "jinja2"):
        try:
            import_module(package)
        except ImportError:
            raise ImportError(
                f"the report needs matplotlib and Jinja2; install them with: "
                f"{install_command('report')}"
            ) from None


@contextmanager
def drawing(rows: int = 1, *, height: float = HEIGHT) -> Iterator[tuple[Any, Sequence[Any]]]:
    """Yield a figure and its axes, one below the other, with our settings."""
    require_plots()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(SETTINGS):
        figure = Figure(figsize=(WIDTH, height))
        axes = list(figure.subplots(rows, 1, sharex=rows > 1, squeeze=False)[:, 0])
        yield figure, axes


class Plot(NamedTuple):
    """A figure as part of the page."""

    name: str
    svg: Markup
    caption: str


def embed(figure: Any, name: str, *, summary: str, caption: str) -> Plot:
    """Return the figure as part of the page; `summary` is for those who cannot see it."""
    from markupsafe import Markup, escape
    from matplotlib import rc_context

    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with rc_context(SETTINGS):
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    start, end = _adapt(buffer.getvalue(), name).split(">", 1)
    described = start.replace("<svg ", f'<svg role="img" aria-labelledby="{name}-summary" ', 1)
    title = f'<title id="{name}-summary">{escape(summary)}</title>'
    return Plot(name, Markup(f"{described}>{title}{end}"), caption)  # noqa: S704


def _adapt(svg: str, name: str) -> str:
    """Keep the <svg> element, with the page's colors and font, and ids unique on the page."""
    svg = svg[svg.index("<svg ") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg [^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg [^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"'?DejaVu Sans'?[^;\"]*", "inherit", svg)
    for color, variable in list_variables().items():
        svg = svg.replace(color, f"var({variable})")
    return svg
