"""Split: what trains, and what tests?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from matchset.cli.columns import LogColumns
from matchset.cli.console import say
from matchset.data.log import Log
from matchset.data.split import Split, split_by_query, split_by_time

COLUMNS = LogColumns()
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
