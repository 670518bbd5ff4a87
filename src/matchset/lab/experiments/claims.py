"""Claims: does the paper's order of methods hold on this data?

Each pair is tested, with the p-values of a whole comparison corrected together, never assumed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from matchset.evaluate.compare import Difference
from matchset.evaluate.significance import ALPHA
from matchset.lab.experiments.baseline_rows import LEXICAL
from matchset.lab.experiments.paper_rows import GRAPH
from matchset.lab.experiments.vocabularies import BIGRAMS, MORE_BIGRAMS, TRIGRAMS, UNIGRAMS

# The paper's order, better first; its XR-Linear is the variant with trigrams.
CLAIMS = (
    (TRIGRAMS, BIGRAMS),
    (TRIGRAMS, MORE_BIGRAMS),
    (BIGRAMS, UNIGRAMS),
    (MORE_BIGRAMS, UNIGRAMS),
    (TRIGRAMS, GRAPH),
    (GRAPH, LEXICAL),
    (TRIGRAMS, LEXICAL),
)
CONFIRMED, REVERSED, UNCLEAR, UNKNOWN = "confirmed", "reversed", "not significant", "not measured"


class Claim(NamedTuple):
    """One pair of the paper's order, and whether it holds here."""

    better: str
    worse: str
    verdict: str
    difference: Difference | None


def check_claims(differences: Iterable[Difference], k: int) -> list[Claim]:
    """Return each of the paper's claims with the verdict on this data."""
    tested = {(d.first, d.second): d for d in differences if d.k == k}
    return [
        Claim(*claim, UNKNOWN if (d := tested.get(claim)) is None else find_verdict(d), d)
        for claim in CLAIMS
    ]


def find_verdict(difference: Difference) -> str:
    """Return whether the first is significantly better, the second is, or neither."""
    if difference.p_holm >= ALPHA or difference.low <= 0 <= difference.high:
        return UNCLEAR
    return CONFIRMED if difference.value > 0 else REVERSED
