"""Paper: what did the authors report, on a data set that nobody else has?

"Extreme Multi-label Learning for Semantic Matching in Product Search", KDD 2021: 100 million
products, 128 processors. For orientation only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Reported(NamedTuple):
    """One of the paper's numbers: Recall@100 in percent, and perhaps milliseconds per query."""

    recall: float
    milliseconds: float | None = None
    note: str = ""


ROWS: Mapping[str, Reported] = {
    "unigrams": Reported(54.86),
    "bigrams": Reported(58.88, note="the paper's figure with bigrams"),
    "more-bigrams": Reported(58.88, note="the paper's figure with bigrams"),
    "trigrams": Reported(60.30),
    "dssm-hnsw": Reported(36.19, 3.13),
    "bm25": Reported(21.72),
}
BEAMS: Mapping[int, Reported] = {  # at threshold 0.35
    1: Reported(20.95),
    10: Reported(57.63),
    15: Reported(60.94, 1.25),
    50: Reported(65.74, 3.48),
}
PRUNING = (
    "The paper: from threshold 0.1 to 0.45 its model shrinks from 295 GB to 62 GB, and loses 5.4 "
    "points of Recall@100 (another data set)."
)
SOURCE = (
    "Chang et al., Extreme Multi-label Learning for Semantic Matching in Product Search, KDD 2021: "
    "100 million products, a log that is not public. Its numbers are for orientation: another data "
    "set, another machine."
)
