"""Ordering: is the paper's order of matchers the order on this data?

It is checked, pair by pair and with every difference corrected for their number, never assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matchset.evaluate.chance import Values
from matchset.evaluate.compare import Difference, weigh_differences
from matchset.evaluate.experiments.rows import OURS
from matchset.evaluate.experiments.run import Effort

ALPHA = 0.05
# Better first, as the paper has it; its XR-Linear is our row with trigrams.
CLAIMS = (
    ("trigrams", "bigrams"),
    ("trigrams", "more-bigrams"),
    ("bigrams", "unigrams"),
    ("more-bigrams", "unigrams"),
    ("trigrams", "dssm-hnsw"),
    ("dssm-hnsw", "bm25"),
    ("trigrams", "bm25"),
)
SHOWN, REVERSED, UNCLEAR, UNKNOWN = (
    "shown",
    "not shown: the other way round",
    "not shown: may be luck",
    "not measured",
)


def compare_rows(recalls: Mapping[str, Values], effort: Effort) -> tuple[Difference, ...]:
    """Our recipe against every other row, and the paper's claims, all corrected together."""
    pairs = [(OURS, name) for name in recalls if name != OURS and OURS in recalls]
    pairs += [claim for claim in CLAIMS if set(claim) <= set(recalls)]
    if not pairs:
        return ()
    return weigh_differences(
        recalls, pairs, effort.ks, flips=effort.flips, resamples=effort.resamples, seed=effort.seed
    )


def check_claims(differences: Iterable[Difference], k: int) -> list[dict[str, Any]]:
    """Each of the paper's claims with what the data says of it."""
    found = {(d.first, d.second): d for d in differences if d.k == k}
    return [_check(claim, found.get(claim)) for claim in CLAIMS]


def judge_difference(difference: Difference) -> str:
    """Whether the first is better, the second is, or neither can be told."""
    if difference.p_holm >= ALPHA or difference.low <= 0 <= difference.high:
        return UNCLEAR
    return SHOWN if difference.value > 0 else REVERSED


def _check(claim: Sequence[str], difference: Difference | None) -> dict[str, Any]:
    better, worse = claim
    checked: dict[str, Any] = {"better": better, "worse": worse, "verdict": UNKNOWN}
    if difference is not None:
        checked |= {
            "verdict": judge_difference(difference),
            "value": difference.value,
            "low": difference.low,
            "high": difference.high,
            "p_holm": difference.p_holm,
        }
    return checked
