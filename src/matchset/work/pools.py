"""Pools: which threads, processes or machines do the tasks of a training?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from matchset.errors import ParameterError, install_command

EngineName: TypeAlias = Literal["threads", "processes", "ray"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pools:
    """Executors for the two kinds of tasks."""

    narrow: Executor  # many tasks at once, a core each
    wide: Executor  # a task at a time on each machine, with all of its threads
    threads: int  # of a machine


class ThreadPool(ThreadPoolExecutor):
    """Threads that know the limit of memory of the thread that calls (see `limit_memory`)."""

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call a function in a thread."""
        return super().submit(copy_context().run, function, *args, **kwargs)


@contextmanager
def open_pools(engine: EngineName, threads: int, folder: Path | None) -> Iterator[Pools]:
    """Start an engine; all but threads of this process need the work folder."""
    with ExitStack() as stack:
        if engine == "ray" and folder is not None:
            from matchset.work import ray_pool

            threads = stack.enter_context(ray_pool.connect())
            narrow, wide = ray_pool.RayPool(1, folder), ray_pool.RayPool(threads, folder)
            pools = Pools(narrow, wide, threads)
        elif engine == "processes" and folder is not None:
            from matchset.work.process_pool import ProcessPool

            pools = Pools(ProcessPool(threads, folder), ThreadPool(1), threads)
        else:
            pools = Pools(ThreadPool(threads), ThreadPool(1), threads)
        for pool in (pools.narrow, pools.wide):
            stack.callback(pool.shutdown, cancel_futures=True)
        yield pools


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
