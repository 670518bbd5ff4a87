"""The recipe: how does a search log become a match set?

The parts are trained twice: first on a log from which some positives are held back, to learn from
those how to weigh the parts, then on everything. XR-Linear is the tree alone, and is trained once.
`step` keeps what each function returns, so that a training that was interrupted goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version

import numpy as np

from matchset import _native
from matchset.config import TrainConfig, count_threads
from matchset.data.catalog import NO_CATALOG_REPORT, Catalog
from matchset.data.log import Log
from matchset.data.read_report import NO_REPORT
from matchset.errors import DataError
from matchset.learn.clusters import cluster_vectors
from matchset.learn.examine import Examination, describe_held, learn_reranker
from matchset.learn.hold_back import count_rounds, hold_back
from matchset.learn.layers import warn_of_tree
from matchset.learn.train_tree import TreePart, train_tree
from matchset.learn.training_data import NothingToLearnError, TrainingData, find_pairs
from matchset.learn.two_tower import TowerState, TwoTowerConfig, train_two_tower
from matchset.learn.vectorize import vectorize
from matchset.model.heirs import find_heirs
from matchset.model.lexical import LexicalIndex, index_titles
from matchset.model.match_set_model import Bounds, MatchSetModel, change_bounds
from matchset.model.neighbors import PastQueries, remember_queries
from matchset.model.reranker import Reranker, default_reranker
from matchset.model.towers import TowerIndex, encode_products
from matchset.storage.file import VERSION
from matchset.work.cuts import CUTS, Cuts
from matchset.work.pools import EngineName, check_engine
from matchset.work.steps import Progress, Steps, ignore, open_steps
from matchset.work.work_folder import make_key, open_work


@dataclass(frozen=True, slots=True, eq=False)
class TowerPart:
    """The index of the two towers, and what is told of their training."""

    index: TowerIndex
    n_sampled: int | None  # pairs that they saw, where these are a sample


@dataclass(frozen=True, slots=True, eq=False)
class TrainedParts:
    """The parts of a match set, and what they were learned from; None: not wanted."""

    data: TrainingData
    tree: TreePart | None
    towers: TowerPart | None
    lexical: LexicalIndex | None
    neighbors: PastQueries | None


@dataclass(frozen=True, slots=True, eq=False)
class TrainedMatchSet:
    """A model, and the parts that it was made of."""

    model: MatchSetModel
    parts: TrainedParts

    @property
    def data(self) -> TrainingData:
        """What it was learned from."""
        return self.parts.data


def train_match_set(
    log: Log,
    catalog: Catalog | None,
    config: TrainConfig,
    *,
    work: str | os.PathLike[str] | None = None,
    engine: EngineName = "threads",
    progress: Callable[[Progress], None] = ignore,
    cuts: Cuts = CUTS,
) -> TrainedMatchSet:
    """Train the parts, and learn how to weigh them if there are several.

    With a `work` folder every step is kept there, and a training that was interrupted goes on where
    it was. Its tasks can then run in other processes, or on the machines of a Ray cluster.
    """
    check_engine(engine, work)
    with ExitStack() as stack:
        folder = None
        if work is not None:
            folder = stack.enter_context(open_work(work, describe(log, catalog, config, cuts)))
        threads = count_threads(config.learn.threads)
        steps = open_steps(
            threads=threads, folder=folder, engine=engine, progress=progress, cuts=cuts
        )
        return learn(stack.enter_context(steps), log, catalog, config)


def learn(step: Steps, log: Log, catalog: Catalog | None, config: TrainConfig) -> TrainedMatchSet:
    """Learn how to weigh the parts, train them on everything, and put them together."""
    reranker = default_reranker("tune is off", config.parts)
    if config.tune and config.parts != ("tree",):
        reranker = tune(step, log, catalog, config)
    parts = train_parts(step.under("final/"), log, catalog, config)
    if parts.tree is not None:
        tree = parts.tree
        n_classifiers = sum(tree.packed.sizes)
        warn_of_tree(tree.n_unconverged, sum(tree.n_weights), n_classifiers, config.learn)
    model = assemble(parts, reranker, new_share=config.new_share, threads=step.threads)
    return TrainedMatchSet(model, parts)


def tune(step: Steps, log: Log, catalog: Catalog | None, config: TrainConfig) -> Reranker:
    """Hold positives back, train on the rest, and find the re-ranker that puts them first."""
    rounds, parts = [], find_parts(config, catalog)
    for number in range(count_rounds(log)):
        examination = examine(step.under(f"tune{number}/"), number, log, catalog, config)
        if examination is None:
            reason = "nothing is left to train on when validation queries are held back"
            return default_reranker(reason, parts)
        rounds.append(examination)
    return step("tune", learn_reranker, rounds, parts, threads=step.threads)


def examine(
    step: Steps, number: int, log: Log, catalog: Catalog | None, config: TrainConfig
) -> Examination | None:
    """Describe what parts propose for the positives held back from them; None: nothing is left."""
    threads = step.threads
    held = step("hold back", hold_back, log, catalog, config, number=number, threads=threads)
    rest = None if catalog is None else catalog.without(held.left)
    try:
        parts = train_parts(step, held.rest, rest, config)
    except NothingToLearnError:
        return None
    model = assemble(parts, default_reranker(""), threads=threads)
    return step("examine", describe_held, model, parts.data, held, catalog, threads=threads)


def train_parts(
    step: Steps, log: Log, catalog: Catalog | None, config: TrainConfig
) -> TrainedParts:
    """Train each part on a log and its catalog.

    Beside the towers, which read the titles, the tree needs none: it finds as much, and takes a
    third of the time.
    """
    wanted = find_parts(config, catalog)
    pairs = step("pairs", find_pairs, log, catalog, config, threads=step.threads)
    data = vectorize(step, pairs, config)
    tree = towers = lexical = neighbors = None
    if "tree" in wanted:
        examples = data.queries_alone if "towers" in wanted else data.examples
        tree = train_tree(step, examples, config.learn, config.precision)
    if "towers" in wanted:
        towers = train_towers(step, data, config)
    if "lexical" in wanted:
        lexical = index_lexical(step, data, towers)
    if "neighbors" in wanted:
        neighbors = remember_pairs(step, data, config)
    return TrainedParts(data, tree, towers, lexical, neighbors)


def train_towers(step: Steps, data: TrainingData, config: TrainConfig) -> TowerPart:
    """Train embeddings of n-grams, and put the vectors of titles into inverted lists."""
    towers = step(
        "fit",
        train_two_tower,
        data.X,
        data.titles,
        data.Y,
        TwoTowerConfig(seed=config.learn.seed, threads=step.threads),
        progress=step.report("fit"),
        start=step.read_state("fit", TowerState),
        save=partial(step.save_state, "fit"),
        cuts=step.cuts,
    )
    row_of, table, vectors = towers.row_of, towers.table, towers.vectors
    if data.X_more is not None:
        texts = [(X.indptr, X.indices) for X in (data.titles, data.X_more)]
        vectors = step("encode", encode_products, texts, row_of, table, threads=step.threads)
    lists = cluster_vectors(step, vectors, seed=config.learn.seed)
    return TowerPart(TowerIndex.of(row_of, table, lists), towers.n_sampled)


def index_lexical(step: Steps, data: TrainingData, towers: TowerPart | None) -> LexicalIndex:
    """Index the words of titles, in the order of the inverted lists if there are some."""
    order = None if towers is None else towers.index.lists.labels
    vocabulary = data.vectorizer.vocabulary
    return step("lexical", index_titles, data.titles, vocabulary, X_more=data.X_more, order=order)


def remember_pairs(step: Steps, data: TrainingData, config: TrainConfig) -> PastQueries:
    """Remember what past queries led to."""
    return step(
        "neighbors",
        remember_queries,
        data.positives.queries.hashes(),
        data.X,
        data.Y,
        n_known=data.vectorizer.vocabulary.n_known,
        frequency=data.counts,
        most=config.max_past_queries,
    )


def assemble(
    parts: TrainedParts, reranker: Reranker, *, new_share: float | None = None, threads: int
) -> MatchSetModel:
    """Make the model of the parts; the re-ranker knows the share of new products if not set."""
    popularity, recent = (
        _native.log_fixed(1 + counts.astype(np.float64)).astype(np.float32)
        for counts in (parts.data.n_queries_of, parts.data.recent)
    )
    tree = None if parts.tree is None else parts.tree.packed
    towers = None if parts.towers is None else parts.towers.index
    heirs = None
    if tree is not None and towers is not None:
        heirs = find_heirs(towers, popularity > 0, threads=threads)
    return MatchSetModel(
        popularity,
        recent,
        reranker,
        tree=tree,
        towers=towers,
        lexical=parts.lexical,
        neighbors=parts.neighbors,
        heirs=heirs,
        bounds=change_bounds(Bounds(cold_share=reranker.new_share), new_share=new_share),
    )


def find_parts(config: TrainConfig, catalog: Catalog | None) -> tuple[str, ...]:
    """Return the parts that can be trained: two of them read titles."""
    has_titles = catalog is not None and config.titles == "instances"
    parts = tuple(p for p in config.parts if has_titles or p in ("tree", "neighbors"))
    if not parts:
        raise DataError(f"{' and '.join(config.parts)} must have titles from a catalog; got none")
    return parts


def describe(log: Log, catalog: Catalog | None, config: TrainConfig, cuts: Cuts) -> str:
    """Return the key of all that decides the results of the steps."""
    sold = None if catalog is None else replace(catalog, report=NO_CATALOG_REPORT)
    settings = asdict(config)
    settings["learn"].pop("threads")
    made_by = version("matchset"), VERSION
    return make_key((replace(log, report=NO_REPORT), sold), settings, asdict(cuts), made_by)
