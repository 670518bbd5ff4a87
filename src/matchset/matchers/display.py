"""Display: how is a result shown in a terminal or notebook, safely for any title?

Titles, ids and queries come from strangers. Control characters, including those that reverse the
direction of text, are removed; everything else is displayed literally, never as markup.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

MOST_ROWS = 20  # displayed
_WIDEST = 60  # characters of a cell


@dataclass(frozen=True, slots=True)
class Grid:
    """The first rows of a table, and how many rows there are."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]  # of printable texts
    n_rows: int

    @property
    def rest(self) -> str:
        """A note on the rows that are left out."""
        n_hidden = self.n_rows - len(self.rows)
        return f"... {n_hidden:,} more" if n_hidden else ""


class Shown(ABC):
    """Something displayed as a grid: as plain text, by rich, and in a notebook."""

    __slots__ = ()

    @abstractmethod
    def _grid(self) -> Grid: ...

    def __repr__(self) -> str:
        return to_plain(self._grid())

    def __rich__(self) -> Table:
        """Return the table that rich prints in a terminal."""
        return to_rich(self._grid())

    def _repr_html_(self) -> str:
        return to_html(self._grid())


def printable(text: str, widest: int = _WIDEST) -> str:
    """Return the text shortened, without control characters, any white space as a space."""
    # Shortened before too: a hostile title may be megabytes of control characters.
    start = text[: 4 * widest]
    kept = "".join(char if char.isprintable() else " " if char.isspace() else "" for char in start)
    if len(kept) <= widest and len(start) == len(text):
        return kept
    return kept[: widest - 3] + "..."


def to_plain(grid: Grid) -> str:
    """Return aligned lines of text."""
    widths = [max(map(len, column)) for column in zip(*grid.rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in grid.rows]
    return "\n  ".join(filter(None, [grid.title, *lines, grid.rest]))


def to_rich(grid: Grid) -> Table:
    """Return a rich table; `Text` is never parsed as markup."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(grid.title), caption=Text(grid.rest), title_justify="left")
    for header in grid.headers:
        table.add_column(Text(header))
    for row in grid.rows:
        table.add_row(*map(Text, row))
    return table


def to_html(grid: Grid) -> str:
    """Return an HTML table for a notebook."""
    head = "".join(f"<th>{escape(header)}</th>" for header in grid.headers)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in grid.rows
    )
    caption = escape(f"{grid.title} {grid.rest}".strip())
    return (
        f"<table><caption>{caption}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


class Headed(Shown):
    """Something displayed as a grid with column names in plain text too."""

    __slots__ = ()

    def __repr__(self) -> str:
        grid = self._grid()
        return to_plain(replace(grid, rows=[grid.headers, *grid.rows], n_rows=grid.n_rows + 1))


def percent(share: float) -> str:
    """Return a share in percent, a dash where it is NaN."""
    return "-" if math.isnan(share) else f"{100 * share:.1f}"


def with_margin(value: float, low: float, high: float) -> str:
    """Return a share with the larger half of its confidence interval: 31.2 ±1.1."""
    if math.isnan(low) or math.isnan(value):
        return percent(value)
    return f"{percent(value)} ±{percent(max(value - low, high - value))}"
