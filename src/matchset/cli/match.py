"""Explain: why does a query get a product?"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from matchset.cli.console import output
from matchset.matchers.base import DEFAULT_BEAM
from matchset.matchers.match import Match, Matches
from matchset.matchers.registry import load


def explain(model: Path, query: str, product: str, /, *, beam: int = DEFAULT_BEAM) -> None:
    """Show the way of a product through the tree, and what spoke for and against it.

    Parameters
    ----------
    model
        Folder of a trained model.
    query
        What a customer typed.
    product
        Product id.
    beam
        Nodes kept per level of the tree.

    """
    output.print(load(model).explain(query, product, beam=beam))


BATCH = 10_000  # queries of a file that are asked together


def match(
    model: Path,
    /,
    *queries: str,
    k: Annotated[int, Parameter(alias="-k")] = 10,
    beam: int | None = None,
    where: str | None = None,
    min_score: float | None = None,
    file: Path | None = None,
    form: Literal["table", "tsv", "jsonl"] | None = None,
) -> None:
    """Give the best products for queries.

    Without a query: from standard input, one query a line, or by asking in a terminal.

    Parameters
    ----------
    model
        Folder of a trained model, or of any other matcher that was saved.
    queries
        What customers would type.
    k
        Products per query.
    beam
        Nodes kept per level of a tree, 10 unless told: wider is slower and finds more, up to a
        point.
    where
        Filter, such as "price < 20 and locale = 'us'".
    min_score
        Leave out products that score less, such as 0.01: scores far below the best are noise.
    file
        File of queries, one a line; - is standard input.
    form
        A table for people, or tab-separated values or JSON Lines for programs; by default a table
        for queries given here, TSV for those of a file.

    """
    opened = load(model)
    options: dict[str, Any] = {"k": k, "where": where, "beam": beam, "min_score": min_score}
    if queries:
        show(opened.match(list(queries), **options), form or "table")
    elif file is None and sys.stdin.isatty():
        converse(lambda query: opened.match(query, **options))
    else:
        for batch in read_lines(file):
            show(opened.match(batch, **options), form or "tsv")


def show(matches: Matches, form: str) -> None:
    """Print answers in a form."""
    for found in matches:
        if form == "table":
            output.print(found)
            continue
        query = one_line(found.query)
        for rank, hit in enumerate(found, start=1):
            if form == "jsonl":
                line = {"query": found.query, "rank": rank, "product_id": hit.id}
                line |= {"score": hit.score, "title": hit.title}
                line |= {} if found.ranks is None else {"ranks": found.ranks[rank - 1]}
                sys.stdout.write(json.dumps(line) + "\n")
            else:
                title = one_line(hit.title or "")
                sys.stdout.write(f"{query}\t{rank}\t{hit.id}\t{hit.score:.6g}\t{title}\n")


def one_line(text: str) -> str:
    """A value between tabs: a tab or a line break inside becomes a space."""
    return text if text.isprintable() else text.translate({9: " ", 10: " ", 13: " "})


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
