"""Evaluate: how much of what customers bought does a model find?"""

from __future__ import annotations

from pathlib import Path

from matchset.cli.console import output, print_error, print_text
from matchset.cli.experiments import warn_if_trained_on
from matchset.cli.options import LogColumns
from matchset.client.client import Client
from matchset.errors import ParameterError
from matchset.evaluate.evaluation import evaluate_qrels
from matchset.evaluate.qrels import make_qrels
from matchset.evaluate.segments import choose_rule, find_seen_in_training
from matchset.matchers.base import Retriever
from matchset.matchers.registry import load
from matchset.serve.http.auth import read_key_lines

COLUMNS = LogColumns()
LEGEND = (
    "Recall: share of a query's relevant products among the first k, with its 95 % interval. "
    "Ceiling: the best recall of a matcher that knows only the products of the training log; "
    "with titles a matcher can find others too."
)
WITHOUT_TRAINING = (
    "It is not known what this matcher was trained on, so seen and unseen queries, warm and cold "
    "products, and the ceiling are left out. Give its training log: --train LOG."
)


def evaluate(
    model: str,
    log: list[str],
    /,
    *,
    train: list[str] | None = None,
    api_key_file: Path | None = None,
    events: dict[str, float] | None = None,
    min_count: float | None = None,
    sample: int = 100_000,
    seed: int = 0,
    columns: LogColumns = COLUMNS,
) -> None:
    """Measure how many of the products that customers bought are found.

    Parameters
    ----------
    model
        Folder of a trained model or any other saved matcher, or the address of a running server,
        such as http://127.0.0.1:8080.
    log
        A log that the model was not trained on.
    train
        The log that it was trained on, to report seen and unseen queries for a server too.
    api_key_file
        File with the server's API key; the first key of the file is used.
    events
        Weight of each event that makes a product relevant, such as --events.purchase 1 (default:
        purchases, else clicks, else the events that the model was trained with).
    min_count
        Weighted count that makes a product relevant for a query (default: 1, or that of the model
        if the log has neither purchases nor clicks, such as a log of ratings).
    sample
        Maximum number of test queries.
    seed
        Random seed of the sample.
    columns
        Columns of the log.

    """
    matcher = open_matcher(model, api_key_file)
    test = columns.read(log)
    rule = choose_rule(matcher, test, events=events, min_count=min_count)
    qrels = make_qrels(
        test, events=rule.weights, min_count=rule.min_count, sample=sample, seed=seed
    )
    learned = None if train is None else columns.read(train)
    output.print(evaluate_qrels(matcher, qrels, train=learned, seed=seed))
    print_text(f"Relevant: {rule}.")
    print_text(LEGEND)
    seen = find_seen_in_training(qrels, learned, matcher)
    if seen.is_seen is None:
        print_error(WITHOUT_TRAINING)
    warn_if_trained_on(qrels, seen)


def open_matcher(model: str, api_key_file: Path | None) -> Retriever:
    """The matcher in a folder, or a client of the server at an address."""
    if not model.startswith(("http://", "https://")):
        if api_key_file is not None:
            rule = f"is for the address of a server; got {model}"
            raise ParameterError(rule, parameter="api_key_file")
        return load(model)
    key = None if api_key_file is None else read_key_lines(api_key_file)[0]
    return Client(model, api_key=key, titles=False)
