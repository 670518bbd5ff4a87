"""Experiment: which data do `compare` and `sweep` work on, and what do they say of it?"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.status import Status

from matchset.cli.console import errors, say
from matchset.cli.options import LogColumns
from matchset.cli.training import Settings, make_config
from matchset.config import TrainConfig, read_config
from matchset.evaluate.evaluation import SAMPLE
from matchset.evaluate.qrels import Questions
from matchset.evaluate.segments import Training, is_like_training, recall_training
from matchset.lab.experiments.benchmark import Plan, Problem, SplitBy, make_problem, take_test
from matchset.lab.experiments.comparison import run_comparison
from matchset.lab.experiments.runner import QUICK, Effort, Following
from matchset.lab.experiments.sweeps import find_graph, run_sweep, take_models
from matchset.lab.report.page import require_plots, write_report
from matchset.lab.shop import ShopKind, simulate_shop
from matchset.matchers.xr_linear import XRLinearMatcher

SHOP = {"products": 50_000, "queries": 200_000}
QUICK_SHOP = {"products": 5_000, "queries": 20_000}
QUICK_SAMPLE = 5_000
TRAINED_ON = (
    "nearly every query of this log was in training: is it the log that the model was trained on?"
)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """How a log is split, and what of its test side is asked."""

    split: SplitBy | None = None
    "By time or by query; auto: by time where the log has times; none: all of it tests."
    test_days: int = 30
    "Days at the end that test, of a split by time."
    folds: int = 5
    "Parts of the queries, one of which tests, of a split by query."
    fold: int = 0
    "Which part."
    relevant: dict[str, float] | None = None
    "Weight of each event that makes a test product relevant; by default as --events or purchases."
    sample: int = SAMPLE
    "Test queries to ask at most."

    def plan(self, config: TrainConfig, usual: SplitBy, *, quick: bool) -> Plan:
        """As the experiments take it; `usual` is the split where none is named."""
        return Plan(
            split=self.split or usual,
            test_days=self.test_days,
            folds=self.folds,
            fold=self.fold,
            relevant=self.relevant,
            sample=min(self.sample, QUICK_SAMPLE) if quick else self.sample,
            seed=config.learn.seed,
        )


def read_problem(
    sources: list[str],
    catalog: Path | None,
    config: TrainConfig,
    test: Test,
    columns: LogColumns,
    *,
    quick: bool,
    shop: ShopKind = "shop",
) -> Problem:
    """Read a log and its catalogue, or simulate a shop where there is no log."""
    plan = test.plan(config, "auto", quick=quick)
    if sources:
        log, goods = columns.read(sources), columns.read_catalog(catalog)
        return make_problem(log, goods, config, plan, origin="a search log")
    if catalog is not None:
        raise ValueError(f"a catalogue must come with a log; got {catalog} alone")
    size = QUICK_SHOP if quick else SHOP
    queries = size["queries"] if shop == "shop" else None  # None: the marketplace's own density
    seed = config.learn.seed
    made = simulate_shop(kind=shop, products=size["products"], queries=queries, seed=seed)
    origin = f"a simulated {shop} of {size['products']:,} products (seed {seed})"
    return make_problem(made.log, made.catalog, config, plan, origin=origin)


def tell_command(hidden: Mapping[str, Path | None], logs: Iterable[str]) -> str:
    """The command as it was given, with a word instead of each path, however that is written."""
    words = {Path(path): word for word, path in hidden.items() if path is not None}
    words |= {Path(path): f"LOG{number or ''}" for number, path in enumerate(logs)}

    def hide(argument: str) -> str:
        flag, is_set, value = argument.partition("=")
        if is_set and Path(value) in words:
            return f"{flag}={words[Path(value)]}"
        return words.get(Path(argument), argument)

    return shlex.join(["matchset", *map(hide, sys.argv[1:])])


def warn_if_trained_on(questions: Questions, training: Training) -> None:
    """Say so where a test looks like the log of the training: it would be found by heart."""
    if is_like_training(questions, training):
        errors.print(TRAINED_ON, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def following() -> Iterator[Following]:
    """Say each result as it comes, and in a terminal what is being done; who stops loses little."""
    with Status("", console=errors) as status:
        try:
            yield Following(say, status.update if errors.is_terminal else lambda _: None)
        except KeyboardInterrupt:
            errors.print("matchset: stopped; what is finished is kept, the same command goes on")
            sys.exit(130)


COLUMNS, SETTINGS, TEST = LogColumns(), Settings(), Test()


def compare(
    log: list[str] | None = None,
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    catalog: Path | None = None,
    rows: Annotated[list[str] | None, Parameter(consume_multiple=True, negative="")] = None,
    quick: bool = False,
    shop: ShopKind = "shop",
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
    shop
        Which kind of shop is simulated where no log is given.
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
    problem = read_problem(log or [], catalog, chosen, test, columns, quick=quick, shop=shop)
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


COLUMNS, TEST = LogColumns(), Test()


def sweep(
    model: Path | None = None,
    log: list[str] | None = None,
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    quick: bool = False,
    seed: int = 0,
    test: Test = TEST,
    columns: LogColumns = COLUMNS,
) -> None:
    """Prune a model, widen its beam, and add both to the report: recall, size, speed.

    Without a model: the simulated shop of `matchset compare`, and its model where it is kept.

    Parameters
    ----------
    model
        Folder of a trained model, such as OUT/models/matchset after `matchset compare`.
    log
        A log that the model was not trained on; or with --split the log that `matchset compare`
        read, of which the test side is asked.
    out
        Folder for the report; that of `matchset compare`, to have both in one.
    quick
        A small shop, fewer test queries.
    seed
        Of the simulated shop and of every random choice; a log is split by the model's own.
    test
        How the log is split; by default all of a log tests.
    columns
        Columns of the log.

    """
    require_plots()
    if model is not None and not log:
        raise ValueError(f"a model must come with a log to test it on; got {model} alone")
    effort = replace(QUICK if quick else Effort(), seed=seed)
    command = tell_command({"OUT": out, "MODEL": model}, log or [])
    with following() as follow:
        if model is None or not log:
            config = read_config({"learn": {"seed": seed}})
            problem = read_problem([], None, config, test, columns, quick=quick)
            questions, origin = problem.questions, str(problem.facts["origin"])
            matcher, graph, reason = take_models(problem, out, effort, follow=follow)
        else:
            matcher = XRLinearMatcher.load(model)
            plan = test.plan(matcher.config, "none", quick=quick)
            questions = take_test(columns.read(log), matcher.config, plan)
            warn_if_trained_on(questions, recall_training(questions, None, matcher))
            origin = "a search log"
            graph, reason = find_graph(questions, out)
        run_sweep(
            matcher,
            questions,
            out,
            effort,
            command=command,
            origin=origin,
            graph=graph,
            no_graph=reason,
            follow=follow,
        )
    say(f"report: {write_report(out)}")
