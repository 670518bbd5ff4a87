"""Tasks: in which order is a training done, and what is left to do?

A training is a list of stages. A stage knows which stages it needs, and makes its tasks when those
are done: how many there are may depend on their results. A task is a plain function of earlier
results and of small arguments; the same task gives the same result wherever it runs, and as often.
So what is there needs no work, and what was lost is made again.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

logger = logging.getLogger(__name__)

Report = Callable[[int, int], None]  # hears of steps done, and of all steps


class Results(Protocol):
    """Where the results of tasks are kept: values by name, under the name of their task."""

    def has(self, task: str) -> bool:
        """Whether a task is done."""

    def put(self, task: str, values: Mapping[str, Any]) -> None:
        """Keep the result of a task: all of it, or nothing."""

    def get(self, task: str, name: str) -> Any:
        """One value of a task's result."""

    def forget(self, task: str) -> None:
        """Free memory: no task will read this result again."""

    def save_state(self, task: str, values: Mapping[str, Any]) -> None:
        """Keep what a long task needs to go on from here after a crash."""

    def read_state(self, task: str) -> dict[str, Any] | None:
        """What `save_state` kept last; None if there is nothing."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a task gets, beside its arguments."""

    results: Results  # of the tasks before
    threads: int  # to use
    report: Report  # hears of the steps of a long task


Run = Callable[..., Mapping[str, Any]]  # a job and arguments to the result of a task


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of work for one machine; function and arguments are pickled, and must be small."""

    name: str
    run: Run
    arguments: Mapping[str, Any] = field(default_factory=dict)
    cost: float = 1.0  # relative to the other tasks of its stage: the longest are begun first
    threads: int = 1  # that it can use while others run
    is_wide: bool = False  # it uses all threads of a machine, alone

    def __call__(self, results: Results, threads: int, report: Report) -> None:
        """Do the task and keep its result."""
        results.put(self.name, self.run(Job(results, threads, report), **self.arguments))


@dataclass(frozen=True, slots=True)
class Stage:
    """Tasks that can be done in any order, or at once, when the stages that it needs are done."""

    name: str
    tasks: Callable[[Results], Sequence[Task]]
    needs: tuple[str, ...] = ()

    @classmethod
    def of(cls, task: Task, *needs: str) -> Stage:
        """A stage of one task, whose name it has."""
        return cls(task.name, lambda _: [task], needs)


def plan_parts(n: int, most: int) -> list[range]:
    """Even ranges of n items, of at most `most` each; a single one where that is enough.

    Neither threads nor memory nor the engine may decide where tasks are cut: `most` is a constant.
    """
    n_parts = max(1, -(-n // most))
    ends = [n * part // n_parts for part in range(n_parts + 1)]
    return [range(*pair) for pair in pairwise(ends)]


class Engine(Protocol):
    """Runs tasks somewhere."""

    def has_room(self, task: Task) -> bool:
        """Whether a task should be submitted now; always true while nothing is running."""

    def submit(self, task: Task, report: Report) -> None:
        """Start a task, or queue it."""

    def wait(self) -> Collection[Task]:
        """Tasks that have ended since, at least one; raises what one of them has raised."""

    def close(self) -> None:
        """Stop: what is running may end, what is queued is dropped."""


@dataclass(frozen=True, slots=True)
class Done:
    """A task that is done, or a step of a long one, and how far its stage is."""

    stage: str
    done: int
    total: int
    n_found: int = 0  # of the tasks done, those whose result was there already


def run_stages(
    stages: Sequence[Stage],
    results: Results,
    engine: Engine,
    *,
    kept: Collection[str] = (),
    on_done: Callable[[Done], None] = lambda _: None,
) -> None:
    """Run every stage; an exception of a task, or of `on_done`, ends all.

    Results are freed when the last stage that needs them is done, except for those of `kept`.
    """
    schedule = _Schedule(stages, results, kept, on_done)
    try:
        while schedule.expand():
            while schedule.queue and engine.has_room(schedule.queue[0][-1]):
                stage, task = schedule.pop()
                engine.submit(task, schedule.reporter(stage))
            for task in engine.wait():
                schedule.finish(task)
    finally:
        engine.close()


class _Schedule:
    """What is waiting, queued and done; mutable, for a single run."""

    def __init__(
        self,
        stages: Sequence[Stage],
        results: Results,
        kept: Collection[str],
        on_done: Callable[[Done], None],
    ) -> None:
        self.stages = {stage.name: stage for stage in stages}
        self.order = {stage.name: number for number, stage in enumerate(stages)}
        self.results, self.kept, self.on_done = results, kept, on_done
        self.waiting = list(stages)
        self.queue: list[tuple[int, float, str, Task]] = []  # the next task first
        self.stage_of: dict[str, str] = {}  # of each task that is not done
        self.tasks: dict[str, tuple[Task, ...]] = {}  # of each stage that was begun
        self.left: dict[str, int] = {}  # tasks that are not done, of each stage that was begun
        self.n_found: dict[str, int] = {}

    def expand(self) -> bool:
        """Queue the tasks of stages that can begin; False when everything is done."""
        is_new = True
        while is_new:  # a stage whose results are all there may let another begin
            ready = [stage for stage in self.waiting if all(map(self._is_done, stage.needs))]
            is_new = bool(ready)
            for stage in ready:
                self.waiting.remove(stage)
                self._begin(stage)
        if self.waiting and not self.stage_of:
            names = ", ".join(stage.name for stage in self.waiting)
            raise RuntimeError(f"stages must need what there is; got {names}")
        return bool(self.stage_of)

    def _is_done(self, name: str) -> bool:
        """Whether a stage is done; what is none of the stages was put into the results before."""
        return self.left.get(name) == 0 if name in self.stages else self.results.has(name)

    def _begin(self, stage: Stage) -> None:
        tasks = self.tasks[stage.name] = tuple(stage.tasks(self.results))
        missing = [task for task in tasks if not self.results.has(task.name)]
        self.left[stage.name] = len(missing)
        self.n_found[stage.name] = len(tasks) - len(missing)
        for task in missing:
            self.stage_of[task.name] = stage.name
            heapq.heappush(self.queue, (self.order[stage.name], -task.cost, task.name, task))
        if len(tasks) > len(missing):
            found = self.n_found[stage.name]
            logger.info("%s: %d of %d tasks were done before", stage.name, found, len(tasks))
        if tasks and not missing:
            self._tell(stage.name)
        if not missing:
            self._free()

    def pop(self) -> tuple[str, Task]:
        """The next task and its stage."""
        task = heapq.heappop(self.queue)[-1]
        return self.stage_of[task.name], task

    def finish(self, task: Task) -> None:
        """Count a task as done."""
        stage = self.stage_of.pop(task.name)
        self.left[stage] -= 1
        self._tell(stage)
        if self.left[stage] == 0:
            self._free()

    def reporter(self, stage: str) -> Report:
        """Tells of the steps of a task that is its stage's only one."""
        return lambda done, total: self.on_done(Done(stage, done, total))

    def _tell(self, stage: str) -> None:
        total = len(self.tasks[stage])
        self.on_done(Done(stage, total - self.left[stage], total, self.n_found[stage]))

    def _free(self) -> None:
        """Forget the results that no stage needs any more."""
        unfinished = [s for name, s in self.stages.items() if self.left.get(name) != 0]
        needed = {name for stage in unfinished for name in stage.needs} | set(self.kept)
        for name, left in self.left.items():
            if left == 0 and name not in needed:
                for task in self.tasks[name]:
                    self.results.forget(task.name)
