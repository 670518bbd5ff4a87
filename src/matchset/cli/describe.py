"""Describe: what is in a log, and what could be learned from it?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from matchset.cli.columns import LogColumns
from matchset.cli.console import facts, heading, say, tell
from matchset.config import DEFAULT_MIN_QUERY_COUNT
from matchset.data.log import Log
from matchset.data.positives import positives, relevance
from matchset.data.split import Split, split_by_query, split_by_time
from matchset.errors import DataError
from matchset.features.vectorizer import Vectorizer

COLUMNS = LogColumns()
EXAMPLES = 5


def describe(
    log: list[str],
    /,
    *,
    catalog: Path | None = None,
    columns: LogColumns = COLUMNS,
    events: dict[str, float] | None = None,
    test_days: int = 30,
    min_query_count: Annotated[float, Parameter(show_default=True)] = DEFAULT_MIN_QUERY_COUNT,
) -> None:
    """Read a search log and say what is in it, how it splits, and what its queries say.

    Parameters
    ----------
    log
        Files, globs or folders: Parquet, CSV, TSV or JSON Lines, plain, .gz or .zst.
    catalog
        The products: id, title and attributes.
    columns
        Columns of log and catalogue.
    events
        Weight of each event that makes a pair positive, such as --events.purchase 1; by default by
        their usual names.
    test_days
        Days at the end that a test would take; a log without times is split by query.
    min_query_count
        Queries that led to something less often are not shown.

    """
    read = columns.read(log)
    show_log(read, min_query_count=min_query_count)
    heading("Split: what trains, what tests")
    try:
        split = split_by_time(read, test_days=test_days) if read.days else split_by_query(read)
        show_split(split, events=events)
        show_features(split.train, events=events)
    except DataError as error:
        say(f"not possible: {tell(error)} (see --test-days and --events)")
    goods = columns.read_catalog(catalog)
    if goods is not None:
        heading("Catalogue")
        known = float((goods.ids.find(read.products) >= 0).mean())
        facts({"catalogue": goods, "products of the log in it": f"{known:.1%}"})


def show_log(log: Log, *, min_query_count: float) -> None:
    """Rows, events, days, and the most frequent queries that may be shown."""
    heading("Log")
    counts = log.query_counts()
    shown = log.shown(min_query_count)
    rows: dict[str, object] = {"rows read": str(log.report) if log.report.rows else len(log)}
    rows |= {"queries": len(log.queries), "products": len(log.products)}
    if log.days:
        rows["days"] = f"{log.days[0]} to {log.days[1]}"
    for place, name in enumerate(log.events):
        total = log.count[log.event == place].sum()
        rows[name or "total count"] = f"{total:,.0f}"
    share = np.count_nonzero(shown) / max(1, len(shown))
    rows[f"seen {min_query_count:g} times or more"] = f"{share:.1%} of the queries"
    top = np.argsort(-np.where(shown, counts, -1), kind="stable")[: min(EXAMPLES, shown.sum())]
    rows["most frequent"] = "; ".join(log.spellings.take(top))
    facts(rows)


def show_split(split: Split, *, events: Mapping[str, float] | None = None) -> None:
    """What the paper reports of its data."""
    train = positives(split.train, events=events)
    test = relevance(split.test) if events is None else positives(split.test, events=events)
    say(split.report(train=train, test=test))


def show_features(train: Log, *, events: Mapping[str, float] | None = None) -> None:
    """What the queries that train say."""
    heading("Features of the training queries")
    pairs = positives(train, events=events)
    vectorizer = Vectorizer()
    rows = vectorizer.fit_transform(pairs.queries)
    sizes = zip(vectorizer.config.ngrams, vectorizer.vocabulary.sizes, strict=True)
    facts(
        {f"{kind.unit} {kind.n}-grams": size for kind, size in sizes}
        | {
            "features per query": f"{rows.nnz / max(1, rows.shape[0]):.1f}",
            "positive products per query": f"{len(pairs) / max(1, len(pairs.queries)):.1f}",
        }
    )
