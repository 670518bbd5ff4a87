"""Experiments: how do matchers compare on a log, and what do pruning and the beam cost?"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, cast

from cyclopts import Parameter
from rich.status import Status

from matchset.cli.console import errors, print_error, print_text
from matchset.cli.evaluate import warn_if_trained_on
from matchset.cli.flags import Columns, LogColumns, Settings, make_config
from matchset.config import TrainConfig, read_config
from matchset.data.split import SplitOptions
from matchset.errors import ParameterError
from matchset.evaluate.pair_segments import find_seen_in_training
from matchset.lab.experiments.benchmark import Benchmark, make_benchmark, take_test
from matchset.lab.experiments.comparison import run_comparison
from matchset.lab.experiments.contenders import PAPER_ROWS, SHOP_ROWS
from matchset.lab.experiments.runner import QUICK, Budget, ProgressListener
from matchset.lab.experiments.sweeps import Swept, run_sweep, take_model
from matchset.lab.report.page import require_plots, write_report
from matchset.lab.report.verdict import describe_verdict
from matchset.lab.shop import simulate_shop
from matchset.matchers.match_set import MatchSet
from matchset.matchers.recorded_run import RecordedRun, read_run
from matchset.matchers.saved import load
from matchset.matchers.xr_linear import XRLinearMatcher

SHOP = {"products": 50_000, "queries": 200_000}
QUICK_SHOP = {"products": 5_000, "queries": 20_000}
QUICK_SAMPLE = 5_000
COLUMNS, LOG_COLUMNS = Columns(), LogColumns()
OPTIONS = SplitOptions()
Split = Annotated[SplitOptions, Parameter(name="*")]
ROWS_HELP = (
    f"Rows to run: {', '.join(SHOP_ROWS)}; of the paper: {', '.join(PAPER_ROWS)}. By default all "
    "but the paper's that can run here. Rows stored earlier are in the report too."
)


def compare(
    log: list[str] | None = None,
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    catalog: Path | None = None,
    run: Annotated[list[Path] | None, Parameter(negative="")] = None,
    encoder: Path | None = None,
    rows: Annotated[
        list[str] | None, Parameter(help=ROWS_HELP, consume_multiple=True, negative="")
    ] = None,
    paper: Annotated[bool, Parameter(negative="")] = False,
    name: str = "a search log",
    quick: Annotated[bool, Parameter(negative="")] = False,
    config: Path | None = None,
    split: Split = OPTIONS,
    columns: Columns = COLUMNS,
) -> None:
    """Compare the match set with your own search and with known methods, as a web page.

    The page begins with a verdict: what the match set adds, and what it costs. Finished rows are
    stored: a comparison that was stopped continues where it was.

    Parameters
    ----------
    log
        Files, globs or folders: Parquet, CSV, TSV or JSON Lines, plain or .gz (default: a
        simulated shop).
    out
        Folder for the report and the stored results.
    catalog
        The products: id, title and attributes.
    run
        What your own search engine answered to the test queries: columns query, product, and rank
        (1 is best) or score. Each --run is a row, named by its file; a test query that a file lacks
        counts as an empty answer. `matchset split` writes the test.
    encoder
        Folder of a sentence encoder (sentence-transformers), for the row sentence_encoder.
    rows
        Rows to run, as listed by `SHOP_ROWS` of `lab.experiments.contenders`.
    paper
        Run the rows of the paper too: XR-Linear as published, and DSSM, which takes minutes.
    name
        Name of the data in the report, such as "Home Depot".
    quick
        Use a small shop, fewer test queries and a shorter training of DSSM.
    config
        TOML file of settings, as for `matchset train`: `min_count = 2.33`, or `threads = 4` below
        a line [learn].
    split
        How the log is split (default: auto).
    columns
        Columns of log and catalog.

    """
    require_plots()
    chosen = make_config(config, Settings())
    runs = read_runs(run or [])
    benchmark = read_benchmark(log or [], catalog, chosen, split, columns, quick=quick, name=name)
    hidden = {"OUT": out, "CATALOG": catalog, "CONFIG": config, "ENCODER": encoder}
    hidden |= {f"RUN{number or ''}": file for number, file in enumerate(run or [])}
    with showing_progress() as progress:
        findings = run_comparison(
            benchmark,
            out,
            replace(QUICK if quick else Budget(), seed=chosen.learn.seed),
            names=rows,
            runs=runs,
            encoder=encoder,
            with_paper=paper,
            command=format_command(hidden, log or []),
            progress=progress,
        )
    print_text(describe_verdict(findings))
    print_text(f"report: {write_report(out, comparison=findings)}")


def sweep(
    model: Path | None = None,
    log: list[str] | None = None,
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    quick: bool = False,
    parts: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    seed: int = 0,
    split: Split = OPTIONS,
    columns: LogColumns = LOG_COLUMNS,
) -> None:
    """Measure a model at several pruning thresholds and beams, and add the results to the report.

    Without a model, uses the simulated shop of `matchset compare`, and its stored model if any.

    Parameters
    ----------
    model
        File of a trained model, such as OUT/models/match_set after `matchset compare`.
    log
        A log that the model was not trained on; or, with --split, the log of `matchset compare`,
        of which the test part is used.
    out
        Folder for the report; give the folder of `matchset compare` to have both in one report.
    quick
        Use a small shop and fewer test queries.
    parts
        Parts to train if no model is given (default: all). `tree` gives the paper's tables: it
        sweeps the tree alone, also that of a given match set.
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
            config = read_config({"learn": {"seed": seed}, **({"parts": parts} if parts else {})})
            benchmark = simulate_benchmark(config, split, quick=quick)
            qrels, origin = benchmark.qrels, benchmark.facts.origin
            matcher = take_model(benchmark, out, budget, progress=progress)
        else:
            matcher = open_swept(model, parts)
            whole = replace(split, split=split.split or "none")
            plan = limit_sample(whole, quick=quick)
            qrels = take_test(columns.read(log), matcher.config, plan)
            warn_if_trained_on(qrels, find_seen_in_training(qrels, None, matcher))
            origin = "a search log"
        findings = run_sweep(
            matcher,
            qrels,
            out,
            budget,
            command=command,
            origin=origin,
            progress=progress,
        )
    print_text(f"report: {write_report(out, sweep=findings)}")


