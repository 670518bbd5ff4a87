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
from importlib.metadata import version
from importlib.util import find_spec
from typing import get_args

import numpy as np

from matchset import _native
from matchset.config import TrainConfig, count_threads
from matchset.data.catalog import NO_CATALOG_REPORT, Catalog
from matchset.data.log import Log
from matchset.data.read_report import NO_REPORT
from matchset.errors import DataError, ParameterError, install_command
from matchset.learn.clusters import cluster_vectors
from matchset.learn.cuts import CUTS, Cuts
from matchset.learn.examine import Examination, describe_held, learn_reranker
from matchset.learn.hold_back import count_rounds, hold_back
from matchset.learn.train_tree import pack_tree, train_tree, warn_of_tree
from matchset.learn.training_data import NothingToLearnError, TrainingData, find_pairs
from matchset.learn.two_tower import TowerState, TwoTowerConfig, train_two_tower
from matchset.learn.vectorize import vectorize
from matchset.model.heirs import find_heirs
from matchset.model.lexical import LexicalIndex, index_titles
from matchset.model.match_set_model import Bounds, MatchSetModel, change_bounds
from matchset.model.neighbors import PastQueries, remember_queries
from matchset.model.packed import PackedTree
from matchset.model.reranker import Reranker, default_reranker
from matchset.model.towers import TowerIndex, encode_products
from matchset.storage.folders import VERSION
from matchset.work.pools import EngineName
from matchset.work.steps import Progress, Steps, ignore, open_steps
from matchset.work.work_folder import make_key, open_work


@dataclass(frozen=True, slots=True, eq=False)
class TrainedParts:
    """The parts of a match set, and what they were learned from; None: not wanted."""

    data: TrainingData
    tree: PackedTree | None = None
    towers: TowerIndex | None = None
    lexical: LexicalIndex | None = None
    neighbors: PastQueries | None = None
    n_weights: tuple[int, ...] = ()  # of each layer of the tree
    n_unconverged: int = 0  # classifiers of the tree
    n_sampled: int | None = None  # pairs that the towers saw, where they are a sample


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
        steps = open_steps(threads=threads, folder=folder, engine=engine, progress=progress)
        return learn(stack.enter_context(steps), log, catalog, config, cuts)


def learn(
    step: Steps, log: Log, catalog: Catalog | None, config: TrainConfig, cuts: Cuts = CUTS
) -> TrainedMatchSet:
    """Learn how to weigh the parts, train them on everything, and put them together."""
    reranker = default_reranker("tune is off", config.parts)
    if config.tune and config.parts != ("tree",):
        reranker = tune(step, log, catalog, config, cuts)
    parts = train_parts(step.under("final/"), log, catalog, config, cuts)
    if parts.tree is not None:
        warn_of_tree(parts.n_unconverged, sum(parts.n_weights), sum(parts.tree.sizes), config.learn)
    model = assemble(parts, reranker, new_share=config.new_share, threads=step.threads)
    return TrainedMatchSet(model, parts)


def tune(
    step: Steps, log: Log, catalog: Catalog | None, config: TrainConfig, cuts: Cuts
) -> Reranker:
    """Hold positives back, train on the rest, and find the re-ranker that puts them first."""
    rounds = []
    for number in range(count_rounds(log)):
        examination = examine(step.under(f"tune{number}/"), number, log, catalog, config, cuts)
        if examination is None:
            reason = "nothing is left to train on when validation queries are held back"
            return default_reranker(reason, find_parts(config, catalog))
        rounds.append(examination)
    parts = find_parts(config, catalog)
    return step.under("tune/")("tune", learn_reranker, rounds, parts, threads=step.threads)


def examine(
    step: Steps,
    number: int,
    log: Log,
    catalog: Catalog | None,
    config: TrainConfig,
    cuts: Cuts = CUTS,
) -> Examination | None:
    """Describe what parts propose for the positives held back from them; None: nothing is left."""
    threads = step.threads
    held = step("hold back", hold_back, log, catalog, config, number=number, threads=threads)
    try:
        rest = None if catalog is None else catalog.without(held.left)
        parts = train_parts(step, held.rest, rest, config, cuts)
    except NothingToLearnError:
        return None
    model = assemble(parts, default_reranker(""), threads=threads)
    return step("examine", describe_held, model, parts.data, held, catalog, threads=threads)


