"""Examples: which test queries are shown side by side?

None that may not be shown. Some where our recipe finds more than the row it is compared with, some
where it finds less, each the clearest there are, and some drawn by chance from all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matchset.data.catalog import Catalog
from matchset.lab.experiments.benchmark import Problem
from matchset.lab.experiments.contenders import LEXICAL, OURS
from matchset.lab.experiments.store import Measured
from matchset.strings import Strings

EACH = 3  # examples of each kind
COLUMNS = (OURS, "trigrams", "dssm-hnsw", LEXICAL, "title-similarity", "nearest-queries")
PARTNERS = (LEXICAL, "nearest-queries", "popularity")  # the first that there is


def choose_examples(problem: Problem, rows: Mapping[str, Measured]) -> dict[str, Any] | None:
    """Queries by kind, with the answers of some matchers; None where none can be shown."""
    places = problem.examples()
    partner = next((name for name in PARTNERS if name in rows), None)
    if OURS not in rows or partner is None or len(places) == 0:
        return None
    gains = _count_found(problem, places, rows[OURS]) - _count_found(problem, places, rows[partner])
    kinds = _choose(gains, problem.questions.traffic[places], seed=problem.config.learn.seed)
    columns = [name for name in COLUMNS if name in rows]
    return {
        "partner": partner,
        "columns": columns,
        "queries": [
            {"kind": kind, **_lay_out(int(place), problem, places, rows, columns)}
            for kind, chosen in kinds.items()
            for place in chosen
        ],
    }


def _choose(
    gains: NDArray[np.int64], traffic: NDArray[np.float64], *, seed: int
) -> dict[str, NDArray[np.int64]]:
    """Places of the examples, by kind; the more frequent first where the gain is the same."""
    order = np.lexsort([-traffic, -gains])
    wins = [place for place in order if gains[place] > 0][:EACH]
    order = np.lexsort([-traffic, gains])
    losses = [place for place in order if gains[place] < 0][:EACH]
    rng = np.random.default_rng([seed, 12])
    others = [place for place in rng.permutation(len(gains)) if place not in {*wins, *losses}]
    return {"wins": np.array(wins), "loses": np.array(losses), "by chance": np.array(others[:EACH])}


def _count_found(problem: Problem, places: NDArray[np.int64], row: Measured) -> NDArray[np.int64]:
    """Relevant products among those shown, of each example."""
    return np.array(
        [
            len(_relevant(problem, int(place)) & set(ids))
            for place, ids in zip(places, row.answers, strict=True)
        ]
    )


def _relevant(problem: Problem, question: int) -> set[str]:
    begin, end = np.searchsorted(problem.questions.row, [question, question + 1])
    return set(problem.questions.products.take(problem.questions.product[begin:end]))


def _name(ids: list[str], catalog: Catalog | None) -> list[str]:
    """Titles of products, their ids where there are none."""
    if catalog is None:
        return ids
    places = catalog.ids.index_of(Strings.of(ids)).tolist()
    titles = (catalog.titles[place] if place >= 0 else "" for place in places)
    return [title or product for title, product in zip(titles, ids, strict=True)]


def _lay_out(
    place: int,
    problem: Problem,
    places: NDArray[np.int64],
    rows: Mapping[str, Measured],
    columns: list[str],
) -> dict[str, Any]:
    question = int(places[place])
    relevant = _relevant(problem, question)
    answers = {}
    for name in columns:
        ids = list(rows[name].answers[place])
        found = zip(ids, _name(ids, problem.catalog), strict=True)
        answers[name] = [
            {"product_id": product, "title": title, "is_relevant": product in relevant}
            for product, title in found
        ]
    return {
        "query": problem.questions.queries[question],
        "n_relevant": len(relevant),
        "answers": answers,
    }
