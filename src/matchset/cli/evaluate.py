"""Evaluate: how much of what customers bought does a model find?"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path

from matchset.cli.console import (
    Form,
    output,
    print_error,
    print_heading,
    print_json,
    print_table,
    print_text,
    to_plain,
)
from matchset.cli.flags import LogColumns
from matchset.errors import ParameterError
from matchset.evaluate.calibration import Cutoff, score_answers
from matchset.evaluate.evaluation import evaluate as measure
from matchset.evaluate.pair_segments import (
    SeenInTraining,
    choose_rule,
    find_seen_in_training,
    is_like_training,
)
from matchset.evaluate.qrels import Qrels, make_qrels
from matchset.matchers.base import Retriever
from matchset.matchers.match_set import MatchSet
from matchset.matchers.recorded_run import read_run
from matchset.matchers.saved import load
from matchset.storage.file import is_ours

COLUMNS = LogColumns()
OPENERS = "matchset.openers"  # group of entry points
LEGEND = (
    "Recall: share of a query's relevant products among the first k, with its 95 % interval. "
    "Seen in training: the highest recall that the products of the training log allow. It is a "
    "ceiling for matchers that do not read titles; others can exceed it."
)
WITHOUT_TRAINING = (
    "The training log of this matcher is not known, so seen and unseen queries, and warm and cold "
    "products, are left out. Give its training log: --train LOG."
)
CUTOFFS = "What a minimum score (--min-score of `matchset match`) leaves of the first {k} products"
TRAINED_ON = (
    "nearly every query of this log was in training: is it the log that the model was trained on?"
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
    form: Form = "table",
    columns: LogColumns = COLUMNS,
) -> None:
    """Measure how many of the products that customers bought are found.

    Parameters
    ----------
    model
        File of a trained model or any other saved matcher; the address of a running server, such
        as http://127.0.0.1:8080; or a file with the answers of another search engine, as for
        --run of `matchset compare`.
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
    form
        A table; or all scores as tab-separated values, JSON Lines or JSON, which also says what
        minimum scores leave.
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
    found = measure(matcher, qrels, train=learned, seed=seed)
    cutoffs = find_cutoffs(matcher, qrels, max(found.ks))
    if form == "json":
        scores = {"scores": found.scores, "min_score": cutoffs, "relevant": str(rule)}
        print_json(scores)
    elif form == "jsonl":
        sys.stdout.writelines(f"{json.dumps(row)}\n" for row in to_plain(found.to_dicts()))
    elif form == "tsv":
        rows = found.to_dicts()
        lines = [list(rows[0]), *(list(row.values()) for row in rows)]
        sys.stdout.writelines("\t".join(map(str, line)) + "\n" for line in lines)
    else:
        output.print(found)
        print_text(f"Relevant: {rule}.")
        print_text(LEGEND)
        print_cutoffs(cutoffs, max(found.ks))
    seen = find_seen_in_training(qrels, learned, matcher)
    if seen.is_seen is None:
        print_error(WITHOUT_TRAINING)
    warn_if_trained_on(qrels, seen)


def find_cutoffs(matcher: Retriever, qrels: Qrels, k: int) -> tuple[Cutoff, ...]:
    """Measure recall and size of a match set at some least scores; nothing for other matchers."""
    if not isinstance(matcher, MatchSet):
        return ()
    return score_answers(matcher, qrels, k=k).cutoffs()


def print_cutoffs(cutoffs: Sequence[Cutoff], k: int) -> None:
    """Print them as a table."""
    if not cutoffs:
        return
    print_heading(CUTOFFS.format(k=k))
    rows = []
    for cut in cutoffs:
        shares = [f"{100 * each:.1f}" for each in (cut.recall, cut.recall_by_traffic)]
        rows.append((f"{cut.min_score:g}", *shares, f"{cut.size:.1f}", f"{100 * cut.empty:.1f}"))
    headers = ("min_score", "recall, %", "by traffic, %", "products", "no answer, %")
    print_table(headers, rows, n_texts=0)


def warn_if_trained_on(qrels: Qrels, training: SeenInTraining) -> None:
    """Warn if a test looks like the log of the training: the model would know it by heart."""
    if is_like_training(qrels, training):
        print_error(TRAINED_ON)


def open_matcher(model: str, api_key_file: Path | None = None) -> Retriever:
    """Open the matcher or the run in a file, or what a room has for an address.

    The client of a server is found by the entry point `http` of the group `matchset.openers`.
    """
    scheme, is_address, _ = model.partition("://")
    if is_address:
        opener = next(iter(entry_points(group=OPENERS, name=scheme)), None)
        if opener is None:
            raise ValueError(f"an address must begin with http:// or https://; got {model}")
        matcher: Retriever = opener.load()(model, api_key_file)
        return matcher
    if api_key_file is not None:
        rule = f"is for the address of a server; got {model}"
        raise ParameterError(rule, parameter="api_key_file")
    return load(model) if is_ours(model) or not Path(model).is_file() else read_run(model)
