"""HTML: how does text from strangers get onto a page and stay text?"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from matchset.matchers.show import printable

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
