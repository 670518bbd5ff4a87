"""Experiment: which data do `compare` and `sweep` work on, and what do they say of it?"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter
from rich.status import Status

from matchset.cli.columns import LogColumns
from matchset.cli.console import errors, say
from matchset.config import TrainConfig
from matchset.data.shop import simulate_shop
from matchset.evaluate.evaluation import SAMPLE
from matchset.evaluate.experiments.problem import Plan, Problem, SplitBy, make_problem
from matchset.evaluate.experiments.run import Following
from matchset.evaluate.questions import Questions
from matchset.evaluate.segments import Training, is_like_training

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
) -> Problem:
    """Read a log and its catalogue, or simulate a shop where there is no log."""
    plan = test.plan(config, "auto", quick=quick)
    if sources:
        log, goods = columns.read(sources), columns.read_catalog(catalog)
        return make_problem(log, goods, config, plan, origin="a search log")
    if catalog is not None:
        raise ValueError(f"a catalogue must come with a log; got {catalog} alone")
    size = QUICK_SHOP if quick else SHOP
    shop = simulate_shop(**size, seed=config.learn.seed)
    origin = f"a simulated shop of {size['products']:,} products (seed {config.learn.seed})"
    return make_problem(shop.log, shop.catalog, config, plan, origin=origin)


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
