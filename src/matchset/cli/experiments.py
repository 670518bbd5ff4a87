"""Experiments: how do matchers compare on a log, and what do pruning and the beam cost?"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.status import Status

from matchset.cli.console import errors, print_error, print_text
from matchset.cli.options import LogColumns, Settings, make_config
from matchset.config import TrainConfig, read_config
from matchset.data.split import SplitOptions
from matchset.evaluate.qrels import Qrels
from matchset.evaluate.segments import SeenInTraining, find_seen_in_training, is_like_training
from matchset.lab.experiments.benchmark import Benchmark, make_benchmark, take_test
from matchset.lab.experiments.comparison import run_comparison
from matchset.lab.experiments.runner import QUICK, Budget, ProgressListener
from matchset.lab.experiments.sweeps import find_graph, run_sweep, take_models
from matchset.lab.report.page import require_plots, write_report
from matchset.lab.shop import simulate_shop
from matchset.matchers.xr_linear import XRLinearMatcher

SHOP = {"products": 50_000, "queries": 200_000}
QUICK_SHOP = {"products": 5_000, "queries": 20_000}
QUICK_SAMPLE = 5_000
COLUMNS, SETTINGS, OPTIONS = LogColumns(), Settings(), SplitOptions()
Split = Annotated[SplitOptions, Parameter(name="*")]
TRAINED_ON = (
    "nearly every query of this log was in training: is it the log that the model was trained on?"
)


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
    split: Split = OPTIONS,
    columns: LogColumns = COLUMNS,
    settings: Annotated[Settings, Parameter(name="*", group="Settings")] = SETTINGS,  # type: ignore[valid-type]
) -> None:
    """Compare matchers on one log and write the paper's table as a web page.

    Finished rows are stored: a run that was stopped continues where it was.

    Parameters
    ----------
    log
        Files, globs or folders: Parquet, CSV, TSV or JSON Lines, plain, .gz or .zst (default: a
        simulated shop).
    out
        Folder for the report and the stored results.
    catalog
        The products: id, title and attributes.
    rows
        Rows to run: xr_linear, xr_linear_unigrams, xr_linear_bigrams, xr_linear_more_bigrams,
        xr_linear_trigrams, dssm, dssm_hnsw, bm25, bm25_stemmed, title_similarity, nearest_queries,
        popularity. By default all that can run here. Rows stored earlier are in the report too.
    quick
        Use a small shop, fewer test queries and a shorter training of DSSM.
    price_per_hour
        Cost of an hour of this machine, to report the cost of each training.
    config
        TOML file of settings for XR-Linear, as for `matchset train`.
    split
        How the log is split (default: auto).
    columns
        Columns of log and catalog.
    settings
        Settings of XR-Linear; each overrides that of the file.

    """
    require_plots()
    chosen = make_config(config, settings)
    hidden = {"OUT": out, "CATALOG": catalog, "CONFIG": config}
    benchmark = read_benchmark(log or [], catalog, chosen, split, columns, quick=quick)
    with showing_progress() as progress:
        findings = run_comparison(
            benchmark,
            out,
            replace(QUICK if quick else Budget(), seed=chosen.learn.seed),
            names=rows,
            price_per_hour=price_per_hour,
            command=format_command(hidden, log or []),
            progress=progress,
        )
    print_text(f"report: {write_report(out, comparison=findings)}")


def sweep(
    model: Path | None = None,
    log: list[str] | None = None,
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    quick: bool = False,
    seed: int = 0,
    split: Split = OPTIONS,
    columns: LogColumns = COLUMNS,
) -> None:
    """Measure a model at several pruning thresholds and beams, and add the results to the report.

    Without a model, uses the simulated shop of `matchset compare`, and its stored model if any.

    Parameters
    ----------
    model
        Folder of a trained model, such as OUT/models/xr_linear after `matchset compare`.
    log
        A log that the model was not trained on; or, with --split, the log of `matchset compare`,
        of which the test part is used.
    out
        Folder for the report; give the folder of `matchset compare` to have both in one report.
    quick
        Use a small shop and fewer test queries.
    seed
        Random seed of the simulated shop; a log is split with the model's own seed.
    split
        How the log is split (default: none).
    columns
        Columns of the log.

    """
    require_plots()
    if model is not None and not log:
        raise ValueError(f"a model needs a log to test it on; got {model} alone")
    budget = replace(QUICK if quick else Budget(), seed=seed)
    command = format_command({"OUT": out, "MODEL": model}, log or [])
    with showing_progress() as progress:
        if model is None or not log:
            config = read_config({"learn": {"seed": seed}})
            benchmark = read_benchmark([], None, config, split, columns, quick=quick)
            qrels, origin = benchmark.qrels, str(benchmark.facts["origin"])
            matcher, graph, reason = take_models(benchmark, out, budget, progress=progress)
        else:
            matcher = XRLinearMatcher.load(model)
            whole = replace(split, split=split.split or "none")
            plan = limit_sample(whole, quick=quick)
            qrels = take_test(columns.read(log), matcher.config, plan)
            warn_if_trained_on(qrels, find_seen_in_training(qrels, None, matcher))
            origin = "a search log"
            graph, reason = find_graph(qrels, out)
        findings = run_sweep(
            matcher,
            qrels,
            out,
            budget,
            command=command,
            origin=origin,
            graph=graph,
            no_graph=reason,
            progress=progress,
        )
    print_text(f"report: {write_report(out, sweep=findings)}")


def read_benchmark(
    sources: list[str],
    catalog: Path | None,
    config: TrainConfig,
    split: SplitOptions,
    columns: LogColumns,
    *,
    quick: bool,
) -> Benchmark:
    """Read a log and its catalog, or simulate a shop if there is no log."""
    plan = limit_sample(split, quick=quick)
    if sources:
        log, goods = columns.read(sources), columns.read_catalog(catalog)
        return make_benchmark(log, goods, config, plan, origin="a search log")
    if catalog is not None:
        raise ValueError(f"a catalog needs a log; got {catalog} alone")
    size = QUICK_SHOP if quick else SHOP
    shop = simulate_shop(**size, seed=config.learn.seed)
    origin = f"a simulated shop of {size['products']:,} products (seed {config.learn.seed})"
    return make_benchmark(shop.log, shop.catalog, config, plan, origin=origin)


def limit_sample(split: SplitOptions, *, quick: bool) -> SplitOptions:
    """The same options, with fewer test queries for a quick run."""
    return replace(split, sample=min(split.sample, QUICK_SAMPLE)) if quick else split


def format_command(hidden: Mapping[str, Path | None], logs: Iterable[str]) -> str:
    """The command as it was given, with a placeholder instead of each path."""
    words = {Path(path): word for word, path in hidden.items() if path is not None}
    words |= {Path(path): f"LOG{number or ''}" for number, path in enumerate(logs)}

    def hide(argument: str) -> str:
        flag, is_set, value = argument.partition("=")
        if is_set and Path(value) in words:
            return f"{flag}={words[Path(value)]}"
        return words.get(Path(argument), argument)

    return shlex.join(["matchset", *map(hide, sys.argv[1:])])


def warn_if_trained_on(qrels: Qrels, training: SeenInTraining) -> None:
    """Warn if a test looks like the log of the training: the model would know it by heart."""
    if is_like_training(qrels, training):
        print_error(TRAINED_ON)


@contextmanager
def showing_progress() -> Iterator[ProgressListener]:
    """Print each result as it comes and, in a terminal, what is being done."""
    with Status("", console=errors) as status:
        try:
            yield ProgressListener(
                print_text, status.update if errors.is_terminal else lambda _: None
            )
        except KeyboardInterrupt:
            print_error(
                "matchset: stopped; finished results are stored, repeat the command to go on"
            )
            sys.exit(130)
