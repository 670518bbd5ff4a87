"""Tasks of a match set: what does each part read, and what does it make?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from matchset import _native
from matchset.config import TrainConfig
from matchset.data.catalog import Catalog
from matchset.errors import DataError
from matchset.learn.fit_reranker import fit_reranker
from matchset.learn.held_kinds import ELSEWHERE, RECENT, HeldBack
from matchset.learn.hold_back import hold_back
from matchset.learn.labeled_candidates import LabeledCandidates, label_candidates
from matchset.learn.training_data import TrainingData, TrainingPairs, find_pairs
from matchset.learn.two_tower import TowerState, TwoTowerConfig, train_two_tower
from matchset.matrices import Csr
from matchset.model.added import index_added
from matchset.model.heirs import find_heirs
from matchset.model.lexical import index_titles
from matchset.model.match_set_model import Bounds, MatchSetModel, change_bounds
from matchset.model.neighbors import remember_queries
from matchset.model.reranker import LEAST_NEW, Reranker, default_reranker
from matchset.strings import Strings
from matchset.work.tasks import Job, Results

INPUT, RERANKER = "input", "tune/reranker"  # tasks
_LEAST_SHOWN = 2 / 3  # of the products, in a log with impressions


# Candidates of validation queries; share of new products among the answers.
Examination: TypeAlias = tuple[LabeledCandidates, float]


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


def learn_reranker(
    rounds: Sequence[Examination], parts: tuple[str, ...], *, threads: int
) -> Reranker:
    """Fit the re-ranker to the candidates of all held-back queries."""
    labeled = LabeledCandidates.join([labeled for labeled, _ in rounds])
    return fit_reranker(labeled, parts, new_share=rounds[0][1], threads=threads)


def describe_held(
    model: MatchSetModel,
    data: TrainingData,
    held: HeldBack,
    catalog: Catalog | None,
    *,
    threads: int,
) -> Examination:
    """Describe the candidates of held-back queries, and measure the share of new products.

    A product that no row of the log has was perhaps not on sale yet. It is no wrong answer, or all
    new products would seem worse than they are. Where many products are like that, most were
    never wanted: there they count. Of recent queries, products count that were not held back.
    """
    ids = data.products.ids
    if len(held.left) and catalog is not None and {"lexical", "towers"} & set(model.parts):
        ids = Strings.concatenate([ids, held.left])
        model = _add_left(model, data, catalog, held.left, threads=threads)
    label_of = ids.index_of(held.products).astype(np.int32)
    pairs = replace(held.pairs, indices=label_of[held.pairs.indices])
    is_cold = np.append(data.n_queries_of == 0, np.ones(len(ids) - len(data.products), np.bool_))
    share = _measure_new(pairs, held, is_cold)
    bounds = replace(model.bounds, cold_share=share)
    labeled = label_candidates(
        model.describe(data.vectorizer.native, held.queries, bounds=bounds, threads=threads),
        pairs,
        held.kinds,
        n_days=held.n_days,
    )
    is_out = (held.cold.index_of(ids) >= 0)[labeled.candidates.labels]
    is_out &= (held.kinds == RECENT)[labeled.row]
    if held.shown is not None:
        is_shown = held.shown.index_of(ids) >= 0
        if is_shown.mean() >= _LEAST_SHOWN:
            is_out |= ~is_shown[labeled.candidates.labels]
    return labeled.keep(~is_out).drop_others(), share


def _measure_new(pairs: Csr, held: HeldBack, is_cold: NDArray[np.bool_]) -> float:
    """Share of products without a past query among answers: of the recent days, or assumed.

    Where time can't tell, it is assumed to be that of products which the log lacks.
    """
    share = held.share_unseen
    if held.is_by_time:
        is_asked = (pairs.indices >= 0) & (pairs.data != ELSEWHERE)
        is_asked &= (held.kinds == RECENT)[pairs.row_of_entry]
        share = float(is_cold[pairs.indices[is_asked]].mean()) if is_asked.any() else 0.0
    return round(min(max(share, LEAST_NEW), 1 - LEAST_NEW), 4)


def _add_left(
    model: MatchSetModel, data: TrainingData, catalog: Catalog, left: Strings, *, threads: int
) -> MatchSetModel:
    """The model with products that were held back, as if they came after the training."""
    rows = catalog.ids.index_of(left)
    texts = [each.take(rows) for each in (catalog.titles, catalog.more_text) if each is not None]
    added = index_added(
        tuple(texts),
        data.vectorizer,
        lexical=model.lexical,
        towers=model.towers,
        is_warm=model.popularity > 0,
        is_gone=np.zeros(len(data.products), dtype=np.bool_),
        threads=threads,
    )
    return replace(model, added=added)
