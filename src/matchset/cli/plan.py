"""Plan: what will a training take, before it starts?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from matchset.cli.console import format_seconds, output, print_error, print_text
from matchset.cli.options import Columns, Settings, make_config
from matchset.learn.cost import TrainingPlan, plan_training

COLUMNS, SETTINGS = Columns(), Settings()


def plan(
    log: list[str],
    /,
    *,
    catalog: Path | None = None,
    config: Path | None = None,
    columns: Columns = COLUMNS,
    settings: Annotated[Settings, Parameter(name="*", group="Settings")] = SETTINGS,  # type: ignore[valid-type]
) -> None:
    """Estimate the time, the memory and the model size of a training, without training.

    Takes the flags of `matchset train`, reads the log and the catalog, and makes their features.

    Parameters
    ----------
    log
        Files, globs or folders: Parquet, CSV, TSV or JSON Lines, plain, .gz or .zst.
    catalog
        The products: id, title and attributes.
    config
        TOML file of settings, as for `matchset train`.
    columns
        Columns of log and catalog.
    settings
        Settings; each overrides that of the file.

    """
    chosen = make_config(config, settings)
    found = plan_training(columns.read(log), columns.read_catalog(catalog), chosen)
    show_plan(found)


def show_plan(plan: TrainingPlan) -> None:
    """Print what each part takes, and the sum."""
    table = Table("", "time", "model", box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for name, part in plan.parts.items():
        table.add_row(name, format_seconds(part.seconds), f"{part.disk / 1e6:,.1f} MB")
    table.add_row("all", format_seconds(plan.seconds), f"{plan.disk / 1e6:,.1f} MB")
    output.print(table)
    sizes = plan.sizes
    print_text(
        f"{sizes.pairs:,} pairs of {sizes.queries:,} queries and {sizes.products:,} products, "
        f"{sizes.features:,} features; {plan.threads} threads, without reading the log"
    )
    print_text(f"memory: {plan.memory / 1e9:.2f} GB at most")
    free = read_free_memory()
    if free is not None and plan.memory - plan.used_memory > free:
        print_error(f"this machine has {free / 1e9:.2f} GB left: training may fail")


def read_free_memory() -> int | None:
    """Bytes that a process can still use; None if that is not known."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = dict(line.split(":", 1) for line in lines)
    return int(found["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in found else None
