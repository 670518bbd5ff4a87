"""Sweep: what do pruning and a wider beam cost and gain?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from matchset.cli.columns import LogColumns
from matchset.cli.console import say
from matchset.cli.experiment import Test, following, read_problem, tell_command, warn_if_trained_on
from matchset.config import read_config
from matchset.evaluate.experiments.problem import take_test
from matchset.evaluate.experiments.run import QUICK, Effort
from matchset.evaluate.experiments.sweeps import find_graph, run_sweep, take_models
from matchset.evaluate.report.write import require_plots, write_report
from matchset.evaluate.segments import recall_training
from matchset.matchers.tree_matcher import TreeMatcher

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
            matcher = TreeMatcher.load(model)
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
