"""Refresh report: what was learned from a log, and when is a full training due?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_NEW_PRODUCTS = 0.1  # of all products, came since the training
MOST_UNKNOWN_WORDS = 0.1  # of the words in the log's queries, without an embedding
MOST_LOST_RECALL = 0.03  # of Recall@100, against the validation queries of the training


@dataclass(frozen=True, slots=True)
class RefreshReport:
    """What a refresh learned, what it solved again, and how far the shop has moved."""

    refreshed: str  # when
    refreshes: int  # since the training
    new_pairs: int  # positive pairs that the model did not have
    pairs: int  # all that it has learned from now
    queries: int
    from_old_log: bool  # whether old pairs came from the old log, or from past queries
    unknown_products: int  # of the log's positive pairs, which the model does not have
    leaves: int  # of the tree
    solved_leaves: int
    split_leaves: int
    solved_above: bool  # whether all layers above the leaves were solved again, too
    products: int
    new_products: int  # came since the training
    share_unknown_words: float  # in the log's queries
    recall: tuple[float, ...]  # at 10, 50 and 100, on the log, before it was learned from
    recall_queries: int  # on which it was measured
    recall_trained: tuple[float, ...] | None  # on the validation queries of the training
    seconds: float

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> RefreshReport:
        """Return a report from plain values, as a model's provenance holds them."""
        lists = {
            name: None if stored[name] is None else tuple(stored[name])
            for name in ("recall", "recall_trained")
        }
        return cls(**{**stored, **lists})

    @property
    def share_new_products(self) -> float:
        """Of all products: came since the training."""
        return self.new_products / max(1, self.products)

    @property
    def due(self) -> tuple[str, ...]:
        """Why a full training is due; empty if it is not."""
        reasons = []
        if self.share_new_products > MOST_NEW_PRODUCTS:
            share = f"{self.share_new_products:.1%} of the products came since the training"
            reasons.append(f"{share}, more than {MOST_NEW_PRODUCTS:.0%}")
        if self.share_unknown_words > MOST_UNKNOWN_WORDS:
            share = f"{self.share_unknown_words:.1%} of the words in queries have no embedding"
            reasons.append(f"{share}, more than {MOST_UNKNOWN_WORDS:.0%}")
        trained = self.recall_trained
        if trained and self.recall_queries and trained[-1] - self.recall[-1] > MOST_LOST_RECALL:
            fell = (
                f"Recall@100 fell from {trained[-1]:.1%} at the training to {self.recall[-1]:.1%}"
            )
            reasons.append(f"{fell}, by more than {100 * MOST_LOST_RECALL:.0f} points")
        return tuple(reasons)

    @property
    def advice(self) -> str:
        """Whether a full training is due, in words."""
        return (
            f"a full training is due: {'; '.join(self.due)}"
            if self.due
            else "no full training is due"
        )

    def __str__(self) -> str:
        source = "the old log" if self.from_old_log else "past queries"
        left_out = f"; {self.unknown_products:,} of its products are not in the model: add them"
        recall = " / ".join(f"{100 * value:.1f}" for value in self.recall)
        trained = ""
        if self.recall_trained is not None:
            then = " / ".join(f"{100 * value:.1f}" for value in self.recall_trained)
            trained = f"; on the validation queries of the training {then}"
        return (
            f"{self.new_pairs:,} new pairs of {self.pairs:,}; old ones from {source}"
            f"{left_out * bool(self.unknown_products)}\n"
            f"{self.solved_leaves:,} of {self.leaves:,} leaves solved again, "
            f"{self.split_leaves:,} split; layers above "
            f"{'solved again' if self.solved_above else 'kept'}; {self.seconds:.1f} s\n"
            f"Recall@10/50/100 on {self.recall_queries:,} queries of the log, before: {recall} %"
            f"{trained}\n"
            f"since the training: {self.share_new_products:.1%} new products, "
            f"{self.share_unknown_words:.1%} of the log's words without an embedding\n"
            f"{self.advice}"
        )
