"""Projection: what would a training of another size take, stage by stage and on many cores?

From constants measured on small shops (`cost`), not from a training of that size.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from matchset.config import TrainConfig
from matchset.learn.clusters import LIST_SIZE, PASSES
from matchset.learn.cost import RATES, Cost, estimate_stages, estimate_tuning, is_tuned
from matchset.learn.embed_tasks import MOST_LABELS
from matchset.learn.encode_tasks import LISTS_PER_TASK
from matchset.learn.label_tree_tasks import LABELS_PER_TASK, SAMPLED_LABELS
from matchset.learn.layers import LEAST_COST, MOST_RANGES
from matchset.learn.pack_tasks import PACKED_COST
from matchset.learn.sizes import Sizes
from matchset.learn.text_tasks import MOST_BYTES

# The shop of the paper: 240 million queries, 100 million products, over a
# billion pairs. Features per query and per title are those of the simulated marketplace.
PAPER = Sizes(
    products=100_000_000,
    queries=240_000_000,
    pairs=1_050_000_000,
    query_entries=240_000_000 * 25,
    title_entries=100_000_000 * 60,
    features=4_200_000,
)
MACHINE_CORES = 16
_WIDE = ("data", "embed", "tree", "pack", "fit", "encode", "reranker")
_ROOT_ENTRY, _ROOT_INSTANCE = 24, 300  # bytes that gathering and solving the root's children owns
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "data": (), "embed": ("data",), "tree": ("embed",), "levels": ("tree",), "solve": ("levels",),
    "pack": ("solve",), "fit": ("data",), "encode": ("fit",), "lexical": ("data", "encode"),
    "neighbors": ("data",), "reranker": ("pack", "encode", "lexical", "neighbors"),
}  # fmt: skip
# Shares of the work of a stage that a single task does, however many machines there are: positives,
# vocabulary and joining. Assumed, not measured.
_SINGLE = {"data": 0.1, "embed": 0.05, "pack": 0.05}
_PAIR, _LABEL, _VECTOR = 24, 17, 260  # bytes of a pair, a label at the top, a product's vector
_TEXT_STEPS = 4  # words, n-grams, unknown n-grams and rows, each with a single task beside it
_TOP_SCORE = 0.25  # microseconds in which a label gets its side in a cut by a sample


@dataclass(frozen=True, slots=True)
class Step:
    """Tasks of a stage that can run at once, and what all of them take together."""

    n_tasks: int
    serial: float  # seconds that each task's main thread works, in all
    parallel: float
    memory: float  # bytes that a task owns
    is_wide: bool = True  # whether a task takes a whole machine
    longest: float = 0.0  # seconds of the longest task of a step that is not wide

    def durations(self, threads: int) -> list[float]:
        """Seconds for which the tasks take a machine, the longest first."""
        if self.is_wide:
            return [(self.serial + self.parallel / threads) / self.n_tasks] * self.n_tasks
        work = self.serial + self.parallel
        if self.n_tasks == 1 or self.longest < work / self.n_tasks:
            return [work / self.n_tasks] * -(-self.n_tasks // threads)
        each = (work - self.longest) / (self.n_tasks - 1)
        return [self.longest, *[each] * (-(-self.n_tasks // threads) - 1)]


@dataclass(frozen=True, slots=True)
class StagePlan:
    """What a stage takes in all, and the steps that it is done in."""

    name: str
    n_times: int  # how often it is done: twice with tuning
    cost: Cost  # of one time, all tasks
    steps: tuple[Step, ...]  # one after another

    @property
    def n_tasks(self) -> int:
        """Tasks of all times."""
        return self.n_times * sum(step.n_tasks for step in self.steps)

    @property
    def memory(self) -> float:
        """Bytes that the largest task owns."""
        return max(step.memory for step in self.steps)

    @property
    def seconds(self) -> float:
        """Processor time of all tasks."""
        return self.n_times * (self.cost.serial + self.cost.parallel)

    @property
    def kept(self) -> float:
        """Bytes in the work folder."""
        return self.n_times * self.cost.kept


def plan_stages(sizes: Sizes, config: TrainConfig) -> list[StagePlan]:
    """Every stage of a training."""
    n_times = 2 if is_tuned(config) else 1
    stages = []
    for name, cost in estimate_stages(sizes, config).items():
        steps, more = _plan_steps(name, sizes, cost), 0.0
        if len(steps) > 1:  # what its first steps leave is kept too
            more = PASSES * _VECTOR * sizes.products if name == "encode" else cost.kept
        stages.append(StagePlan(name, n_times, replace(cost, kept=cost.kept + more), steps))
    if n_times == 2:
        tuning = estimate_tuning(sizes.queries)
        stages.append(StagePlan("reranker", 1, tuning, _plan_steps("reranker", sizes, tuning)))
    return stages


def _plan_steps(name: str, sizes: Sizes, cost: Cost) -> tuple[Step, ...]:
    """The steps of a stage; the same constants cut a training into its tasks."""
    reads = sizes.passes * sizes.queries / max(1, sizes.query_entries)
    if name == "solve":
        return (_plan_solving(sizes, cost, reads),)
    if name == "data":  # a text has about as many bytes as features
        whole = _cut(name, cost, sizes.entries / MOST_BYTES, _PAIR * sizes.pairs)
        n = _TEXT_STEPS if len(whole) > 1 else 1
        steps = [
            replace(step, serial=step.serial / n, parallel=step.parallel / n) for step in whole
        ]
        return tuple(steps * n)
    if name == "embed":
        return _cut(name, cost, sizes.products / MOST_LABELS, _PAIR * sizes.pairs)
    if name == "pack":
        return _cut(name, cost, reads / PACKED_COST, cost.disk)
    if name == "tree" and sizes.products > LABELS_PER_TASK:
        return _plan_tree(sizes, cost)
    if name == "encode" and sizes.n_lists > LISTS_PER_TASK:
        return _plan_encoding(sizes, cost)
    return (Step(1, cost.serial, cost.parallel, cost.memory, is_wide=name in _WIDE),)


def _cut(name: str, cost: Cost, n_ranges: float, memory: float) -> tuple[Step, ...]:
    """Tasks of ranges, and one that joins them with so much memory; or a single one for all."""
    if n_ranges <= 1:
        return (Step(1, cost.serial, cost.parallel, cost.memory),)
    n, single = math.ceil(n_ranges), _SINGLE[name]
    return (
        Step(n, (1 - single) * cost.serial, (1 - single) * cost.parallel, cost.memory / n),
        Step(1, single * cost.serial, single * cost.parallel, memory),
    )


def _plan_tree(sizes: Sizes, cost: Cost) -> tuple[Step, ...]:
    """The top, then the subtrees that halving it gives."""
    n_levels = math.ceil(math.log2(sizes.products / LABELS_PER_TASK))
    top = min(1e-6 * _TOP_SCORE * n_levels * sizes.products, cost.parallel)
    sampled = cost.memory * min(1.0, SAMPLED_LABELS / sizes.products)
    return (
        Step(1, 0.0, top, sampled + _LABEL * sizes.products),
        Step(2**n_levels, 0.0, cost.parallel - top, cost.memory / 2**n_levels),
    )


def _plan_encoding(sizes: Sizes, cost: Cost) -> tuple[Step, ...]:
    """Cuts and groups of all lists, and ranges of them whose products move."""
    rates = {rate.of: rate.parallel for rate in RATES["encode"]}
    moving = 1e-6 * rates["comparisons"] * sizes.comparisons
    n_ranges = math.ceil(sizes.n_lists / LISTS_PER_TASK)
    range_memory = _VECTOR * (sizes.n_lists + LIST_SIZE * LISTS_PER_TASK)
    between = cost.serial / (PASSES + 1), (cost.parallel - moving) / (PASSES + 1)
    alone = Step(1, *between, cost.memory)
    ranges = Step(n_ranges, 0.0, moving / PASSES, range_memory)
    return (*[alone, ranges] * PASSES, alone)


def _plan_solving(sizes: Sizes, cost: Cost, reads: float) -> Step:
    """The largest tasks solve a batch of the root's children."""
    n_ranges = round(max(1, min(MOST_RANGES, reads / LEAST_COST)))
    memory = _ROOT_ENTRY * sizes.query_entries + _ROOT_INSTANCE * sizes.queries
    longest = cost.parallel * sizes.query_entries / max(1, sizes.passes)
    return Step(n_ranges, 0.0, cost.parallel, memory, is_wide=False, longest=longest)


