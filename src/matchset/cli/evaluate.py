"""Evaluate: how good is a model on a log?"""

from __future__ import annotations

from pathlib import Path

from matchset.cli.columns import LogColumns
from matchset.cli.console import errors, output, say
from matchset.evaluate.evaluation import evaluate as evaluate_matcher
from matchset.evaluate.segments import who_knows_training
from matchset.matchers.load import load

COLUMNS = LogColumns()
LEGEND = (
    "Recall: share of a query's relevant products among the first k, with its 95 % interval. "
    "Ceiling: the best of a matcher that knows only products seen in training; titles go beyond."
)


def evaluate(
    model: Path,
    log: list[str],
    /,
    *,
    events: dict[str, float] | None = None,
    min_count: float = 1.0,
    sample: int = 100_000,
    seed: int = 0,
    columns: LogColumns = COLUMNS,
) -> None:
    """Measure how many of the products that customers bought a model finds.

    Parameters
    ----------
    model
        Folder of a trained model, or of any other matcher that was saved.
    log
        A log that the model was not trained on.
    events
        Weight of each event that makes a product relevant, such as --events.purchase 1; by default
        what was bought, or else clicked.
    min_count
        Purchases (or what the log has) that make a product relevant for a query.
    sample
        Queries to ask at most.
    seed
        For the sample.
    columns
        Columns of the log.

    """
    matcher = load(model)
    test = columns.read(log)
    result = evaluate_matcher(
        matcher, test, events=events, min_count=min_count, sample=sample, seed=seed
    )
    output.print(result)
    say(LEGEND)
    learned = who_knows_training(matcher)
    if learned is not None and len(test.queries) and learned.is_seen(test.queries).all():
        errors.print("every query of this log was trained on: was the model trained on this log?")
