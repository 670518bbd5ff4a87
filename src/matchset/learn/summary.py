"""Training summary: what was learned, from what, and at what cost?"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from matchset.learn.train_match_set import TrainedMatchSet
from matchset.work.steps import Progress


@dataclass(frozen=True, slots=True)
class TrainSummary:
    """What was learned, from what, and at what cost."""

    pairs: int
    queries: int
    products: int
    missing_products: int  # with positive queries, but not in the catalog
    rule: str  # what made a pair positive
    left_out: int  # pairs with events that count, but too few of them
    features: int
    tree: tuple[int, ...]  # nodes per level; the last are the products
    weights: tuple[int, ...]  # per layer, after pruning
    unconverged: int  # classifiers that used up max_iter
    n_bytes: int  # of tree, weights and index
    seconds: dict[str, float]  # per stage
    peak_memory: int  # of the process so far, or of the largest one that it started, in bytes
    language: str | None = None  # in which words were stemmed
    part_bytes: Mapping[str, int] = field(default_factory=dict)  # of each part of a match set
    reranker: str = ""  # how its weights were learned, and what each part was worth
    events: Mapping[str, float] = field(default_factory=dict)  # weight of each that counts
    sampled_pairs: int | None = None  # that the towers saw, where they are a sample of the pairs

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> TrainSummary:
        """Read a summary from plain values, as a model's provenance holds them."""
        lists = {name: tuple(stored[name]) for name in ("tree", "weights")}
        return cls(**{**stored, **lists})

    def __str__(self) -> str:
        stages = ", ".join(f"{stage} {spent:.1f}" for stage, spent in self.seconds.items())
        missing = f" ({self.missing_products:,} not in the catalog)" * bool(self.missing_products)
        unconverged = f"; {self.unconverged:,} classifiers did not converge"
        sample = f"\ntowers: trained on a sample of {self.sampled_pairs or 0:,} pairs"
        return (
            f"{self.pairs:,} pairs of {self.queries:,} queries; "
            f"{self.products:,} products{missing}"
            f"{sample * (self.sampled_pairs is not None)}\n"
            f"positive: {self.rule}; {self.left_out:,} other pairs had too few such events\n"
            f"language: {self.language or 'none chosen, words are not stemmed'}\n"
            f"{self.features:,} features; {self._describe_size()}"
            f"{unconverged * bool(self.unconverged)}\n"
            f"{sum(self.seconds.values()):.1f} s ({stages}); "
            f"peak memory {self.peak_memory / 1e9:.2f} GB" + f"\n{self.reranker}".rstrip()
        )

    def _describe_size(self) -> str:
        tree = f"tree {' x '.join(f'{n:,}' for n in self.tree)}; {sum(self.weights):,} weights"
        if not self.part_bytes:
            each = self.n_bytes / max(1, sum(self.weights))
            return f"{tree} in {self.n_bytes / 1e6:.1f} MB ({each:.2f} bytes each)"
        parts = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in self.part_bytes.items())
        return f"{f'{tree}; ' * bool(self.tree)}{parts}"


@dataclass(slots=True)
class Stopwatch:
    """Forwards progress, and adds up the time of each stage; mutable, for a single training."""

    on_progress: Callable[[Progress], None]
    seconds: dict[str, float] = field(default_factory=dict)
    last: float = field(default_factory=time.perf_counter)

    def __call__(self, progress: Progress) -> None:
        """Count the time since the last call for the stage that has just ended."""
        now = time.perf_counter()
        self.seconds[progress.stage] = self.seconds.get(progress.stage, 0.0) + now - self.last
        self.last = now
        self.on_progress(progress)


def summarize(trained: TrainedMatchSet, seconds: dict[str, float]) -> TrainSummary:
    """Summarize a training."""
    data, model = trained.data, trained.model
    tree, towers = trained.parts.tree, trained.parts.towers
    sizes = model.part_bytes()
    is_tree = tuple(sizes) == ("tree",)
    told = f"{model.reranker}\nnew products among the answers: {model.describe_share()}"
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    peak = max(resource.getrusage(who).ru_maxrss for who in whose)
    return TrainSummary(
        pairs=len(data.positives),
        queries=len(data.positives.queries),
        products=len(data.products),
        missing_products=data.n_missing,
        rule=str(data.positives.rule),
        left_out=data.positives.n_left_out,
        features=data.vectorizer.n_features,
        tree=() if model.tree is None else model.tree.sizes,
        weights=() if tree is None else tree.n_weights,
        unconverged=0 if tree is None else tree.n_unconverged,
        n_bytes=sum(sizes.values()),
        seconds=seconds,
        peak_memory=peak if sys.platform == "darwin" else 1024 * peak,
        language=data.vectorizer.vocabulary.language,
        part_bytes={} if is_tree else sizes,
        reranker="" if is_tree else told,
        events=dict(data.positives.rule.weights),
        sampled_pairs=None if towers is None else towers.n_sampled,
    )
