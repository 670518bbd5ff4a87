"""Ray: how do tasks run on the machines of a cluster that share a disk?

Only names, paths and numbers travel; Ray's object store holds nothing else. A task that is lost
with its machine is done again by Ray, and gives the same result.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from matchset.errors import DataError
from matchset.memory import current_memory, limit_memory
from matchset.work.engines import ATTEMPTS, ignore
from matchset.work.results import WorkFolder
from matchset.work.tasks import Report, Task

STORE_BYTES = 80 * 2**20  # the least that Ray takes: results are files
PATIENCE = 20.0  # seconds after which tasks are compared with the machines that are left
_PENDING_PER_CORE = 4  # many more would slow Ray's scheduler down


class RayEngine:
    """Runs tasks on the cluster that this process is connected to, or else can find.

    Where there is none, one of this machine alone is started.
    """

    def __init__(self, results: WorkFolder) -> None:
        import ray

        self._ray: Any = ray
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            self._connect()
        self._folder = WorkFolder(results.path.absolute())
        self._pending: dict[Any, tuple[Task, int]] = {}  # with the cores that it asked for
        self._remote = ray.remote(max_retries=ATTEMPTS)(_run)

    def has_room(self, task: Task) -> bool:  # noqa: ARG002
        """Whether the queue is short enough."""
        if not self._pending:
            return True
        return len(self._pending) < _PENDING_PER_CORE * self._count_cores(sum)

    def submit(self, task: Task, report: Report) -> None:  # noqa: ARG002 (it stays here)
        """Hand a task to Ray: some cores, or all of a machine."""
        most = self._count_cores(max)
        threads = most if task.is_wide else min(most, task.threads)
        remote = self._remote.options(num_cpus=threads, name=task.name)
        self._pending[remote.remote(task, self._folder, threads, current_memory())] = task, threads

    def wait(self) -> Collection[Task]:
        """Tasks that have ended."""
        ended: list[Any] = []
        while not ended:
            ended, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=PATIENCE)
            if not ended:
                self._submit_misfits()
        for reference in ended:
            try:
                self._ray.get(reference)
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except self._ray.exceptions.RayError as error:
                name = self._pending[reference][0].name
                rule = f"{name!r} was lost {ATTEMPTS + 1} times: {error}"
                raise DataError(rule, path=self._folder.path) from None
        return [self._pending.pop(reference)[0] for reference in ended]

    def _submit_misfits(self) -> None:
        """Ask again for what no machine has room for since the largest one was lost."""
        largest = self._count_cores(max)
        misfits = {ref: task for ref, (task, threads) in self._pending.items() if threads > largest}
        for reference, task in misfits.items():
            self._ray.cancel(reference, force=True)
            del self._pending[reference]
            self.submit(task, ignore)

    def close(self) -> None:
        """Drop what is queued; a connection that was made here ends."""
        for reference in self._pending:
            self._ray.cancel(reference, force=True)
        if self._is_ours:
            self._ray.shutdown()

    def _count_cores(self, over: Any) -> int:
        """Cores of all machines (`sum`), or of the largest (`max`)."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return max(1, int(over(node.get("CPU", 0) for node in nodes)))

    def _connect(self) -> None:
        """Connect to a running cluster, or start one with a small object store."""
        try:
            self._ray.init(address="auto", log_to_driver=False)
        except ConnectionError:
            self._ray.init(
                object_store_memory=STORE_BYTES, include_dashboard=False, log_to_driver=False
            )


def _run(task: Task, results: WorkFolder, threads: int, memory: int) -> None:
    with limit_memory(memory, results.path):
        task(results, threads, ignore)
