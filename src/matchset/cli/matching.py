"""Matching: which products does a model give for a query, and why?"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from cyclopts import Parameter

from matchset.cli.console import Form, output, print_error, print_text
from matchset.matchers.base import DEFAULT_K
from matchset.matchers.match import Match, Matches
from matchset.matchers.saved import load

Row: TypeAlias = dict[str, Any]
BATCH = 10_000  # queries of a file that are answered together


def match(
    model: Path,
    /,
    *queries: str,
    k: Annotated[int, Parameter(alias="-k")] = 10,
    beam: int | None = None,
    new_share: float | None = None,
    where: str | None = None,
    min_score: float | None = None,
    min_relative: float | None = None,
    file: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None,
    form: Form | None = None,
) -> None:
    """Print the best products for queries.

    Without a query, reads one per line from standard input, or prompts for them in a terminal.

    Parameters
    ----------
    model
        File of a trained model or any other saved matcher.
    queries
        Queries as a customer would type them.
    k
        Products per query.
    beam
        Nodes kept per level of the tree (default: the model's own number); a wider beam is slower
        and finds more.
    new_share
        Share of the answers that are new products, to which no past query led (default: the
        model's own). More of them cost some recall of known ones: see docs/training.md.
    where
        Filter, such as "price < 20 and locale = 'us'".
    min_score
        Leave out products with a lower score, such as 0.01. The score of a match set is the
        probability that the product is a right answer, unless the summary of the training says that
        scores are no probabilities. Then use -k, or --min-relative, instead.
    min_relative
        Leave out products that score less than this share of the query's best, such as 0.1.
    file
        File of queries, one per line; - is standard input.
    form
        Output as a table, tab-separated values, JSON Lines or one JSON array (default: a table for
        queries given as arguments, TSV for those of a file). A query without products is a line of
        JSON with nulls; in TSV it has no line, and standard error says how many there are.

    """
    opened = load(model)
    options: dict[str, Any] = {"k": k, "where": where, "beam": beam, "new_share": new_share}
    options |= {"min_score": min_score, "min_relative": min_relative}
    if not queries and file is None and sys.stdin.isatty():
        prompt(lambda query: opened.match(query, **options))
        return
    chosen, n_empty, rows = form or ("table" if queries else "tsv"), 0, list[Row]()
    for batch in [list(queries)] if queries else read_lines(file):
        found = opened.match(batch, **options)
        if chosen == "json":
            rows += to_rows(found)
        else:
            print_matches(found, chosen)
        n_empty += sum(len(each) == 0 for each in found)
    if chosen == "json":
        print_text(json.dumps(rows, indent=1))
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
    new_share: float | None = None,
    where: str | None = None,
) -> None:
    """Show why a query gets a product, or why not.

    For a match set: what each part adds to the score, at which rank it proposed the product or why
    it did not, and which words of the query counted. For its tree, and for a tree alone: the
    product's path, and what counted for and against it.

    Parameters
    ----------
    model
        File of a trained model.
    query
        A query as a customer would type it.
    product
        Product id.
    k
        Products that are asked for.
    beam
        Nodes kept per level of the tree (default: the model's own number).
    new_share
        Share of the answers that are new products, as in `match`.
    where
        Filter, such as "price < 20 and locale = 'us'".

    """
    options: dict[str, Any] = {"k": k, "where": where, "beam": beam, "new_share": new_share}
    output.print(load(model).explain(query, product, **options))


def print_matches(matches: Matches, form: Form) -> None:
    """Print the products of each query as a table, TSV or JSON Lines."""
    if form == "table":
        for found in matches:
            output.print(found)
        return
    for row in to_rows(matches):
        if form == "jsonl":
            sys.stdout.write(json.dumps(row) + "\n")
        elif row["rank"] is not None:
            query, title = to_field(row["query"]), to_field(row["title"] or "")
            line = f"{query}\t{row['rank']}\t{row['product_id']}\t{row['score']:.6g}\t{title}\n"
            sys.stdout.write(line)


def to_rows(matches: Matches) -> Iterator[Row]:
    """Make a row of each product; one with nulls of a query without products."""
    for found in matches:
        if len(found) == 0:
            names = ("rank", "product_id", "score", "title")
            yield {"query": found.query, **dict.fromkeys(names)}
        for rank, hit in enumerate(found, start=1):
            row = {"query": found.query, "rank": rank, "product_id": hit.id}
            row |= {"score": hit.score, "title": hit.title}
            yield row | ({} if found.ranks is None else {"ranks": found.ranks[rank - 1]})


def to_field(text: str) -> str:
    """Write a text as a field of TSV: a tab or a line break becomes a space."""
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
    """Read lines of a file or of standard input, in batches."""
    stream = sys.stdin if file is None or str(file) == "-" else file.open(encoding="utf-8")
    with stream:
        lines = (line.rstrip("\n") for line in stream)
        while batch := list(islice(lines, BATCH)):
            yield batch
