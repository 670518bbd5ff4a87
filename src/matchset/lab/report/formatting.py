"""HTML: how does text from strangers get onto a page and stay text?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from matchset.matchers.display import printable, with_margin

_VOID = {"meta", "br", "hr", "wbr", "col"}
_WIDEST = 140  # characters of a title or a query that are shown


class Html(str):
    """Text that is HTML already; every other text is escaped before it becomes a part of it."""

    __slots__ = ()


def tag(name: str, /, *children: str | None, **attributes: object) -> Html:
    """An element; `class_` is class, `data_value` is data-value, None and False are left out."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{told}>")
    return Html(f"<{name}{told}>{join(children)}</{name}>")


def join(parts: Iterable[str | None], between: str = "") -> Html:
    """Parts one after another, those that are not HTML escaped."""
    shown = (part if isinstance(part, Html) else escape(part) for part in parts if part)
    return Html(between.join(shown))


def foreign(text: str, widest: int = _WIDEST) -> Html:
    """A title or a query: without control characters, and its direction kept to itself."""
    return tag("bdi", printable(text, widest))


NOTHING = "–"


def percent(share: float | None) -> str:
    """A share in percent, with one decimal."""
    return NOTHING if share is None or math.isnan(share) else f"{100 * share:.1f}\u00a0%"


def points(difference: float) -> str:
    """A difference of shares in points, with its sign."""
    return f"{100 * difference:+.1f}".replace("-", "−")


def moment(seconds: float) -> str:
    """A time that nobody waits for, with three digits that count."""
    if seconds == 0:
        return NOTHING
    is_short = seconds < 1e-3
    return f"{three_digits((1e6 if is_short else 1e3) * seconds)}\u00a0{'µs' if is_short else 'ms'}"


def seconds(value: float) -> str:
    """A time that one waits for."""
    if value < 120:
        return f"{value:.2f}\u00a0s" if value < 10 else f"{value:.1f}\u00a0s"
    return f"{value / 60:.1f}\u00a0min"


def megabytes(n_bytes: float) -> str:
    """A size."""
    return (
        f"{three_digits(n_bytes / 1e6)}\u00a0MB"
        if n_bytes < 1e9
        else f"{n_bytes / 1e9:.2f}\u00a0GB"
    )


def price(value: float) -> str:
    """What something costs, in whatever it was told in."""
    return three_digits(value) if value == 0 or value >= 1e-6 else "< 0.000001"


def three_digits(value: float) -> str:
    """With three digits that count, without an exponent."""
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(places, 6)}f}"


def share_cell(share: Mapping[str, Any], *, is_best: bool = False) -> Html:
    """A cell with a share, its margin, and all of it for those who look closer."""
    value, low, high = share["value"], share["low"], share["high"]
    if value is None:
        return tag("td", NOTHING)
    shown = with_margin(value, math.nan if low is None else low, math.nan if high is None else high)
    number, _, margin = shown.partition(" ")
    inside = tag("b", number) if is_best else number
    title = None if low is None else f"95 % interval: {percent(low)} to {percent(high)}"
    margin_part = tag("small", f" {margin}") if margin else None
    return tag("td", inside, margin_part, data_value=repr(value), title=title, class_="n")


def cell(
    shown: str, value: float | None, *, is_best: bool = False, title: str | None = None
) -> Html:
    """A cell with a number as it is shown, and as it is."""
    inside = tag("b", shown) if is_best else shown
    told = None if value is None else repr(value)
    return tag("td", inside, data_value=told, class_="n", title=title)
