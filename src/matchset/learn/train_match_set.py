"""Learning a match set: how do its parts come from a log, and what decides between them?

The parts are trained twice: first on a log from which some positives are held back, to learn from
those how to weigh the parts, then on everything. Neither needs the other before the end. XR-Linear
is the tree alone, and is trained once.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from matchset.config import TrainConfig, count_threads
from matchset.data.catalog import NO_CATALOG_REPORT, Catalog
from matchset.data.log import Log
from matchset.data.read_report import NO_REPORT
from matchset.errors import DataError, ParameterError, install_command
from matchset.learn.encode_tasks import encode_stages
from matchset.learn.forecast import Forecast
from matchset.learn.hold_back import count_rounds
from matchset.learn.match_set_tasks import (
    INPUT,
    RERANKER,
    PartSource,
    assemble,
    find_data,
    fit_towers,
    hold_positives,
    index_lexical,
    read_data,
    remember,
    weigh_parts,
)
from matchset.learn.text_tasks import data_stages
from matchset.learn.train_tree import Progress, pack_stages, tell, tree_stages
from matchset.learn.training_data import TrainingData
from matchset.learn.tree_tasks import TreeSource, warn_of_tree
from matchset.model.match_set_model import MatchSetModel
from matchset.model.reranker import default_reranker
from matchset.storage.folders import VERSION
from matchset.work.engines import ProcessEngine, ThreadEngine
from matchset.work.forms import encode
from matchset.work.ray_engine import RayEngine
from matchset.work.results import MemoryResults, WorkFolder, open_work
from matchset.work.tasks import Engine, Results, Run, Stage, Task, run_stages

OnProgress = Callable[[Progress], None]
EngineName: TypeAlias = Literal["threads", "processes", "ray"]
_PASSING = ("embed", "levels", "solve", "fit")  # stages whose results only the next stages read


@dataclass(frozen=True, slots=True, eq=False)
class TrainedMatchSet:
    """A model, what it was learned from, and what is told of its parts."""

    model: MatchSetModel
    data: TrainingData
    n_weights: tuple[int, ...] = ()  # of each layer of the tree
    n_unconverged: int = 0  # classifiers of the tree
    n_sampled: int | None = None  # pairs that the towers saw, where they are a sample


def train_match_set(
    log: Log,
    catalog: Catalog | None,
    config: TrainConfig,
    *,
    work: str | os.PathLike[str] | None = None,
    engine: EngineName = "threads",
    progress: OnProgress = lambda _: None,
) -> TrainedMatchSet:
    """Train the parts, and learn how to weigh them if there are several.

    With a `work` folder every step is kept there, and a training that was interrupted goes on where
    it was. Its tasks can then run in other processes, or on the machines of a Ray cluster.
    """
    check_engine(engine, work)
    parts = find_parts(config, has_titles=catalog is not None and config.titles == "instances")
    final = PartSource("final/", is_tuning=False, parts=parts)
    stages = part_stages(final, config)
    is_tuned = config.tune and config.parts != ("tree",)
    if is_tuned:
        stages = [*tuning_stages(parts, config, count_rounds(log)), *stages]
    with _open_results(work, log, catalog, config) as results:
        if not results.has(INPUT):
            results.put(INPUT, {"log": log, "catalog": catalog})
        threads = count_threads(config.learn.threads)
        forecast = Forecast(stages, config, threads=threads)
        run_stages(
            stages,
            results,
            _start(engine, results, threads),
            kept={RERANKER, *(name for name in _lasting(stages) if name.startswith("final/"))},
            on_done=lambda done: tell(done, progress, forecast.hear(done, results)),
        )
        untuned = default_reranker("tune is off", config.parts)
        reranker = results.get(RERANKER, "reranker") if is_tuned else untuned
        model = assemble(results, final, reranker, new_share=config.new_share, threads=threads)
        data = read_data(results, final)
        n_sampled = results.get("final/encode", "n_sampled") if "towers" in parts else None
        if model.tree is None:
            return TrainedMatchSet(model, data, n_sampled=n_sampled)
        told = (results.get("final/pack", name) for name in ("n_weights", "n_unconverged"))
        n_weights, n_unconverged = told
        sizes = sum(model.tree.sizes)
        warn_of_tree(sum(n_unconverged), sum(n_weights), sizes, config.learn)
        return TrainedMatchSet(model, data, n_weights, sum(n_unconverged), n_sampled)


def train_parts(log: Log, catalog: Catalog | None, config: TrainConfig) -> TrainedMatchSet:
    """Train each part of a match set, without learning how to weigh them."""
    return train_match_set(log, catalog, replace(config, tune=False))


def find_parts(config: TrainConfig, *, has_titles: bool) -> tuple[str, ...]:
    """The parts that can be trained: two of them read titles."""
    parts = tuple(p for p in config.parts if has_titles or p in ("tree", "neighbors"))
    if not parts:
        raise DataError(f"{' and '.join(config.parts)} must have titles from a catalog; got none")
    return parts


def tuning_stages(parts: tuple[str, ...], config: TrainConfig, n_rounds: int) -> list[Stage]:
    """The stages that end with a re-ranker: the parts are trained once in each round."""
    prefixes = ["tune/", *(f"tune-{number + 1}/" for number in range(1, n_rounds))]
    sources = [
        PartSource(prefix, is_tuning=True, parts=parts, round=number)
        for number, prefix in enumerate(prefixes)
    ]
    stages: list[Stage] = []
    for source in sources:
        given = {"source": source, "config": config}
        stages.append(Stage.of(Task(source.held, hold_positives, given, is_wide=True), INPUT))
        stages += part_stages(source, config)
    task = Task(RERANKER, weigh_parts, {"sources": sources}, is_wide=True)
    return [*stages, Stage.of(task, *_lasting(stages))]


def _lasting(stages: Sequence[Stage]) -> list[str]:
    """The stages whose results a model is made of; a single step of a stage is none of them."""
    names = [stage.name for stage in stages if "." not in stage.name]
    return [name for name in names if name.rpartition("/")[2] not in _PASSING]


def part_stages(source: PartSource, config: TrainConfig) -> list[Stage]:
    """The stages of all parts; narrow ones stand together, so that they share the threads."""
    p, data, parts = source.prefix, source.data, source.parts

    def stage(name: str, run: Run, *needs: str, is_wide: bool = False, **given: Any) -> Stage:
        return Stage.of(Task(p + name, run, {"source": source, **given}, is_wide=is_wide), *needs)

    trees: list[Stage] = []
    towers: list[Stage] = []
    others: list[Stage] = []
    if "tree" in parts:
        # Beside the towers, which read the titles, the tree needs none: it finds as much, and takes
        # a third of the time.
        tree = TreeSource(data, p, reads_titles="towers" not in parts)
        trees = tree_stages(tree, config.learn)
        trees += pack_stages(tree, config.learn, config.precision)
    if "towers" in parts:
        fit = stage("fit", fit_towers, data, is_wide=True, config=config)
        towers = [fit, *encode_stages(source, config)]
    if "neighbors" in parts:
        others.append(stage("neighbors", remember, data, config=config))
    if "lexical" in parts:
        order = [p + "encode"] if towers else []
        others.append(stage("lexical", index_lexical, data, *order))
    n_wide = next((n for n, one in enumerate(trees) if one.name == p + "levels"), 0)
    found, *made = data_stages(source, config)
    rest = [*made, *trees[:n_wide], *towers, *others, *trees[n_wide:]]
    return [found, *(_unless_empty(one, source) for one in rest)]


def _unless_empty(stage: Stage, source: PartSource) -> Stage:
    """The same stage, without tasks where there is nothing to train on."""
    plan = stage.tasks
    return replace(stage, tasks=lambda found: plan(found) if find_data(found, source) else [])


@contextmanager
def _open_results(
    work: str | os.PathLike[str] | None, log: Log, catalog: Catalog | None, config: TrainConfig
) -> Iterator[Results]:
    if work is None:
        yield MemoryResults()
        return
    with open_work(work, describe(log, catalog, config)) as results:
        yield results


def describe(log: Log, catalog: Catalog | None, config: TrainConfig) -> dict[str, str]:
    """Digests of all that decides the bytes of a model."""
    sold = None if catalog is None else replace(catalog, report=NO_CATALOG_REPORT)
    header, arrays = encode({"log": replace(log, report=NO_REPORT), "catalog": sold})
    data = hashlib.sha256(json.dumps(header).encode())
    for array in arrays.values():
        data.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    settings = asdict(config)
    settings["learn"].pop("threads")
    found = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    made_by = f"matchset {version('matchset')}, format {VERSION}"
    return {"data": data.hexdigest(), "settings": found.hexdigest(), "version": made_by}


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


def _start(name: EngineName, results: Results, threads: int) -> Engine:
    if name == "threads" or not isinstance(results, WorkFolder):
        return ThreadEngine(results, threads)
    return ProcessEngine(results, threads) if name == "processes" else RayEngine(results)
