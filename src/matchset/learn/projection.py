"""Projection: what would a training of another size take, stage by stage and on many cores?

From constants measured on small shops (`cost`), not from a training of that size.
"""

from __future__ import annotations

from dataclasses import dataclass

from matchset.config import TrainConfig
from matchset.learn.cost import Cost, Sizes, estimate_stages, estimate_tuning, is_tuned
from matchset.learn.layers import LEAST_COST, MOST_RANGES

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
_PATHS = (
    ("fit", "encode", "lexical"),
    ("embed", "tree", "levels", "solve", "pack"),
    ("neighbors",),
)


@dataclass(frozen=True, slots=True)
class StagePlan:
    """What a stage takes in all, and its largest task."""

    name: str
    n_tasks: int
    n_times: int  # how often it is done: twice with tuning
    cost: Cost  # of one time, all tasks
    memory: float  # bytes that the largest task owns
    longest: float = 0.0  # seconds of the longest of several tasks

    @property
    def core_hours(self) -> float:
        """Processor time of all tasks."""
        return self.n_times * (self.cost.serial + self.cost.parallel) / 3600

    @property
    def kept(self) -> float:
        """Bytes in the work folder."""
        return self.n_times * self.cost.kept


def plan_stages(sizes: Sizes, config: TrainConfig) -> list[StagePlan]:
    """Every stage of a training."""
    n_times = 2 if is_tuned(config) else 1
    stages = [
        _plan_solving(sizes, cost, n_times)
        if name == "solve"
        else StagePlan(name, n_times, n_times, cost, cost.memory)
        for name, cost in estimate_stages(sizes, config).items()
    ]
    if n_times == 2:
        tuning = estimate_tuning(sizes.queries)
        stages.append(StagePlan("reranker", 1, 1, tuning, tuning.memory))
    return stages


def _plan_solving(sizes: Sizes, cost: Cost, n_times: int) -> StagePlan:
    """The one stage of many tasks; the largest solve a batch of the root's children."""
    reads = sizes.passes * sizes.queries / max(1, sizes.query_entries)
    n_ranges = round(max(1, min(MOST_RANGES, reads / LEAST_COST)))
    memory = _ROOT_ENTRY * sizes.query_entries + _ROOT_INSTANCE * sizes.queries
    longest = cost.parallel * sizes.query_entries / max(1, sizes.passes)
    return StagePlan("solve", n_times * n_ranges, n_times, cost, memory, longest)


def project(stages: list[StagePlan], cores: int, *, machine_cores: int = MACHINE_CORES) -> float:
    """Seconds on so many cores, in machines of `machine_cores` that share a disk.

    Wide stages use one machine each; those that do not need one another run at once where there
    are machines for them.
    """
    threads, n_machines = min(cores, machine_cores), max(1, cores // machine_cores)
    seconds = {
        stage.name: stage.cost.seconds(threads if stage.name in _WIDE else 1) for stage in stages
    }
    for stage in stages:
        if stage.name == "solve":
            seconds["solve"] = max(stage.cost.parallel / cores, stage.longest)
    n_times = max(stage.n_times for stage in stages)
    tuning = seconds.pop("reranker", 0.0)
    if n_machines == 1:
        return n_times * sum(seconds.values()) + tuning
    paths = [sum(seconds.get(name, 0.0) for name in path) for path in _PATHS]
    longest = seconds["data"] + max(paths)
    # With four machines, the parts of the model are trained while those to be weighed are.
    ideal = 3600 * sum(stage.core_hours for stage in stages) / cores
    return max(ideal, (longest if n_machines >= 4 else n_times * longest) + tuning)
