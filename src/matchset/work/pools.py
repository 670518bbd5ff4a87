"""Pools: which threads, processes or machines do the tasks of a training?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

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