def train_parts(
    step: Steps, log: Log, catalog: Catalog | None, config: TrainConfig, cuts: Cuts = CUTS
) -> TrainedParts:
    """Train each part on a log and its catalog."""
    wanted, threads = find_parts(config, catalog), step.threads
    pairs = step("pairs", find_pairs, log, catalog, config, threads=threads)
    data = vectorize(step, pairs, config, cuts)
    parts = TrainedParts(data)
    if "tree" in wanted:
        parts = train_tree_part(step, parts, config, cuts, reads_titles="towers" not in wanted)
    if "towers" in wanted:
        parts = train_towers(step, parts, config, cuts)
    if "lexical" in wanted:
        order = None if parts.towers is None else parts.towers.lists.labels
        vocabulary, X_more = data.vectorizer.vocabulary, data.X_more
        lexical = step("lexical", index_titles, data.titles, vocabulary, X_more=X_more, order=order)
        parts = replace(parts, lexical=lexical)
    if "neighbors" in wanted:
        neighbors = step(
            "neighbors",
            remember_queries,
            data.positives.queries.hashes(),
            data.X,
            data.Y,
            n_known=data.vectorizer.vocabulary.n_known,
            frequency=data.counts,
            most=config.max_past_queries,
        )
        parts = replace(parts, neighbors=neighbors)
    return parts


def train_tree_part(
    step: Steps, parts: TrainedParts, config: TrainConfig, cuts: Cuts, *, reads_titles: bool
) -> TrainedParts:
    """Cluster the products into a tree, solve it layer by layer, and pack its weights.

    Beside the towers, which read the titles, the tree needs none: it finds as much, and takes a
    third of the time.
    """
    examples = parts.data.examples
    if not reads_titles:
        examples = examples.head(len(parts.data.positives.queries))
    solved = train_tree(step, examples, config.learn, cuts)
    tree = pack_tree(step, solved, examples, config.precision, cuts)
    n_unconverged = sum(solved.n_unconverged)
    return replace(parts, tree=tree, n_weights=solved.n_weights, n_unconverged=n_unconverged)


def train_towers(step: Steps, parts: TrainedParts, config: TrainConfig, cuts: Cuts) -> TrainedParts:
    """Train embeddings of n-grams, and put the vectors of titles into inverted lists."""
    data, seed, threads = parts.data, config.learn.seed, step.threads
    towers = step(
        "fit",
        train_two_tower,
        data.X,
        data.titles,
        data.Y,
        TwoTowerConfig(seed=seed, threads=threads),
        progress=step.report("fit"),
        start=step.read_state("fit", TowerState),
        save=lambda state: step.save_state("fit", state),
        cuts=cuts,
    )
    vectors = towers.vectors
    if data.X_more is not None:
        texts = [(X.indptr, X.indices) for X in (data.titles, data.X_more)]
        given = (texts, towers.row_of, towers.table)
        vectors = step("encode", encode_products, *given, threads=threads)
    lists = cluster_vectors(step, vectors, seed=seed, cuts=cuts)
    index = TowerIndex.of(towers.row_of, towers.table, lists)
    return replace(parts, towers=index, n_sampled=towers.n_sampled)


def assemble(
    parts: TrainedParts, reranker: Reranker, *, new_share: float | None = None, threads: int
) -> MatchSetModel:
    """Make the model of the parts; the re-ranker knows the share of new products if not set."""
    popularity, recent = (
        _native.log_fixed(1 + counts.astype(np.float64)).astype(np.float32)
        for counts in (parts.data.n_queries_of, parts.data.recent)
    )
    heirs = None
    if parts.tree is not None and parts.towers is not None:
        heirs = find_heirs(parts.towers, popularity > 0, threads=threads)
    return MatchSetModel(
        popularity,
        recent,
        reranker,
        tree=parts.tree,
        towers=parts.towers,
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


def check_engine(engine: str, work: str | os.PathLike[str] | None) -> None:
    """Raise where the tasks cannot run, before a long log is read."""
    if engine not in get_args(EngineName):
        rule = f"must be threads, processes or ray; got {engine!r}"
        raise ParameterError(rule, parameter="engine")
    if engine != "threads" and work is None:
        rule = f"must be threads without a work folder; got {engine!r}"
        raise ParameterError(rule, parameter="engine")
    if engine == "ray" and find_spec("ray") is None:
        rule = f"'ray' needs Ray; {install_command('ray')} installs it"
        raise ParameterError(rule, parameter="engine")
