"""Tasks of a match set: what does each part read, and what does it make?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from matchset import _native
from matchset.config import TrainConfig
from matchset.errors import DataError
from matchset.learn.examine import describe_held, learn_reranker
from matchset.learn.hold_back import hold_back
from matchset.learn.training_data import TrainingData, TrainingPairs, find_pairs
from matchset.learn.two_tower import TowerState, TwoTowerConfig, train_two_tower
from matchset.matrices import Csr
from matchset.model.heirs import find_heirs
from matchset.model.lexical import index_titles
from matchset.model.match_set_model import Bounds, MatchSetModel, change_bounds
from matchset.model.neighbors import remember_queries
from matchset.model.reranker import Reranker, default_reranker
from matchset.work.tasks import Job, Results

INPUT, RERANKER = "input", "tune/reranker"  # tasks


@dataclass(frozen=True, slots=True)
class PartSource:
    """What the parts of a match set are trained on, and where their results go."""

    prefix: str  # of the names of its stages
    is_tuning: bool  # whether positives are held back from the log
    parts: tuple[str, ...]

    round: int = 0  # of holding back

    @property
    def held(self) -> str:
        """The task that holds positives back."""
        return self.prefix + "held"

    @property
    def pairs(self) -> str:
        """The task that finds the pairs to learn from."""
        return self.prefix + "positives"

    @property
    def data(self) -> str:
        """The task that makes the matrices to train on."""
        return self.prefix + "data"


def hold_positives(job: Job, source: PartSource, config: TrainConfig) -> Mapping[str, Any]:
    """A log without some of its positives, and those."""
    log, catalog = (job.results.get(INPUT, name) for name in ("log", "catalog"))
    held = hold_back(log, catalog, config, number=source.round, threads=job.threads)
    return {"held": held}


def find_positives(job: Job, source: PartSource, config: TrainConfig) -> Mapping[str, Any]:
    """The pairs to learn from, value by value; nothing if holding back has left nothing."""
    log, catalog = (job.results.get(INPUT, name) for name in ("log", "catalog"))
    if source.is_tuning:
        held = job.results.get(source.held, "held")
        log, catalog = held.rest, catalog and catalog.without(held.left)
    try:
        pairs = find_pairs(log, catalog, config, threads=job.threads)
    except DataError:
        if not source.is_tuning:
            raise
        return {"n_queries": 0}
    values = {field.name: getattr(pairs, field.name) for field in fields(pairs)}
    return {"n_queries": len(pairs.queries), **values}


def find_data(results: Results, source: PartSource) -> bool:
    """Whether there is something to train on."""
    return bool(results.get(source.pairs, "n_queries"))


def read_pairs(results: Results, source: PartSource) -> TrainingPairs:
    """The pairs to learn from."""
    names = [field.name for field in fields(TrainingPairs)]
    return TrainingPairs(**{name: results.get(source.pairs, name) for name in names})


def read_data(results: Results, source: PartSource) -> TrainingData:
    """The training data."""
    task_of = dict.fromkeys((field.name for field in fields(TrainingData)), source.data)
    task_of |= dict.fromkeys((field.name for field in fields(TrainingPairs)), source.pairs)
    return TrainingData(**{name: results.get(task, name) for name, task in task_of.items()})


def remember(job: Job, source: PartSource, config: TrainConfig) -> Mapping[str, Any]:
    """The query neighbors."""
    data = read_data(job.results, source)
    past = remember_queries(
        data.positives.queries.hashes(),
        data.X,
        data.Y,
        n_known=data.vectorizer.vocabulary.n_known,
        frequency=data.counts,
        most=config.max_past_queries,
    )
    return {"neighbors": past}


def fit_towers(job: Job, source: PartSource, config: TrainConfig) -> Mapping[str, Any]:
    """The embeddings, and the vectors of titles."""
    data, name = read_data(job.results, source), source.prefix + "fit"
    saved = job.results.read_state(name)
    start = None
    if saved is not None:
        arrays = (np.array(saved[key]) for key in ("table", "squares", "losses"))
        start = TowerState(saved["n_done"], *arrays)
    towers = train_two_tower(
        data.X,
        titles_of(data),
        data.Y,
        TwoTowerConfig(seed=config.learn.seed, threads=job.threads),
        progress=job.report,
        start=start,
        save=lambda state: job.results.save_state(
            name, {field.name: getattr(state, field.name) for field in fields(state)}
        ),
    )
    names = ("row_of", "table", "vectors", "n_sampled")
    return {name: getattr(towers, name) for name in names}


def index_lexical(job: Job, source: PartSource) -> Mapping[str, Any]:
    """The lexical index, in the order of the inverted lists if there are some."""
    data, order = read_data(job.results, source), None
    if "towers" in source.parts:
        order = job.results.get(source.prefix + "encode", "towers").lists.labels
    vocabulary = data.vectorizer.vocabulary
    return {"lexical": index_titles(titles_of(data), vocabulary, X_more=data.X_more, order=order)}


def titles_of(data: TrainingData) -> Csr:
    """The rows of the titles, for parts that read them."""
    if data.X_titles is None:
        raise RuntimeError("parts that read titles must have some")
    return data.X_titles


def assemble(
    results: Results,
    source: PartSource,
    reranker: Reranker,
    *,
    new_share: float | None = None,
    threads: int,
) -> MatchSetModel:
    """Make the model of the parts; the re-ranker knows the share of new products if not set."""
    found = {"tree": "pack", "towers": "encode", "lexical": "lexical", "neighbors": "neighbors"}
    parts = {part: results.get(source.prefix + found[part], part) for part in source.parts}
    popularity, recent = (
        _native.log_fixed(1 + results.get(source.pairs, name).astype(np.float64)).astype(np.float32)
        for name in ("n_queries_of", "recent")
    )
    heirs = None
    if {"tree", "towers"} <= set(parts):
        heirs = find_heirs(parts["towers"], popularity > 0, threads=threads)
    bounds = change_bounds(Bounds(cold_share=reranker.new_share), new_share=new_share)
    return MatchSetModel(popularity, recent, reranker, heirs=heirs, bounds=bounds, **parts)


def weigh_parts(job: Job, sources: Sequence[PartSource]) -> Mapping[str, Any]:
    """The re-ranker that puts held-back positives first."""
    catalog = job.results.get(INPUT, "catalog")
    rounds = []
    for source in sources:
        if not find_data(job.results, source):
            reason = "nothing is left to train on when validation queries are held back"
            return {"reranker": default_reranker(reason, source.parts)}
        model = assemble(job.results, source, default_reranker(""), threads=job.threads)
        data, held = read_data(job.results, source), job.results.get(source.held, "held")
        rounds.append(describe_held(model, data, held, catalog, threads=job.threads))
    return {"reranker": learn_reranker(rounds, sources[0].parts, threads=job.threads)}
