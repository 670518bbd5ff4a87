"""Formatting: how do numbers and untrusted texts become HTML?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from html import escape

from matchset.evaluate.evaluation import Score
from matchset.evaluate.overlap import Share
from matchset.matchers.display import percent, printable, with_margin

NOTHING = "–"
_VOID = {"meta", "br", "hr", "wbr", "col"}
_WIDEST = 140  # characters of a title or a query


class Html(str):
    """Text that is HTML already; any other text is escaped when it is joined to it."""

    __slots__ = ()


def tag(name: str, /, *children: str | None, **attributes: object) -> Html:
    """An element; `class_` means class, `data_value` data-value; None and False are left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{join(children)}</{name}>")


def join(parts: Iterable[str | None], between: str = "") -> Html:
    """Concatenate parts; those that are not HTML are escaped."""
    shown = (part if isinstance(part, Html) else escape(part) for part in parts if part)
    return Html(between.join(shown))


def foreign(text: str, widest: int = _WIDEST) -> Html:
    """A title or a query: without control characters, its text direction isolated."""
    return tag("bdi", printable(text, widest))


def format_percent(share: float | None) -> str:
    """A share in percent, with one decimal."""
    return NOTHING if share is None or math.isnan(share) else f"{percent(share)}\u00a0%"


def format_points(difference: float) -> str:
    """A difference of two shares in percentage points, with its sign."""
    return f"{100 * difference:+.1f}".replace("-", "−")


def format_latency(seconds: float) -> str:
    """A short time, with three significant digits."""
    if seconds == 0:
        return NOTHING
    is_short = seconds < 1e-3
    return f"{three_digits((1e6 if is_short else 1e3) * seconds)}\u00a0{'µs' if is_short else 'ms'}"


def format_seconds(value: float) -> str:
    """A long time."""
    if value < 120:
        return f"{value:.2f}\u00a0s" if value < 10 else f"{value:.1f}\u00a0s"
    return f"{value / 60:.1f}\u00a0min"


def format_bytes(n_bytes: float) -> str:
    """A size on disk or in memory."""
    return (
        f"{three_digits(n_bytes / 1e6)}\u00a0MB"
        if n_bytes < 1e9
        else f"{n_bytes / 1e9:.2f}\u00a0GB"
    )


def format_price(value: float) -> str:
    """A cost, in the currency of --price-per-hour."""
    return three_digits(value) if value == 0 or value >= 1e-6 else "< 0.000001"


def three_digits(value: float) -> str:
    """A number with three significant digits, without an exponent."""
    if value == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(decimals, 6)}f}"


def share_cell(share: Score | Share | None, *, is_best: bool = False) -> Html:
    """A cell with a share and its margin, and the interval as a tooltip."""
    if share is None or math.isnan(share.value):
        return tag("td", NOTHING, class_="n")
    number, _, margin = with_margin(share.value, share.low, share.high).partition(" ")
    inside = tag("b", number) if is_best else number
    title = f"95 % interval: {format_percent(share.low)} to {format_percent(share.high)}"
    margin_part = tag("small", f" {margin}") if margin else None
    return tag("td", inside, margin_part, data_value=repr(share.value), title=title, class_="n")


def cell(
    shown: str, value: float | None, *, is_best: bool = False, title: str | None = None
) -> Html:
    """A cell with a formatted number, and its exact value as an attribute."""
    inside = tag("b", shown) if is_best else shown
    exact = None if value is None else repr(value)
    return tag("td", inside, data_value=exact, class_="n", title=title)


def section(heading: str, *children: Html | None, name: str) -> Html:
    """A section of the page."""
    return tag("section", tag("h2", heading), *children, id=name)


def wide(*children: Html, label: str) -> Html:
    """A region that scrolls horizontally on a narrow page."""
    return tag("div", *children, class_="wide", tabindex="0", role="region", aria_label=label)


def make_table(
    label: str, headers: Iterable[str], rows: Iterable[Html], *, n_texts: int = 1
) -> Html:
    """A table; the first column names the rows, and the first `n_texts` columns are text."""
    head = [
        tag("th", header, scope="col", class_="n" if column >= n_texts else None)
        for column, header in enumerate(headers)
    ]
    table = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *rows))
    return wide(table, label=label)


def facts_list(facts: Mapping[str, str]) -> Html:
    """A list of names and values."""
    pairs = (join([tag("dt", name), tag("dd", value)]) for name, value in facts.items())
    return tag("dl", *pairs, class_="facts")
