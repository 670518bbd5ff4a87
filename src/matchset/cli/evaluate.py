"""Evaluate: how good is a model on a log?"""

from __future__ import annotations

from pathlib import Path

from matchset.cli.console import errors, output, say
from matchset.cli.experiments import warn_if_trained_on
from matchset.cli.options import LogColumns
from matchset.client.client import Client
from matchset.evaluate.evaluation import evaluate_questions
from matchset.evaluate.qrels import make_questions
from matchset.evaluate.segments import choose_rule, recall_training
from matchset.matchers.base import Retriever
from matchset.matchers.registry import load
from matchset.serve.http.auth import read_key_lines

COLUMNS = LogColumns()
LEGEND = (
    "Recall: share of a query's relevant products among the first k, with its 95 % interval. "
    "Ceiling: the best of a matcher that knows only products seen in training; titles go beyond."
)
WITHOUT_TRAINING = (
    "A server does not tell what it was trained on: seen and unseen queries, warm and cold "
    "products, and the ceiling are left out. Give the log of its training: --train LOG."
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
    """Measure how many of the products that customers bought a model finds.

    Parameters
    ----------
    model
        Folder of a trained model, or of any other matcher that was saved; or the address of a
        running server, such as http://127.0.0.1:8080.
    log
        A log that the model was not trained on.
    train
        The log that it was trained on: tells queries seen and products known, which a model
        remembers but a server does not tell.
    api_key_file
        File of a server's API key; of several lines the first that is one counts.
    events
        Weight of each event that makes a product relevant, such as --events.purchase 1; by default
        what was bought, or else clicked, or else what the model was trained with.
    min_count
        Purchases (or what the log has) that make a product relevant for a query; by default 1, or
        the model's own where a log has neither purchases nor clicks, such as one of ratings.
    sample
        Queries to ask at most.
    seed
        For the sample.
    columns
        Columns of the log.

    """
    matcher = open_matcher(model, api_key_file)
    test = columns.read(log)
    rule = choose_rule(matcher, test, events=events, min_count=min_count)
    questions = make_questions(
        test, events=rule.weights, min_count=rule.min_count, sample=sample, seed=seed
    )
    learned = None if train is None else columns.read(train)
    output.print(evaluate_questions(matcher, questions, train=learned, seed=seed))
    say(f"Relevant: {rule}.")
    say(LEGEND)
    if isinstance(matcher, Client) and train is None:
        errors.print(WITHOUT_TRAINING)
    warn_if_trained_on(questions, recall_training(questions, learned, matcher))


def open_matcher(model: str, api_key_file: Path | None) -> Retriever:
    """The matcher of a folder, or one behind an address."""
    if not model.startswith(("http://", "https://")):
        if api_key_file is not None:
            raise ValueError(f"--api-key-file must come with a server's address; got {model}")
        return load(model)
    key = None if api_key_file is None else read_key_lines(api_key_file)[0]
    return Client(model, api_key=key, titles=False)
