"""Compare: how does our recipe do against the paper's and against honest baselines?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from matchset.cli.columns import LogColumns
from matchset.cli.console import say
from matchset.cli.experiment import Test, following, read_problem, tell_command
from matchset.cli.settings import Settings, make_config
from matchset.evaluate.experiments.comparison import run_comparison
from matchset.evaluate.experiments.run import QUICK, Effort
from matchset.evaluate.report.write import require_plots, write_report

COLUMNS, SETTINGS, TEST = LogColumns(), Settings(), Test()


def compare(
    log: list[str] | None = None,
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    catalog: Path | None = None,
    rows: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    quick: bool = False,
    price_per_hour: float | None = None,
    config: Path | None = None,
    test: Test = TEST,
    columns: LogColumns = COLUMNS,
    settings: Annotated[Settings, Parameter(name="*", group="Settings")] = SETTINGS,  # type: ignore[valid-type]
) -> None:
    """Compare matchers on one log: the paper's table, as a report to read in a browser.

    Each finished row is kept: a run that was stopped goes on where it was.

    Parameters
    ----------
    log
        Files, globs or folders: Parquet, CSV, TSV or JSON Lines, plain, .gz or .zst. Without any, a
        shop is simulated.
    out
        Folder for the report and for what is kept.
    catalog
        The products: id, title and attributes.
    rows
        Rows to run: matchset, unigrams, bigrams, more-bigrams, trigrams, dssm, dssm-hnsw, bm25,
        title-similarity, nearest-queries, popularity. By default all that can run here; those that
        are kept already are told too.
    quick
        A small shop, fewer test queries, a shorter training of DSSM.
    price_per_hour
        What an hour of this machine costs; gives each training's cost.
    config
        Settings of our own recipe in TOML, as of `matchset train`.
    test
        How the log is split; by default auto.
    columns
        Columns of log and catalogue.
    settings
        Settings of our own recipe, each of which beats the file's.

    """
    require_plots()
    chosen = make_config(config, settings)
    hidden = {"OUT": out, "CATALOG": catalog, "CONFIG": config}
    problem = read_problem(log or [], catalog, chosen, test, columns, quick=quick)
    with following() as follow:
        run_comparison(
            problem,
            out,
            replace(QUICK if quick else Effort(), seed=chosen.learn.seed),
            names=rows,
            price_per_hour=price_per_hour,
            command=tell_command(hidden, log or []),
            follow=follow,
        )
    say(f"report: {write_report(out)}")
