"""Findings: what do a comparison and a sweep hand over to the report?

They are handed over in memory. The report writes them once, as results.json, from which a later
command takes what it did not measure itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from matchset.evaluate.calibration import Cutoff, ReliabilityBin
from matchset.evaluate.compare import Difference
from matchset.evaluate.evaluation import Score
from matchset.evaluate.overlap import IncrementalRecall, Share
from matchset.matchers.registry import MATCH_SET
from matchset.storage.codec import decode

RESULTS = "results.json"
FORMAT = 3  # of that file
OURS = MATCH_SET  # the row that all others are compared with
# What a row is: our default, an engine of the user's own, several of these together, a part of ours
# alone, ours without a part, a known method, or XR-Linear as in the paper.
Group: TypeAlias = Literal["ours", "engine", "fusion", "part", "ablation", "baseline", "paper"]


@dataclass(frozen=True, slots=True)
class Setting:
    """How an experiment was made."""

    command: str
    date: str
    machine: Mapping[str, str]
    versions: Mapping[str, str]
    config: Mapping[str, Any]
    ks: tuple[int, ...]
    seed: int
    is_quick: bool
    qrels: str  # digest: experiments of equal digests had the same test


@dataclass(frozen=True, slots=True)
class Side:
    """The training or the test side of a split."""

    pairs: int
    queries: int
    products: int
    days: tuple[str, str] | None  # first and last
    rule: str  # what makes a pair positive


@dataclass(frozen=True, slots=True)
class DataFacts:
    """What an experiment was made on."""

    origin: str  # "Home Depot", "a search log"
    train: Side
    test: Side
    n_queries: int  # of the test, after sampling
    relevant_means: str  # "bought" or "relevant"
    is_rated: bool  # whether people judged products, rather than clicking or buying
    catalog_products: int | None
    unseen_products: float
    unseen_queries: float
    seen_limit: float  # see `Score`


@dataclass(frozen=True, slots=True)
class Cost:
    """What a matcher costs."""

    train_seconds: float
    disk_bytes: int
    latency: Mapping[str, float]  # seconds, see `Timing.to_dict`
    edges: tuple[float, ...]  # of a histogram of latencies, in seconds
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One matcher of a comparison."""

    name: str
    kind: str
    title: str
    group: Group
    absent: str = ""  # why it was not run; all below is empty then
    note: str = ""  # what a reader must know of it
    features: int | None = None
    scores: tuple[Score, ...] = ()
    cost: Cost | None = None  # None where it was measured elsewhere

    @cached_property
    def _by_name(self) -> dict[tuple[str, str, int], Score]:
        return {(score.segment, score.metric, score.k): score for score in self.scores}

    def score(self, k: int, segment: str = "all", metric: str = "recall") -> Score | None:
        """Return a score, by default recall; None where the segment is unknown or empty."""
        return self._by_name.get((segment, metric, k))

    def recall(self, k: int) -> float:
        """Return the mean recall at k."""
        score = self.score(k)
        return 0.0 if score is None else score.value


class Answer(NamedTuple):
    """A product that a matcher gave for an example."""

    product_id: str
    title: str
    is_relevant: bool


@dataclass(frozen=True, slots=True)
class Example:
    """A query with the answers of several matchers."""

    kind: str  # "wins", "loses" or "random"
    query: str
    n_relevant: int
    answers: Mapping[str, tuple[Answer, ...]]  # by row


@dataclass(frozen=True, slots=True)
class MatchSetFacts:
    """What is inside our match set, and what its scores mean on the test."""

    part_bytes: Mapping[str, int]
    weights: Mapping[str, tuple[float, ...]]  # of each feature: cold, warm; in each situation
    learned: Mapping[str, Any]  # how, see `Reranker.facts`
    reliability: tuple[ReliabilityBin, ...]
    cutoffs: tuple[Cutoff, ...]


@dataclass(frozen=True, slots=True)
class ComparisonFindings:
    """The results of `matchset compare`."""

    setting: Setting
    data: DataFacts
    vocabularies: Mapping[str, float]
    rows: tuple[Row, ...]
    differences: tuple[Difference, ...]
    opponent: str | None  # the row that ours is shown beside: an engine, else lexical search
    adds: IncrementalRecall | None  # of ours beside that
    match_set: MatchSetFacts | None
    examples: tuple[Example, ...]

    @property
    def k(self) -> int:
        """The largest k."""
        return max(self.setting.ks)

    def row(self, name: str | None) -> Row | None:
        """Return a row that was run; None if it was not."""
        return next((row for row in self.present() if row.name == name), None)

    def title_of(self, name: str) -> str:
        """Return the title of a row, whether it was run or not."""
        return next((row.title for row in self.rows if row.name == name), name)

    def present(self, *groups: str) -> tuple[Row, ...]:
        """Return the rows that were run, of some groups or of all."""
        return tuple(r for r in self.rows if not r.absent and (not groups or r.group in groups))

    def difference(self, first: str, second: str, k: int | None = None) -> Difference | None:
        """Return first minus second at k; None where it was not tested."""
        depth = self.k if k is None else k
        for each in self.differences:
            if (each.first, each.second, each.k) == (first, second, depth):
                return each
        return None


@dataclass(frozen=True, slots=True)
class SweepRow:
    """A model at one setting."""

    setting: float  # the threshold or beam
    recall: tuple[Share, ...]  # at each k of the setting
    latency: Mapping[str, float]
    queries_per_second: float | None = None
    weights: int | None = None
    disk_bytes: int | None = None
    memory_bytes: int | None = None  # of the tree


@dataclass(frozen=True, slots=True)
class SweepFindings:
    """The results of `matchset sweep`."""

    setting: Setting
    origin: str
    n_queries: int
    title: str  # of the model
    kind: str
    own_threshold: float
    own_beam: int
    thresholds: tuple[SweepRow, ...]  # at the model's own beam
    beams: tuple[SweepRow, ...]  # at the model's own threshold


@dataclass(frozen=True, slots=True)
class Findings:
    """All that a report shows."""

    comparison: ComparisonFindings | None = None
    sweep: SweepFindings | None = None


def read_findings(folder: Path) -> Findings:
    """Return what an earlier command wrote; empty where there is nothing that can be read."""
    try:
        plain = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
        if plain["matchset"] != FORMAT:
            return Findings()
        return decode(Findings, {name: plain[name] for name in ("comparison", "sweep")}, {})
    except (OSError, ValueError, KeyError, TypeError):
        return Findings()
