"""Demo: what does it do for a shop, from log to answers, without any data at hand?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from matchset.cli.console import output, print_heading, print_text, training_bar
from matchset.cli.interrupts import ending_soon
from matchset.cli.logs import show_log, show_split
from matchset.config import DEFAULT_MIN_QUERY_COUNT
from matchset.data.catalog_reader import read_catalog
from matchset.data.log import Log
from matchset.data.log_reader import read_log
from matchset.data.split import split_by_time
from matchset.evaluate.compare import compare_matchers
from matchset.evaluate.evaluation import evaluate
from matchset.example_shop import write_demo_shop
from matchset.matchers.bm25 import BM25
from matchset.matchers.match_set import MatchSet
from matchset.matchers.train import train
from matchset.matchers.xr_linear import XRLinearMatcher

FOLDER = Path("matchset-demo")
EXAMPLES = ("couch", "jogging shoes 42", "camping")  # no title has these words
EXAMPLES_UNSEEN = 2


def demo(*, seed: int = 0, out: Annotated[Path, Parameter(alias="-o")] = FOLDER) -> None:
    """Make up a small shop, train on all but its last month, and test on that month.

    Parameters
    ----------
    seed
        Random seed of the shop.
    out
        Folder for the shop's log and catalog, and for the model.

    """
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"{out}: must be a folder; got a file; choose --out")
    if out.exists() and any(out.iterdir()) and not (out / "products.csv").exists():
        raise FileExistsError(f"{out}: must be new, empty or of an earlier demo; choose --out")
    out.mkdir(parents=True, exist_ok=True)
    events, goods = write_demo_shop(out, seed=seed)
    log, catalog = read_log(str(events)), read_catalog(str(goods))
    print_text(f"a made-up shop: {events}, {goods}")
    show_log(log, min_query_count=DEFAULT_MIN_QUERY_COUNT)
    split = split_by_time(log, test_days=30)
    print_heading("Split: training and test")
    show_split(split)
    print_heading("Training")
    with training_bar() as bar, ending_soon(bar.stop):
        matcher = train(split.train, catalog, progress=bar)
    print_text(str(matcher.summary))
    print_heading("What customers bought in the last month: how much of it is found?")
    output.print(evaluate(matcher, split.test))
    bm25 = BM25.from_catalog(catalog, language="auto")
    output.print(compare_matchers({"match set": matcher, "BM25, stemmed": bm25}, split.test))
    show_matches(matcher, split.test)
    matcher.save(out / "model", overwrite=True)
    print_text(
        f"saved to {out / 'model'}; to see answers in a browser, or to compare more methods:"
    )
    print_text(f"  matchset serve {out / 'model'} --log {events}")
    print_text(f"  matchset compare {events} --catalog {goods} --out {out / 'report'}")


def show_matches(matcher: MatchSet | XRLinearMatcher, test: Log) -> None:
    """Print answers to words that no title has, and to frequent queries that are new."""
    print_heading("Answers to words that no title has, and to queries that were not in training")
    is_seen = matcher.training.is_seen(test.queries)
    counts = np.where(test.shown() & ~is_seen, test.query_counts(), 0)
    top = np.argsort(-counts, kind="stable")[:EXAMPLES_UNSEEN]
    for query in (*EXAMPLES, *test.queries.take(top[counts[top] > 0])):
        output.print(matcher.match(query, k=3))
