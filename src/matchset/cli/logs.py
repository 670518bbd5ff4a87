"""Describe: what is in a log, and what could be learned from it?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from cyclopts import Parameter

from matchset.cli.console import facts, heading, say, tell
from matchset.cli.options import LogColumns
from matchset.config import DEFAULT_MIN_QUERY_COUNT
from matchset.data.log import Log
from matchset.data.positives import positives, relevance
from matchset.data.split import Split, split_by_query, split_by_time
from matchset.errors import DataError
from matchset.features.vectorizer import Vectorizer
from matchset.lab.shop import ShopKind, describe_shop, simulate_shop, stream_shop

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
        known = float((goods.ids.index_of(read.products) >= 0).mean())
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


DEFAULT_DAYS = 30
DEFAULT_SHARE = 0.2


def split(
    log: list[str],
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    test_days: int | None = None,
    test_from: str | None = None,
    by: Literal["time", "query"] | None = None,
    test_share: float | None = None,
    seed: int = 0,
    columns: LogColumns = COLUMNS,
    overwrite: bool = False,
) -> None:
    """Split a log into what trains and what tests, so that a model is measured honestly.

    By time, unless told otherwise or where the log has none: what comes first trains.

    Parameters
    ----------
    log
        Files, globs or folders: Parquet, CSV, TSV or JSON Lines, plain, .gz or .zst.
    out
        Folder for train.parquet and test.parquet.
    test_days
        Days at the end that test; 30 unless told.
    test_from
        First day that tests, such as 2026-10-01.
    by
        Query: no query is on both sides, for logs without times.
    test_share
        Share of the queries that tests, 0.2 unless told.
    seed
        Which queries test.
    columns
        Columns of the log.
    overwrite
        Replace files that are there.

    """
    targets = {side: out / f"{side}.parquet" for side in ("train", "test")}
    for target in targets.values():
        if target.exists() and not overwrite:
            raise FileExistsError(f"{target}: already exists; --overwrite replaces it")
    read = columns.read(log)
    sides = choose_split(read, test_days, test_from, by=by, test_share=test_share, seed=seed)
    out.mkdir(parents=True, exist_ok=True)
    for side, target in zip(sides, targets.values(), strict=True):
        side.save(target)
    say(sides.report())
    for target in targets.values():
        say(target)


def choose_split(
    log: Log,
    test_days: int | None,
    test_from: str | None,
    *,
    by: str | None,
    test_share: float | None,
    seed: int,
) -> Split:
    """The split that the options ask for, if they fit together."""
    of_time = [f"--test-days {test_days}"] * (test_days is not None)
    of_time += [f"--test-from {test_from}"] * (test_from is not None)
    if of_time and (by == "query" or test_share is not None):
        raise ValueError(f"a split by query takes no days; got {of_time[0]}")
    if by == "time" and test_share is not None:
        raise ValueError(f"--test-share is for a split by query; got {test_share} with --by time")
    is_by_query = by == "query" or test_share is not None
    if is_by_query or (by is None and not of_time and log.days is None):
        share = DEFAULT_SHARE if test_share is None else test_share
        return split_by_query(log, test_share=share, seed=seed)
    days = test_days if of_time else DEFAULT_DAYS
    return split_by_time(log, test_from=test_from, test_days=days)


def simulate(
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    kind: ShopKind = "shop",
    products: int = 10_000,
    queries: int | None = None,
    days: int = 395,
    seed: int = 0,
    stream: bool = False,
) -> None:
    """Simulate a shop: its catalogue, and the search log of customers who want things.

    Parameters
    ----------
    out
        Folder for products.parquet and log.parquet.
    kind
        Shop: titles say what customers buy. Marketplace: thousands of products agree with a query,
        and what customers did says which of them is bought.
    products
        Number of products.
    queries
        Number of distinct queries to aim at; by default twice the products, or 2.4 times in a
        marketplace.
    days
        Length of the log.
    seed
        The same seed gives the same shop.
    stream
        Write in chunks, to OUT/products and OUT/log, for logs larger than memory; prints no facts.

    """
    out.mkdir(parents=True, exist_ok=True)  # fails before the work, not after it
    if stream:
        rows = stream_shop(out, kind=kind, products=products, queries=queries, days=days, seed=seed)
        say(f"{rows:,} rows in {out / 'log'}, products in {out / 'products'}")
        return
    shop = simulate_shop(kind=kind, products=products, queries=queries, days=days, seed=seed)
    facts(describe_shop(shop).beside_paper())
    for path in shop.save(out):
        say(path)
