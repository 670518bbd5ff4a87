"""Evaluate: how good is a model on a log?"""

from __future__ import annotations

from pathlib import Path

from matchset.cli.columns import LogColumns
from matchset.cli.console import output
from matchset.evaluate.evaluation import evaluate as evaluate_matcher
from matchset.matchers.tree_matcher import TreeMatcher

COLUMNS = LogColumns()


def evaluate(
    model: Path,
    log: list[str],
    /,
    *,
    min_count: float = 1.0,
    sample: int = 100_000,
    seed: int = 0,
    columns: LogColumns = COLUMNS,
) -> None:
    """Measure how many of the products that customers bought a model finds.

    Parameters
    ----------
    model
        Folder of a trained model.
    log
        A log that the model was not trained on.
    min_count
        Purchases (or what the log has) that make a product relevant for a query.
    sample
        Queries to ask at most.
    seed
        For the sample.
    columns
        Columns of the log.

    """
    matcher = TreeMatcher.load(model)
    test = columns.read(log)
    output.print(evaluate_matcher(matcher, test, min_count=min_count, sample=sample, seed=seed))
