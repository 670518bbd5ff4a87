"""Steps: how does a training go on after a crash, and share its work among many processes?

`step("tree", build_tree, Z)` returns `build_tree(Z)`. `step.map("solve", solve_range, ranges)`
calls a function for every item, in threads, in processes or on a cluster. With a work folder, what
was returned is kept under the name of the step, and the next training reads it instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from matchset.work.cuts import CUTS, Cuts
from matchset.work.pools import EngineName, Pools, open_pools
from matchset.work.work_folder import WorkFolder, write_result

T = TypeVar("T")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a training is; raising an exception on it cancels the training."""

    stage: str  # name of the step
    done: int  # items of a step that has several, steps of "fit"
    total: int
    is_tuning: bool = False  # whether it belongs to the parts that are trained to weigh them


Listener = Callable[[Progress], None]
Report = Callable[[int, int], None]  # hears of items done, and of all items


def ignore(_: Progress) -> None:
    """Do nothing."""


@contextmanager
def open_steps(
    *,
    threads: int,
    folder: WorkFolder | None = None,
    engine: EngineName = "threads",
    progress: Listener = ignore,
    cuts: Cuts = CUTS,
) -> Iterator[Steps]:
    """Start what runs the tasks of the steps, and end it with them."""
    with open_pools(engine, threads, None if folder is None else folder.path) as pools:
        yield Steps(pools, threads, folder, progress, cuts)


class Steps:
    """Calls functions, and remembers in a work folder what they returned."""

    def __init__(
        self,
        pools: Pools,
        threads: int,
        folder: WorkFolder | None,
        progress: Listener,
        cuts: Cuts,
    ) -> None:
        self.threads = threads  # of this process, for what is no task
        self.cuts = cuts
        self._pools, self._folder, self._progress = pools, folder, progress
        self._prefix = ""

    def under(self, prefix: str) -> Steps:
        """Return steps whose names begin with a prefix, such as "final/"."""
        inner = copy(self)
        inner._prefix = self._prefix + prefix  # noqa: SLF001 (of its own class)
        return inner

    def __call__(self, name: str, function: Callable[..., T], *inputs: Any, **settings: Any) -> T:
        """Return what a function returns, or returned before the training was interrupted."""
        report = self.report(name)
        if self._folder is None:
            value = function(*inputs, **settings)
        else:
            path, form = self._prefix + name, form_of(function)
            if not self._folder.has(path, form):
                self._folder.write(path, function(*inputs, **settings), form)
            value = self._folder.read(path, form)
        report(1, 1)
        return value

    def map(
        self, name: str, function: Callable[..., T], items: Sequence[Item], *, is_wide: bool = False
    ) -> list[T]:
        """Return `function(item, threads=threads)` of every item, in the order of the items.

        Each call is a task, which any process may do. A wide one uses all threads of a machine.
        """
        form, folder = form_of(function), self._folder
        names = [f"{self._prefix}{name}/{number}" for number in range(len(items))]
        tasks = dict(zip(names, items, strict=True))
        call: Callable[..., Any] = partial(function, threads=self._pools.threads)
        if folder is not None:
            tasks = {path: item for path, item in tasks.items() if not folder.has(path, form)}
            call = partial(_write_task, folder.path, call, form)
        pool = self._pools.wide if is_wide else self._pools.narrow
        arguments = ((item,) if folder is None else (item, path) for path, item in tasks.items())
        futures = [pool.submit(call, *each) for each in arguments]
        self._wait(name, futures, len(items))
        if folder is None:
            return [future.result() for future in futures]
        return [folder.read(path, form, is_new=path in tasks) for path in names]

    def _wait(self, name: str, futures: Sequence[Future[Any]], total: int) -> None:
        """Report every task that ends; an exception of one, or of the report, drops the others."""
        report, n_before = self.report(name), total - len(futures)
        if n_before:
            report(n_before, total)
        try:
            for done, future in enumerate(as_completed(futures), n_before + 1):
                future.result()
                report(done, total)
        except BaseException:
            for future in futures:
                future.cancel()
            raise

    def report(self, name: str) -> Report:
        """Return what tells how far a step is."""
        stage, is_tuning = name.partition(".")[0], self._prefix.startswith("tune")
        return lambda done, total: self._progress(Progress(stage, done, total, is_tuning))

    def read_state(self, name: str, form: type[T]) -> T | None:
        """Return what `save_state` saved last for a step that is not done; None: nothing."""
        return None if self._folder is None else self._folder.read_state(self._prefix + name, form)

    def save_state(self, name: str, state: object) -> None:
        """Save what a long step needs to go on from here after a crash."""
        if self._folder is not None:
            self._folder.write_state(self._prefix + name, state)


def form_of(function: Callable[..., Any]) -> Any:
    """Return the type that a function says it returns."""
    while isinstance(function, partial):
        function = function.func
    return function if isinstance(function, type) else get_type_hints(function)["return"]


def _write_task(
    folder: Path, function: Callable[[Any], Any], form: Any, item: Any, name: str
) -> None:
    write_result(folder, name, function(item), form)