def open_swept(model: Path, parts: Sequence[str] | None) -> Swept:
    """Open a model whose tree can be varied, or the tree alone of a match set."""
    matcher = load(model)
    if not isinstance(matcher, XRLinearMatcher | MatchSet):
        rule = "a sweep needs a match set or an XR-Linear model"
        raise TypeError(f"{rule}; got a {matcher.kind} matcher")
    known = matcher.model.parts if isinstance(matcher, MatchSet) else ("tree",)
    if "tree" not in known:
        raise ValueError(f"a sweep needs a model with a tree; got {', '.join(known)}")
    if not parts:
        return matcher
    wanted = TrainConfig(parts=tuple(parts)).parts
    if isinstance(matcher, MatchSet) and wanted == ("tree",):
        return cast("XRLinearMatcher", matcher.part("tree"))
    if wanted != known:
        rule = f"must be tree, or all parts of the model ({', '.join(known)})"
        raise ParameterError(f"{rule}; got {', '.join(wanted)}", parameter="parts")
    return matcher


def read_runs(files: Sequence[Path]) -> dict[str, RecordedRun]:
    """Read what engines of the user's own answered, by the names of the files."""
    runs: dict[str, RecordedRun] = {}
    for file in files:
        if file.stem in runs:
            rule = f"files must have different names; got {file.stem!r} twice"
            raise ParameterError(rule, parameter="run")
        runs[file.stem] = read_run(str(file))
    return runs


def read_benchmark(
    sources: list[str],
    catalog: Path | None,
    config: TrainConfig,
    split: SplitOptions,
    columns: Columns,
    *,
    quick: bool,
    name: str,
) -> Benchmark:
    """Read a log and its catalog, or simulate a shop if there is no log."""
    if sources:
        log, goods = columns.read(sources), columns.read_catalog(catalog)
        plan = limit_sample(split, quick=quick)
        return make_benchmark(log, goods, config, plan, origin=name)
    if catalog is not None:
        raise ValueError(f"a catalog needs a log; got {catalog} alone")
    return simulate_benchmark(config, split, quick=quick)


def simulate_benchmark(config: TrainConfig, split: SplitOptions, *, quick: bool) -> Benchmark:
    """Simulate a shop to experiment on."""
    size, seed = QUICK_SHOP if quick else SHOP, config.learn.seed
    shop = simulate_shop(products=size["products"], queries=size["queries"], seed=seed)
    origin = f"a simulated shop of {size['products']:,} products (seed {seed})"
    plan = limit_sample(split, quick=quick)
    return make_benchmark(shop.log, shop.catalog, config, plan, origin=origin)


def limit_sample(split: SplitOptions, *, quick: bool) -> SplitOptions:
    """Return the same options, with fewer test queries for a quick run."""
    return replace(split, sample=min(split.sample, QUICK_SAMPLE)) if quick else split


def format_command(hidden: Mapping[str, Path | None], logs: Iterable[str]) -> str:
    """Return the command as it was given, with a placeholder instead of each path."""
    words = {Path(path): word for word, path in hidden.items() if path is not None}
    words |= {Path(path): f"LOG{number or ''}" for number, path in enumerate(logs)}

    def hide(argument: str) -> str:
        flag, is_set, value = argument.partition("=")
        if is_set and Path(value) in words:
            return f"{flag}={words[Path(value)]}"
        return words.get(Path(argument), argument)

    return shlex.join(["matchset", *map(hide, sys.argv[1:])])


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
