"""The rows of benchmarks/shops.py: how is each method trained, and from which other is it made?"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from pecos import run_pecos

import matchset as ms
from matchset.baselines import BM25, NearestQueries, Popularity, TitleSimilarity
from matchset.config import LearnConfig, count_threads
from matchset.data.positives import Positives
from matchset.lab import DSSM, SentenceEncoder

TREE = ms.TrainConfig(parts=("tree",))
PAPER = replace(TREE, titles="none", language=None, learn=LearnConfig())  # queries alone


@dataclass(frozen=True)
class Method:
    """How a row is made.

    `needs` are packages, `of` is the row that it is made of, `given` the path that it takes.
    """

    make: Callable[[Bench], ms.Matcher]
    needs: tuple[str, ...] = ()
    of: str | None = None
    given: str | None = None

    def absent(self, bench: Bench) -> str:
        """Why it cannot run here; empty if it can."""
        if self.given is not None and self.given not in bench.paths:
            return f"no --{self.given}"
        missing = [name for name in self.needs if find_spec(name) is None]
        return f"{' and '.join(missing)} not installed" if missing else ""


@dataclass(frozen=True)
class Bench:
    """What methods are trained on, and those that others are made of."""

    train_log: ms.Log
    catalog: ms.Catalog
    test: ms.Log
    paths: dict[str, Path]  # of an encoder, of a Python that has libpecos
    made: dict[str, tuple[ms.Matcher, float]] = field(default_factory=dict)

    @cached_property
    def pairs(self) -> Positives:
        """Positive pairs of the training side."""
        return ms.positives(self.train_log)

    def train(self, name: str) -> tuple[ms.Matcher, float]:
        """A method's matcher, and the seconds that its training took, with what it is made of."""
        if name in self.made:
            return self.made[name]
        method = METHODS[name]
        before = self.train(method.of)[1] if method.of is not None else 0.0
        start = time.perf_counter()
        matcher = method.make(self)
        found = matcher, before + time.perf_counter() - start
        if any(other.of == name for other in METHODS.values()):
            self.made[name] = found
        return found

    @property
    def dssm(self) -> DSSM:
        """The trained towers, which are searched in several ways."""
        matcher = self.train("DSSM")[0]
        assert isinstance(matcher, DSSM)
        return matcher


def run_peer(bench: Bench) -> ms.Matcher:
    """PECOS's own tree, on our features of queries."""
    return run_pecos(bench.train_log, bench.test.queries, PAPER, bench.paths["pecos"])


METHODS = {
    "match set": Method(lambda bench: ms.train(bench.train_log, bench.catalog)),
    "XR-Linear, titles too": Method(lambda bench: ms.train(bench.train_log, bench.catalog, TREE)),
    "XR-Linear": Method(lambda bench: ms.train(bench.train_log, bench.catalog, PAPER)),
    "PECOS": Method(run_peer, given="pecos"),
    "DSSM": Method(lambda bench: ms.lab.train_dssm(bench.train_log, bench.catalog), ("torch",)),
    "DSSM + HNSW": Method(
        lambda bench: bench.dssm.with_hnsw(threads=count_threads(None)),
        ("torch", "usearch"),
        "DSSM",
    ),
    "DSSM, int8 scan": Method(lambda bench: bench.dssm.with_int8(), ("torch",), "DSSM"),
    "DSSM, int8 scan, 64 dimensions": Method(
        lambda bench: bench.dssm.with_int8(64), ("torch",), "DSSM"
    ),
    "sentence encoder + HNSW": Method(
        lambda bench: SentenceEncoder.from_catalog(bench.catalog, bench.paths["encoder"]),
        ("sentence_transformers", "usearch"),
        given="encoder",
    ),
    "BM25": Method(lambda bench: BM25.from_catalog(bench.catalog)),
    "BM25, stemmed": Method(lambda bench: BM25.from_catalog(bench.catalog, language="auto")),
    "BM25, titles and past queries": Method(
        lambda bench: BM25.from_log(bench.train_log, bench.catalog)
    ),
    "title similarity": Method(
        lambda bench: TitleSimilarity.from_catalog(bench.catalog, language="auto")
    ),
    "nearest queries": Method(
        lambda bench: NearestQueries.from_positives(bench.pairs, catalog=bench.catalog)
    ),
    "popularity": Method(
        lambda bench: Popularity.from_positives(bench.pairs, catalog=bench.catalog)
    ),
}
