"""Tasks of a match set: what does each part read, and what does it make?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from matchset import _native
from matchset.config import TrainConfig
from matchset.errors import DataError
from matchset.learn.fit_reranker import fit_reranker
from matchset.learn.hold_back import HeldBack, hold_back
from matchset.learn.labeled_candidates import label_candidates
from matchset.learn.training_data import TrainingData, TrainingPairs, find_pairs
from matchset.learn.two_tower import TowerState, TwoTowerConfig, train_two_tower
from matchset.matrices import Csr
from matchset.model.lexical import index_titles
from matchset.model.match_set_model import MatchSetModel
from matchset.model.neighbors import remember_queries
from matchset.model.reranker import Reranker, default_reranker
from matchset.work.tasks import Job, Results

INPUT, HELD, RERANKER = "input", "tune/held", "tune/reranker"  # tasks
_LEAST_SHOWN = 2 / 3  # of the products, in a log with impressions
_FITTED = 3000  # validation queries whose candidates are described, at most: half a gigabyte


@dataclass(frozen=True, slots=True)
class PartSource:
    """What the parts of a match set are trained on, and where their results go."""

    prefix: str  # of the names of its stages
    is_tuning: bool  # whether positives are held back from the log
    parts: tuple[str, ...]

    @property
    def pairs(self) -> str:
        """The task that finds the pairs to learn from."""
        return self.prefix + "positives"

    @property
    def data(self) -> str:
        """The task that makes the matrices to train on."""
        return self.prefix + "data"


def hold_positives(job: Job, config: TrainConfig) -> Mapping[str, Any]:
    """A log without some of its positives, and those."""
    return {"held": hold_back(job.results.get(INPUT, "log"), config, threads=job.threads)}


def find_positives(job: Job, source: PartSource, config: TrainConfig) -> Mapping[str, Any]:
    """The pairs to learn from, value by value; nothing if holding back has left nothing."""
    log = job.results.get(HELD, "held").rest if source.is_tuning else job.results.get(INPUT, "log")
    try:
        pairs = find_pairs(log, job.results.get(INPUT, "catalog"), config, threads=job.threads)
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


def assemble(results: Results, source: PartSource, reranker: Reranker) -> MatchSetModel:
    """The model that the parts make."""
    found = {"tree": "pack", "towers": "encode", "lexical": "lexical", "neighbors": "neighbors"}
    parts = {part: results.get(source.prefix + found[part], part) for part in source.parts}
    popularity, recent = (
        _native.log_fixed(1 + results.get(source.pairs, name).astype(np.float64)).astype(np.float32)
        for name in ("n_queries_of", "recent")
    )
    return MatchSetModel(popularity, recent, reranker, **parts)


def weigh_parts(job: Job, source: PartSource, config: TrainConfig) -> Mapping[str, Any]:
    """The re-ranker that puts held-back positives first."""
    if not find_data(job.results, source):
        reason = "nothing is left to train on when validation queries are held back"
        return {"reranker": default_reranker(reason)}
    model, data = (
        assemble(job.results, source, default_reranker("")),
        read_data(job.results, source),
    )
    held = job.results.get(HELD, "held")
    return {"reranker": learn_reranker(model, data, held, config, threads=job.threads)}


def learn_reranker(
    model: MatchSetModel, data: TrainingData, held: HeldBack, config: TrainConfig, *, threads: int
) -> Reranker:
    """Describe the candidates of the held-back queries, and fit the re-ranker to them.

    A product that no row of the log has was perhaps not on sale yet. It is no wrong answer, or all
    new products would seem worse than they are. Where many products are like that, most were
    never wanted: there they count.
    """
    rows = np.random.default_rng(config.learn.seed).permutation(len(held.queries))[:_FITTED]
    label_of = data.products.ids.index_of(held.products).astype(np.int32)
    pairs = held.pairs.take(rows)
    wanted = Csr(pairs.indptr, label_of[pairs.indices], pairs.data, pairs.n_cols)
    queries = held.queries.take(rows)
    candidates = model.describe(data.vectorizer.native, queries, threads=threads)
    labeled = label_candidates(candidates, wanted, held.is_complete[rows], n_days=held.n_days)
    if held.shown is not None:
        is_shown = held.shown.index_of(data.products.ids) >= 0
        if is_shown.mean() >= _LEAST_SHOWN:
            labeled = replace(labeled, is_shown=is_shown[candidates.labels])
    return fit_reranker(labeled, model.parts, threads=threads)
