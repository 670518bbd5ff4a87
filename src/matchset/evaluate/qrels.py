"""Questions: which queries are asked, and which products answer them?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from matchset.data.events import EventWeights
from matchset.data.log import Log
from matchset.data.positives import Positives, positives, relevance
from matchset.errors import DataError
from matchset.evaluate.metrics import MISSING, Judged, Values
from matchset.matrices import rows_of
from matchset.strings import Strings


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """Test queries with their relevant products."""

    queries: Strings  # normalised, (n_queries,)
    products: Strings  # those that are relevant to some query, (n_products,)
    row: NDArray[np.int64]  # query of each relevant pair, ascending, (n_pairs,)
    product: NDArray[np.int64]  # ascending within a query, (n_pairs,)
    gain: Values  # (n_pairs,)
    traffic: Values  # how often each query is asked, (n_queries,)

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def n_pairs(self) -> int:
        """Number of relevant pairs."""
        return len(self.row)

    def judge(self, rank: NDArray[np.int64]) -> Judged:
        """With the rank of each pair."""
        return Judged(self.row, self.gain, rank, len(self))

    def unanswered(self) -> NDArray[np.int64]:
        """Ranks of an answer without anything, (n_pairs,)."""
        return np.full(self.n_pairs, MISSING)


def make_questions(
    test: Log | Positives,
    *,
    events: EventWeights | None = None,
    min_count: float = 1.0,
    sample: int | None = None,
    seed: int = 0,
    graded: bool = False,
) -> Questions:
    """What a test asks: of a log see `relevance`; of positives all pairs, `events` playing no part.

    Of more than `sample` queries so many are chosen by chance. Traffic is the log's
    `query_counts`; positives tell it by their values. `graded` makes these values the gains of
    nDCG, where otherwise every relevant product gains the same.
    """
    if sample is not None and sample < 1:
        raise ValueError(f"sample must be positive; got {sample}")
    relevant = (
        test if isinstance(test, Positives) else relevance(test, events=events, min_count=min_count)
    )
    if len(relevant) == 0:
        raise DataError(f"a test must have relevant pairs; got none with {relevant.rule}")
    pairs = relevant.pairs.sorted_indices()
    if isinstance(test, Log):
        traffic = test.query_counts()[test.queries.index_of(relevant.queries)]
    else:
        traffic = np.asarray(pairs.sum(axis=1), dtype=np.float64).ravel()
    gain = pairs.data.astype(np.float64)
    questions = Questions(
        queries=relevant.queries,
        products=relevant.products,
        row=rows_of(pairs.indptr).astype(np.int64),
        product=pairs.indices.astype(np.int64),
        gain=gain if graded else np.ones_like(gain),
        traffic=traffic,
    )
    return questions if sample is None else _sample(questions, sample, seed)


def training_pairs(train: Log | Positives) -> Positives:
    """What was learned from: of a log the usual positives."""
    return train if isinstance(train, Positives) else positives(train)


def _sample(questions: Questions, sample: int, seed: int) -> Questions:
    if len(questions) <= sample:
        return questions
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(len(questions), sample, replace=False))
    is_chosen = np.zeros(len(questions), dtype=np.bool_)
    is_chosen[chosen] = True
    kept = is_chosen[questions.row]
    return replace(
        questions,
        queries=questions.queries.take(chosen),
        row=(np.cumsum(is_chosen) - 1)[questions.row[kept]],
        product=questions.product[kept],
        gain=questions.gain[kept],
        traffic=questions.traffic[chosen],
    )
