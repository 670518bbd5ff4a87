"""Contenders: which matchers are compared?

Our match set comes first, then the user's own engines, fusions of the two, the match set's parts
alone, and the known methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from matchset.config import PARTS
from matchset.errors import DataError
from matchset.lab.experiments.baseline_rows import (
    BASELINES,
    ENCODER,
    EXPANDED,
    FLOOR,
    LEXICAL,
    STEMMED,
    list_baselines,
)
from matchset.lab.experiments.benchmark import Benchmark
from matchset.lab.experiments.contender import NO_CATALOG, Contender, of_kind
from matchset.lab.experiments.findings import OURS, Group
from matchset.lab.experiments.paper_rows import EXACT, GRAPH, INT8, PAPER, SMALL_INT8
from matchset.lab.experiments.store import make_digest
from matchset.lab.experiments.vocabularies import Vocabularies
from matchset.matchers.base import Matcher
from matchset.matchers.fusion import Fusion
from matchset.matchers.match_set import MatchSet
from matchset.matchers.recorded_run import RecordedRun
from matchset.matchers.registry import XR_LINEAR
from matchset.matchers.saved import load
from matchset.matchers.train import train

PARTS_ROWS = tuple(f"{OURS}_{which}{part}" for which in ("", "without_") for part in PARTS)
TITLE_PARTS = ("towers", "lexical")
SHOP_ROWS = (OURS, *PARTS_ROWS, XR_LINEAR, STEMMED, EXPANDED, *BASELINES, ENCODER)
PAPER_ROWS = (*PAPER, EXACT, GRAPH, INT8, SMALL_INT8)  # DSSM takes minutes
# Left out of plots and examples: close to another contender, or the floor.
MINOR = frozenset({EXACT, SMALL_INT8, FLOOR})


def list_contenders(
    benchmark: Benchmark,
    vocabularies: Vocabularies,
    runs: Mapping[str, RecordedRun] | None = None,
    encoder: Path | None = None,
    *,
    is_quick: bool = False,
) -> list[Contender]:
    """List all contenders in the order of the table; `runs` are the user's own engines, by name."""
    ours = _make_ours(benchmark)
    engines = [_make_engine(name, run, benchmark) for name, run in (runs or {}).items()]
    baselines = list_baselines(benchmark, vocabularies, encoder, is_quick=is_quick)
    lexical = find_lexical(baselines)
    beside = engines or ([lexical] if lexical is not None else [])
    fusions = [_fuse(ours, other) for other in beside]
    return [ours, *engines, *fusions, *_make_parts(ours, benchmark), *baselines]


def find_lexical(contenders: Iterable[Contender]) -> Contender | None:
    """Return the best lexical search that can run: BM25 over stems, else the paper's."""
    present = {contender.name: contender for contender in contenders if not contender.absent}
    return present.get(STEMMED, present.get(LEXICAL))


def _make_ours(benchmark: Benchmark) -> Contender:
    """Make our default: the match set, of all the parts that the configuration has."""
    config = benchmark.config
    if config.parts == ("tree",):  # which is a row of its own
        config = replace(config, parts=PARTS)

    def recipe(_: Path) -> Matcher:
        return train(benchmark.train, benchmark.catalog, config)

    return of_kind(OURS, asdict(config), recipe, group="ours", is_stored=True)


def _make_parts(ours: Contender, benchmark: Benchmark) -> list[Contender]:
    """Make each part of the match set alone, and all parts but each; none is trained again."""
    has_titles = benchmark.catalog is not None
    parts = [p for p in ours.config["parts"] if has_titles or p not in TITLE_PARTS]
    absent = {part: NO_CATALOG for part in ours.config["parts"] if part not in parts}
    alone = [
        _choose_parts(ours, f"{OURS}_{part}", f"{part.capitalize()} alone", (part,), "part",
                      absent.get(part, ""))
        for part in ours.config["parts"]
    ]  # fmt: skip
    without = [
        _choose_parts(ours, f"{OURS}_without_{part}", f"without {part}",
                      tuple(p for p in parts if p != part), "ablation", absent.get(part, ""))
        for part in (ours.config["parts"] if len(parts) > 1 else ())
    ]  # fmt: skip
    return [*alone, *without]


def _choose_parts(
    ours: Contender, name: str, title: str, parts: tuple[str, ...], group: Group, absent: str
) -> Contender:
    """Return the match set with some of its parts, under the re-ranker that was fitted to them."""

    def recipe(models: Path) -> Matcher:
        return MatchSet.load(models / OURS).only(parts)

    config = {"parts": parts, "of": ours.config}
    return Contender(name, OURS, title, config, recipe, group, needs=(OURS,), absent=absent)


def _make_engine(name: str, run: RecordedRun, benchmark: Benchmark) -> Contender:
    """Return what an engine of the user's own answered."""
    queries = benchmark.qrels.queries
    n_missing = len(queries) - int(np.count_nonzero(run.has(queries)))
    if n_missing == len(queries):
        raise DataError(
            f"a run must answer test queries; got none of the {len(queries):,} in {name!r}"
        )
    note = f"{n_missing:,} of {len(queries):,} test queries are not in its file: empty answers"
    config = {"run": make_digest(run.query_hashes, *run.answers.arrays, run.products.ids)}
    return Contender(
        f"{RecordedRun.kind}_{name}",
        RecordedRun.kind,
        name,
        config,
        lambda _: run,
        "engine",
        is_stored=True,
        is_timed=False,
        note=note if n_missing else "",
    )


def _fuse(ours: Contender, other: Contender) -> Contender:
    """Fuse our match set and another matcher."""

    def recipe(models: Path) -> Matcher:
        parts = [load(models / each.name) for each in (ours, other)]
        return Fusion(parts, names=[ours.name, other.name])

    return Contender(
        f"{Fusion.kind}_rrf_{other.name}",
        Fusion.kind,
        f"{ours.title} + {other.title}, reciprocal ranks",
        {"method": "rrf", "of": [ours.config, other.config]},
        recipe,
        "fusion",
        is_timed=other.is_timed,
        needs=(ours.name, other.name),
    )
