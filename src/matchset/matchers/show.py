"""Showing: how do people see a result, whatever its titles hold?

Titles, ids and queries come from strangers. Control characters, also those that reverse the
direction of text, are taken out; the rest is shown as it is and never read as markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from matchset.matchers.match import Match, Matches

_MOST_ROWS = 20  # of a match, or matches of a batch
_WIDEST = 60  # characters of a title, or of a batch's products


def printable(text: str) -> str:
    """The text without control characters; white space of any kind is a space."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " if char.isspace() else "" for char in text)


def plain_match(match: Match) -> str:
    """A few aligned lines."""
    return "\n".join([_headline(match), *_align(_match_rows(match)), *_rest(len(match))])


def plain_matches(matches: Matches) -> str:
    """A few aligned lines, one for each query."""
    head = f"Matches({len(matches):,} queries)"
    return "\n".join([head, *_align(_batch_rows(matches)), *_rest(len(matches))])


def rich_match(match: Match) -> Table:
    """A table for a terminal."""
    headers = ["", "score", "product", "title"][: 3 if match.titles is None else 4]
    return _rich_table(_headline(match), headers, _match_rows(match), len(match))


def rich_matches(matches: Matches) -> Table:
    """A table for a terminal, one row for each query."""
    title = f"Matches({len(matches):,} queries)"
    return _rich_table(title, ["", "query", "products"], _batch_rows(matches), len(matches))


def html_match(match: Match) -> str:
    """A table for a notebook."""
    headers = ["", "score", "product", "title"][: 3 if match.titles is None else 4]
    return _html_table(_headline(match), headers, _match_rows(match), len(match))


def html_matches(matches: Matches) -> str:
    """A table for a notebook, one row for each query."""
    title = f"Matches({len(matches):,} queries)"
    return _html_table(title, ["", "query", "products"], _batch_rows(matches), len(matches))


def _headline(match: Match) -> str:
    return f"Match({_cut(printable(match.query))!r}, {len(match):,} products)"


def _match_rows(match: Match) -> Iterator[list[str]]:
    for rank, hit in enumerate(islice(match, _MOST_ROWS), start=1):
        row = [str(rank), f"{hit.score:.4g}", printable(hit.id)]
        yield row if hit.title is None else [*row, _cut(printable(hit.title))]


def _batch_rows(matches: Matches) -> Iterator[list[str]]:
    for place, match in enumerate(islice(matches, _MOST_ROWS)):
        ids = " ".join(printable(product) for product in match[:10].ids)
        yield [str(place), _cut(printable(match.query)), _cut(ids)]


def _rest(n: int) -> list[str]:
    return [f"... {n - _MOST_ROWS:,} more"] if n > _MOST_ROWS else []


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."


def _align(rows: Iterable[list[str]]) -> list[str]:
    listed = list(rows)
    widths = [max(map(len, column)) for column in zip(*listed, strict=True)]
    return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in listed]


def _rich_table(title: str, headers: list[str], rows: Iterable[list[str]], n: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), caption=Text("".join(_rest(n))), title_justify="left")
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _html_table(title: str, headers: list[str], rows: Iterable[list[str]], n: int) -> str:
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    caption = escape(" ".join([title, *_rest(n)]))
    return (
        f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )
