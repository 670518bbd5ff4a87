"""Training of a tree: how do instances and their labels become a model?

Every step is a stage of tasks (`matchset.work`). In memory they run one after another on all
threads; with a work folder they can be resumed, or run on many machines. There is no other way to
train.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, cast, get_args

from matchset.config import LearnConfig, Precision, count_threads
from matchset.learn.embed_tasks import plan_embedding, plan_sums
from matchset.learn.label_tree_tasks import plan_subtrees, plan_top, plan_tree
from matchset.learn.pack_tasks import plan_joining, plan_packing
from matchset.learn.training_data import Examples
from matchset.learn.tree_tasks import (
    TrainedTree,
    TreeSource,
    is_teacher_forcing,
    join_layers,
    list_ranges,
    plan_selection,
    plan_solving,
    propagate,
    warn_of_tree,
)
from matchset.work.engines import ThreadEngine
from matchset.work.results import MemoryResults
from matchset.work.tasks import Done, Stage, Task, run_stages

# In the order in which they are reported: "read" by `matchers.train`, "embed" to "pack" by the
# tree, "fit" and "encode" by the two towers and DSSM, "neighbors" to "tune" by a match set.
StageName = Literal[
    "read", "vectorize", "embed", "tree", "solve", "pack", "fit", "encode",
    "neighbors", "lexical", "tune",
]  # fmt: skip
# Names of tasks that users know under another one; "embed.sums" is a step of "embed".
_SHOWN = {"data": "vectorize", "reranker": "tune"}
_MOST_LEVELS = 32  # a tree splits in two at least


@dataclass(frozen=True, slots=True)
class Progress:
    """A step that training has just finished; raising an exception on it cancels the training."""

    stage: StageName
    done: int  # tasks of the stage or of a step of it, steps of "fit"
    total: int
    is_tuning: bool = False  # whether it belongs to the parts that are trained to weigh them
    seconds_left: float | None = None  # to the end of the training, estimated; None: not known


def train(
    examples: Examples,
    config: LearnConfig,
    *,
    progress: Callable[[Progress], None] = lambda _: None,
) -> TrainedTree:
    """Embed the labels, cluster them into a tree, then train all of its layers.

    Labels without a positive have nothing to learn from: they are left out of the tree and are
    never predicted.
    """
    results, source = MemoryResults(), TreeSource("examples", "")
    results.put(source.examples, {"examples": examples})
    stages = tree_stages(source, config)
    run_stages(
        stages,
        results,
        ThreadEngine(results, count_threads(config.threads)),
        kept={stage.name for stage in stages if not stage.name.startswith(("embed", "tree."))},
        on_done=lambda done: tell(done, progress),
    )
    trained = join_layers(results, source, list_ranges(results, source))
    sizes = sum(trained.model.tree.sizes)
    warn_of_tree(sum(trained.n_unconverged), trained.model.n_weights, sizes, config)
    return trained


def tell(
    done: Done, progress: Callable[[Progress], None], seconds_left: float | None = None
) -> None:
    """Report a step of a stage that users know: the others take little time."""
    prefix, _, name = done.stage.rpartition("/")
    name = name.partition(".")[0]
    name = _SHOWN.get(name, name)
    if name in get_args(StageName):
        is_tuning = prefix.startswith("tune") and name != "tune"
        stage = cast("StageName", name)
        progress(Progress(stage, done.done, done.total, is_tuning, seconds_left))


def tree_stages(source: TreeSource, config: LearnConfig) -> list[Stage]:
    """The stages of a tree.

    With teacher forcing no layer waits for another, and all of them are one stage. Matcher-aware
    negatives are what the layers above find, so each layer is a stage of its own.
    """
    p, data = source.prefix, source.examples
    given = {"source": source, "config": config}
    cut = (p + "embed", p + "tree.top", p + "tree.part")
    stages = [
        Stage(p + "embed.sums", partial(plan_sums, given), (data,)),
        Stage(p + "embed", partial(plan_embedding, given), (data, p + "embed.sums")),
        Stage(p + "tree.top", partial(plan_top, given), (p + "embed",)),
        Stage(p + "tree.part", partial(plan_subtrees, given), (p + "embed", p + "tree.top")),
        Stage(p + "tree", partial(plan_tree, given), cut),
        Stage.of(Task(p + "levels", propagate, {"source": source}), data, p + "tree"),
    ]
    solved = (data, p + "tree", p + "levels")
    if is_teacher_forcing(config):
        return [*stages, Stage(p + "solve", partial(plan_solving, given), solved)]
    for level in range(_MOST_LEVELS):
        above = tuple(p + f"solve.{upper}" for upper in range(level))
        select = partial(plan_selection, given, level)
        stages.append(Stage(p + f"select.{level}", select, solved + above))
        needs = (*solved, p + f"select.{level}")
        stages.append(Stage(p + f"solve.{level}", partial(plan_solving, given, level), needs))
    return stages


def pack_stages(source: TreeSource, config: LearnConfig, precision: Precision) -> list[Stage]:
    """The stages that pack the layers of a tree, and join them."""
    p, given = source.prefix, {"source": source, "precision": precision}
    needs = [source.examples, p + "tree", p + "levels"]
    levels = range(_MOST_LEVELS)
    is_one = is_teacher_forcing(config)
    needs += [p + "solve"] if is_one else [p + f"solve.{level}" for level in levels]
    return [
        Stage(p + "pack.part", partial(plan_packing, given), tuple(needs)),
        Stage(p + "pack", partial(plan_joining, given), (*needs, p + "pack.part")),
    ]
