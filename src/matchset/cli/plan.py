"""Plan: what will a training take, before it starts?"""

from __future__ import annotations

from pathlib import Path

from matchset.cli.console import format_seconds, print_table, print_text
from matchset.cli.flags import Columns, Settings, make_config
from matchset.learn.plan_training import Cost, plan_training
from matchset.memory import limit_memory, parse_memory

COLUMNS, SETTINGS = Columns(), Settings()


def plan(
    log: list[str],
    /,
    *,
    catalog: Path | None = None,
    config: Path | None = None,
    columns: Columns = COLUMNS,
    settings: Settings = SETTINGS,
) -> None:
    """Estimate the time, the memory and the model size of a training.

    Takes the flags of `matchset train`, and trains on two samples of the log's queries: a twelfth
    and a quarter of them, at most 60,000. All of the log is taken to lie on the line through them.

    Parameters
    ----------
    log
        Files, globs or folders: Parquet, CSV, TSV or JSON Lines, plain or .gz.
    catalog
        The products: id, title and attributes.
    config
        TOML file of settings, as for `matchset train`.
    columns
        Columns of log and catalog.
    settings
        Settings; each overrides that of the file.

    """
    chosen, limit = make_config(config, settings), parse_memory(columns.memory)
    with limit_memory(limit):
        read = columns.read(log), columns.read_catalog(catalog)
        whole, samples = plan_training(*read, chosen)
    show_plan(whole, samples, limit)


def show_plan(whole: Cost, samples: tuple[Cost, ...], limit: int) -> None:
    """Print what the samples took, and what all of the log will; `limit` is of memory."""
    rows = []
    for cost in (*samples, whole):
        sizes = (f"{n / 1e6:,.0f} MB" for n in (cost.memory, cost.model))
        rows.append((f"{cost.pairs:,}", format_seconds(cost.seconds), *sizes))
    print_table(("pairs", "time", "memory", "model"), rows)
    print_text("the last line is an estimate, the others were measured; without reading the log")
    if whole.memory > limit:
        more = (whole.memory - limit) / 1e9
        print_text(f"temporary files: {more:.2f} GB, for what exceeds --memory")
