"""Match: which products does a model give for a query?"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from matchset.cli.console import output
from matchset.matchers.match import Match, Matches
from matchset.matchers.tree_matcher import DEFAULT_BEAM, TreeMatcher

BATCH = 10_000  # queries of a file that are asked together


def match(
    model: Path,
    /,
    *queries: str,
    k: Annotated[int, Parameter(alias="-k")] = 10,
    beam: int = DEFAULT_BEAM,
    where: str | None = None,
    file: Path | None = None,
    form: Literal["table", "tsv", "jsonl"] | None = None,
) -> None:
    """Give the best products for queries.

    Without a query: from standard input, one query a line, or by asking in a terminal.

    Parameters
    ----------
    model
        Folder of a trained model.
    queries
        What customers would type.
    k
        Products per query.
    beam
        Nodes kept per level of the tree: wider is slower and finds more, up to a point.
    where
        Filter, such as "price < 20 and locale = 'us'".
    file
        File of queries, one a line; - is standard input.
    form
        A table for people, or tab-separated values or JSON Lines for programs; by default a table
        for queries given here, TSV for those of a file.

    """
    opened = TreeMatcher.load(model)
    allowed = None if where is None else opened.filter(where)
    if queries:
        show(opened.match(list(queries), k, beam=beam, where=allowed), form or "table")
    elif file is None and sys.stdin.isatty():
        converse(lambda query: opened.match(query, k, beam=beam, where=allowed))
    else:
        for batch in read_lines(file):
            show(opened.match(batch, k, beam=beam, where=allowed), form or "tsv")


def show(matches: Matches, form: str) -> None:
    """Print answers in a form."""
    for found in matches:
        if form == "table":
            output.print(found)
            continue
        for rank, row in enumerate(found.to_dicts(), start=1):
            line = {"query": found.query, "rank": rank, **row}
            sys.stdout.write((json.dumps(line) if form == "jsonl" else to_tsv(line)) + "\n")


def to_tsv(row: dict[str, object]) -> str:
    """Values between tabs; a tab or a line break inside one becomes a space."""
    values = (str(value).translate({9: " ", 10: " ", 13: " "}) for value in row.values())
    return "\t".join(values)


def converse(ask: Callable[[str], Match]) -> None:
    """Ask and answer until the input ends."""
    while True:
        try:
            query = output.input("query> ")
        except EOFError:
            return
        if query.strip():
            output.print(ask(query))


def read_lines(file: Path | None) -> Iterator[Sequence[str]]:
    """Lines of a file or of standard input, in batches."""
    stream = sys.stdin if file is None or str(file) == "-" else file.open(encoding="utf-8")
    with stream:
        lines = (line.rstrip("\n") for line in stream)
        while batch := list(islice(lines, BATCH)):
            yield batch
