"""Ray pool: how are tasks done on the machines of a cluster that share a disk?

Only names, paths and numbers travel; Ray's object store holds nothing else. A task that is lost
with its machine is done again by Ray, and gives the same result.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from matchset.errors import DataError
from matchset.memory import current_memory, limit_memory
from matchset.work.by_path import dumps

STORE_BYTES = 80 * 2**20  # the least that Ray takes: results are files
_RETRIES = 3  # of a task whose machine is lost
T = TypeVar("T")


@contextmanager
def connect() -> Iterator[int]:
    """Connect to a running cluster, or start one; its smallest machine has so many cores.

    So any of them can do any task, even when the largest is lost.
    """
    import ray

    is_ours = not ray.is_initialized()
    try:
        if is_ours:
            ray.init(address="auto", log_to_driver=False)
    except ConnectionError:
        ray.init(object_store_memory=STORE_BYTES, include_dashboard=False, log_to_driver=False)
    try:
        cores = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]
        yield max(1, int(min(filter(None, cores), default=1)))
    finally:
        if is_ours:
            ray.shutdown()


class RayPool(Executor):
    """An executor that calls functions on a cluster, each with so many cores."""

    def __init__(self, cores: int, folder: Path) -> None:
        import ray

        self._folder, self._references = folder, dict[Future[Any], Any]()
        self._remote = ray.remote(max_retries=_RETRIES, num_cpus=cores)(_call)

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call a function on some machine."""
        call = dumps(partial(function, *args, **kwargs))
        future: Future[T] = Future()
        reference = self._remote.remote(call, str(self._folder), current_memory())
        self._references[future] = reference
        reference.future().add_done_callback(partial(self._settle, future))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """Drop what is queued."""
        import ray

        for reference in self._references.values():
            ray.cancel(reference, force=True)

    def _settle(self, future: Future[Any], answer: Future[Any]) -> None:
        from ray.exceptions import RayError, RayTaskError

        self._references.pop(future, None)
        error = answer.exception()
        if isinstance(error, RayTaskError):
            error = error.cause
        elif isinstance(error, RayError):
            rule = f"a task was lost {_RETRIES + 1} times: {error}"
            error = DataError(rule, path=self._folder)
        if not future.set_running_or_notify_cancel():
            return
        if error is None:
            future.set_result(answer.result())
        else:
            future.set_exception(error)


def _call(call: bytes, folder: str, memory: int) -> Any:
    with limit_memory(memory, folder):
        return pickle.loads(call)()  # noqa: S301 (of the process that trains)
