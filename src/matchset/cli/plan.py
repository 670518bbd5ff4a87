"""Plan: what will a training take, before it starts?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from matchset.cli.console import (
    format_seconds,
    output,
    print_error,
    print_heading,
    print_text,
)
from matchset.cli.flags import Columns, Settings, make_config
from matchset.errors import ParameterError
from matchset.learn.cost import TrainingPlan, plan_training
from matchset.learn.projection import MACHINE_CORES, PAPER, StagePlan, plan_stages, project
from matchset.learn.sizes import Sizes
from matchset.memory import parse_memory

COLUMNS, SETTINGS = Columns(), Settings()
CORES = (16, 64, 256, 1024)
USUAL_MEMORY = 256e9  # bytes of a large machine of so many cores


def plan(
    log: list[str] | None = None,
    /,
    *,
    products: int | None = None,
    cores: Annotated[tuple[int, ...], Parameter(consume_multiple=True)] = CORES,
    price: float | None = None,
    catalog: Path | None = None,
    config: Path | None = None,
    columns: Columns = COLUMNS,
    settings: Annotated[Settings, Parameter(name="*", group="Settings")] = SETTINGS,  # type: ignore[valid-type]
) -> None:
    """Estimate the time, the memory and the model size of a training, without training.

    Takes the flags of `matchset train`, reads the log and the catalog, and makes their features.
    With --products, it projects them to a shop of that size; without a log, the shop is as dense as
    the one of the paper.

    Parameters
    ----------
    log
        Files, globs or folders: Parquet, CSV, TSV or JSON Lines, plain or .gz.
    products
        Number of products to project to: stages, tasks, memory, disk and processor time.
    cores
        Numbers of cores to project the time for, in machines of 16 that share a disk.
    price
        Price of a core for an hour, to project what each number of cores costs.
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
    check_choices(log, products, cores)
    sizes = PAPER
    if log:
        found = plan_training(columns.read(log), columns.read_catalog(catalog), chosen)
        show_plan(found, parse_memory(columns.memory))
        sizes = found.sizes
    if products is not None:
        most = sum(kind.limit for kind in chosen.vectorizer.ngrams)
        grown = sizes.scale(products, most_features=most)
        show_projection(grown, plan_stages(grown, chosen), cores, price)


def check_choices(log: list[str] | None, products: int | None, cores: tuple[int, ...]) -> None:
    """Raise a ParameterError for what cannot be planned."""
    if not log and products is None:
        raise ParameterError("must be given without a log; got neither", parameter="products")
    for name, values in (("products", (products,)), ("cores", cores)):
        for value in values:
            if value is not None and value < 1:
                raise ParameterError(f"must be at least 1; got {value}", parameter=name)


def show_plan(plan: TrainingPlan, limit: int) -> None:
    """Print what each part takes, and the sum; `limit` is the memory that it may own."""
    table = Table("", "time", "model", box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for name, part in plan.parts.items():
        table.add_row(
            name, format_seconds(part.seconds(plan.threads)), f"{part.disk / 1e6:,.1f} MB"
        )
    table.add_row("all", format_seconds(plan.seconds), f"{plan.disk / 1e6:,.1f} MB")
    output.print(table)
    sizes = plan.sizes
    print_text(
        f"{sizes.pairs:,} pairs of {sizes.queries:,} queries and {sizes.products:,} products, "
        f"{sizes.features:,} features; {plan.threads} threads; times without reading the log"
    )
    if "towers" in plan.parts:
        _tell_sample(sizes)
    owned = min(plan.memory, limit)
    print_text(f"memory: {owned / 1e9:.2f} GB at most")
    if plan.memory > limit:
        more = (plan.memory - limit) / 1e9
        print_text(f"temporary files: {more:.2f} GB, for what exceeds --memory")
    free = read_free_memory()
    if free is not None and owned - plan.used_memory > free:
        print_error(f"this machine has {free / 1e9:.2f} GB left: training may fail")


def show_projection(
    sizes: Sizes, stages: list[StagePlan], cores: tuple[int, ...], price: float | None
) -> None:
    """Print what each stage would take, and how long all would be."""
    print_heading(f"Projection for {sizes.products:,} products")
    print_text(
        f"{sizes.pairs:,} pairs of {sizes.queries:,} queries, {sizes.features:,} features; "
        "from constants measured on small shops; times without reading the log; "
        "memory of a task beyond --memory is mapped from temporary files"
    )
    if any(stage.name == "fit" for stage in stages):
        _tell_sample(sizes)
    names = ("stage", "tasks", "memory of a task", "work folder", "processor time")
    table = Table(*names, box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for stage in stages:
        sizes_of = [f"{n / 1e9:,.2f} GB" for n in (stage.memory, stage.kept)]
        table.add_row(stage.name, f"{stage.n_tasks:,}", *sizes_of, format_seconds(stage.seconds))
    spent = sum(stage.seconds for stage in stages)
    kept = sum(stage.kept for stage in stages)
    table.add_row("all", "", "", f"{kept / 1e9:,.2f} GB", format_seconds(spent))
    output.print(table)
    print_text(f"model: {sum(stage.cost.disk for stage in stages) / 1e9:,.2f} GB")
    for n in cores:
        seconds = project(stages, n)
        paid = n * seconds / 3600
        money = "" if price is None else f"; {paid:,.1f} core hours, price {price * paid:,.2f}"
        print_text(f"{n:,} cores: {format_seconds(seconds)}{money}")
    if price is not None:
        print_text("The price is for all cores over the whole time, including idle ones.")
    largest = max(stages, key=lambda stage: stage.memory)
    if largest.memory > USUAL_MEMORY:
        print_error(
            f"a task of {largest.name!r} needs {largest.memory / 1e9:,.0f} GB: more than machines "
            f"of {MACHINE_CORES} cores usually have (up to {USUAL_MEMORY / 1e9:.0f} GB)"
        )


def _tell_sample(sizes: Sizes) -> None:
    if sizes.sampled_pairs is not None:
        print_text(f"towers: trained on a sample of {sizes.sampled_pairs:,} pairs")


def read_free_memory() -> int | None:
    """Bytes that a process can still use; None if that is not known."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = dict(line.split(":", 1) for line in lines)
    return int(found["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in found else None
