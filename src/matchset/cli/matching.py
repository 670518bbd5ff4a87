"""Matching: which products does a model give for a query, and why?"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from matchset.cli.console import output, print_error
from matchset.matchers.base import DEFAULT_K
from matchset.matchers.match import Match, Matches
from matchset.matchers.registry import load

BATCH = 10_000  # queries of a file that are answered together


def match(
    model: Path,
    /,
    *queries: str,
    k: Annotated[int, Parameter(alias="-k")] = 10,
    beam: int | None = None,
    where: str | None = None,
    min_score: float | None = None,
    min_relative: float | None = None,
    file: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None,
    form: Literal["table", "tsv", "jsonl"] | None = None,
) -> None:
    """Print the best products for queries.

    Without a query, reads one per line from standard input, or prompts for them in a terminal.

    Parameters
    ----------
    model
        Folder of a trained model or any other saved matcher.
    queries
        Queries as a customer would type them.
    k
        Products per query.
    beam
        Nodes kept per level of the tree (default: the model's own number); a wider beam is slower
        and finds more.
    where
        Filter, such as "price < 20 and locale = 'us'".
    min_score
        Leave out products with a lower score, such as 0.01. The score of a match set is the
        probability that the product is a right answer.
    min_relative
        Leave out products that score less than this share of the query's best, such as 0.1.
    file
        File of queries, one per line; - is standard input.
    form
        Output as a table, tab-separated values or JSON Lines (default: a table for queries given
        as arguments, TSV for those of a file). A query without products is a line of JSON with
        nulls; in TSV it has no line, and standard error says how many such queries there are.

    """
    opened = load(model)
    options: dict[str, Any] = {"k": k, "where": where, "beam": beam}
    options |= {"min_score": min_score, "min_relative": min_relative}
    if not queries and file is None and sys.stdin.isatty():
        prompt(lambda query: opened.match(query, **options))
        return
    chosen, n_empty = form or ("table" if queries else "tsv"), 0
    for batch in [list(queries)] if queries else read_lines(file):
        found = opened.match(batch, **options)
        print_matches(found, chosen)
        n_empty += sum(len(each) == 0 for each in found)
    if n_empty and chosen == "tsv":
        print_error(f"queries without products, which have no line: {n_empty:,}")


def explain(
    model: Path,
    query: str,
    product: str,
    /,
    *,
    k: Annotated[int, Parameter(alias="-k")] = DEFAULT_K,
    beam: int | None = None,
    where: str | None = None,
) -> None:
    """Show why a query gets a product, or why not.

    For a match set: what each part adds to the score, at which rank it proposed the product or why
    it did not, and which words of the query counted. For its tree, and for a tree alone: the
    product's path, and what counted for and against it.

    Parameters
    ----------
    model
        Folder of a trained model.
    query
        A query as a customer would type it.
    product
        Product id.
    k
        Products that are asked for.
    beam
        Nodes kept per level of the tree (default: the model's own number).
    where
        Filter, such as "price < 20 and locale = 'us'".

    """
    output.print(load(model).explain(query, product, k=k, beam=beam, where=where))


def print_matches(matches: Matches, form: str) -> None:
    """Print the products of each query as a table, TSV or JSON Lines."""
    for found in matches:
        if form == "table":
            output.print(found)
            continue
        if form == "jsonl" and len(found) == 0:
            names = ("rank", "product_id", "score", "title")
            line = {"query": found.query, **dict.fromkeys(names)}
            sys.stdout.write(json.dumps(line) + "\n")
        query = to_field(found.query)
        for rank, hit in enumerate(found, start=1):
            if form == "jsonl":
                line = {"query": found.query, "rank": rank, "product_id": hit.id}
                line |= {"score": hit.score, "title": hit.title}
                line |= {} if found.ranks is None else {"ranks": found.ranks[rank - 1]}
                sys.stdout.write(json.dumps(line) + "\n")
            else:
                title = to_field(hit.title or "")
                sys.stdout.write(f"{query}\t{rank}\t{hit.id}\t{hit.score:.6g}\t{title}\n")


def to_field(text: str) -> str:
    """A text as a field of TSV: a tab or a line break becomes a space."""
    return text if text.isprintable() else text.translate({9: " ", 10: " ", 13: " "})


def prompt(ask: Callable[[str], Match]) -> None:
    """Prompt for queries and print the answers until the input ends."""
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