def project(stages: list[StagePlan], cores: int, *, machine_cores: int = MACHINE_CORES) -> float:
    """Seconds on so many cores, in machines of `machine_cores` that share a disk.

    By list scheduling: whichever step can begin first hands its tasks to the machines that are
    free first. Tasks that are not wide share a machine with others of their step.
    """
    free = [0.0] * max(1, cores // machine_cores)  # when each machine is
    ends: dict[tuple[int, str], float] = {}
    waiting = [(time, stage) for stage in stages for time in range(stage.n_times)]
    ready: list[tuple[float, int, int, int]] = []  # begin, stage, time, step
    names = [stage.name for stage in stages]
    while waiting or ready:
        for one in list(waiting):
            needed = [(one[0], need) for need in _NEEDS[one[1].name] if need in names]
            if all(need in ends for need in needed):
                waiting.remove(one)
                begin = max((ends[need] for need in needed), default=0.0)
                heapq.heappush(ready, (begin, names.index(one[1].name), one[0], 0))
        begin, number, time, at = heapq.heappop(ready)
        end = begin
        for spent in stages[number].steps[at].durations(min(cores, machine_cores)):
            start = max(begin, heapq.heappop(free))
            heapq.heappush(free, start + spent)
            end = max(end, start + spent)
        if at + 1 < len(stages[number].steps):
            heapq.heappush(ready, (end, number, time, at + 1))
        else:
            ends[time, names[number]] = end
    return max(ends.values())
