"""Run folder: which model version is served, and have all workers switched to it?

The run folder of a server holds what its processes share:

    lock            held as long as the server runs
    reload.lock     held by the process that makes a new model version
    current         the model version to serve: its number, folder, name and kinds
    requested       changes when a signal requests a reload
    attempted       what the last reload tried to load
    versions/       a folder of verified snapshots for each, with the digests of the API keys
    workers/        for each worker a lock that it holds while it runs, and its status
    metrics/        counters of each worker
    purchases/      what was bought after which query, if there is a log

Files that are read while others write them are replaced atomically. The kernel releases the locks
of a process that dies, no matter how.
"""

from __future__ import annotations

import fcntl
import glob
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from matchset.storage.atomic import atomic_file

_SUFFIX = ".serving"


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """A verified snapshot that is or was served."""

    number: int
    folder: str
    name: str  # a digest of the files
    kinds: tuple[str, ...] = ()  # of its matchers, the model first


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """What a worker serves."""

    number: int  # of the newest model version that it has opened, or failed to open
    folder: str  # that it uses
    version: str  # that it serves
    is_open: bool = True
    error: str | None = None  # why it failed to open; it still serves the version before


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths of what the processes of a server share."""

    path: Path

    @property
    def versions(self) -> Path:
        """Snapshots."""
        return self.path / "versions"

    @property
    def workers(self) -> Path:
        """Locks and status of the workers."""
        return self.path / "workers"

    @property
    def metrics(self) -> Path:
        """Counters."""
        return self.path / "metrics"

    @property
    def purchases(self) -> Path:
        """The log's purchases."""
        return self.path / "purchases"

    def read_text(self, name: str) -> str:
        """A small file of the folder, empty if there is none."""
        try:
            return (self.path / name).read_text()
        except FileNotFoundError:
            return ""

    def identity(self, *names: str) -> str:
        """A text that changes when one of these small files is replaced."""
        found = []
        for name in names:
            try:
                stat = os.stat(f"{self.path}/{name}")  # noqa: PTH116  # often: a Path costs more
                found.append(f"{stat.st_ino}-{stat.st_mtime_ns}")
            except FileNotFoundError:
                found.append("none")
        return " ".join(found)

    def write_text(self, name: str, text: str) -> None:
        """Replace a small file atomically."""
        with atomic_file(self.path / name) as staged:
            staged.write_text(text)


@contextmanager
def make_run_folder(model: Path) -> Iterator[RunFolder]:
    """A folder next to the model, so that hard links work, or else in the temporary folder.

    It is removed afterwards. Folders that killed servers left behind are removed first.
    """
    model = model.resolve()
    temporary = Path(tempfile.gettempdir())
    for parent in (model.parent, temporary):
        path = parent / f".{model.name}.{secrets.token_hex(4)}{_SUFFIX}"
        with suppress(OSError):
            path.mkdir(mode=0o700)
            break
    else:
        raise PermissionError(
            f"{model.parent}: the server must be able to write here or to {temporary}; "
            "got permission for neither"
        )
    run = RunFolder(path)
    with _lock_new(path / "lock"):
        for parent in {model.parent, temporary}:
            _remove_leftovers(parent, f".{glob.escape(model.name)}.*{_SUFFIX}")
        try:
            for folder in (run.versions, run.workers, run.metrics):
                folder.mkdir()
            yield run
        finally:
            shutil.rmtree(path, ignore_errors=True)


def current_version(run: RunFolder) -> ModelVersion:
    """The model version to serve."""
    stored = json.loads(run.read_text("current"))
    return ModelVersion(**{**stored, "kinds": tuple(stored["kinds"])})


def publish(run: RunFolder, version: ModelVersion) -> None:
    """Make all workers switch to a model version."""
    run.write_text("current", json.dumps(asdict(version)))


class Registration:
    """A worker's entry in the run folder; it ends with the process."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._name = f"workers/{os.getpid()}"
        self._lock = _lock_new(run.path / f"{self._name}.lock")

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()

    def report(self, status: WorkerStatus) -> None:
        """Publish what this worker serves."""
        self._run.write_text(self._name, json.dumps(asdict(status)))

    def claim(self) -> ModelVersion:
        """The model version to open first; from now on it is not removed."""
        while True:
            wanted = current_version(self._run)
            # A process that removes versions publishes first and then reads claims: either it sees
            # this claim, or the claim is repeated for what it published.
            self.report(WorkerStatus(wanted.number, wanted.folder, wanted.name, is_open=False))
            if current_version(self._run) == wanted:
                return wanted


def read_workers(run: RunFolder) -> dict[int, WorkerStatus | None]:
    """The status of each live worker by process id; None: it has not reported yet."""
    live: dict[int, WorkerStatus | None] = {}
    for lock in sorted(run.workers.glob("*.lock")):
        if is_locked(lock):
            status = run.read_text(f"workers/{lock.stem}")
            live[int(lock.stem)] = WorkerStatus(**json.loads(status)) if status else None
    return live


def remove_dead_workers(run: RunFolder) -> None:
    """Remove the files of dead workers."""
    for lock in run.workers.glob("*.lock"):
        if not is_locked(lock):
            lock.with_suffix("").unlink(missing_ok=True)
            lock.unlink(missing_ok=True)


def remove_unused_versions(run: RunFolder) -> None:
    """Remove snapshots that no worker serves or opens."""
    remove_dead_workers(run)
    used = {current_version(run).folder}
    for status in read_workers(run).values():
        if status is None:
            return  # a worker that is just starting
        used.add(status.folder)
    for folder in run.versions.iterdir():
        if folder.name not in used:
            shutil.rmtree(folder, ignore_errors=True)


def _lock_new(file: Path) -> IO[str]:
    """A new lock, held before anyone can see it, until it is closed or the process ends."""
    with atomic_file(file) as staged:
        stream = staged.open("w")
        fcntl.flock(stream, fcntl.LOCK_EX)
    return stream


@contextmanager
def try_lock(file: Path) -> Iterator[bool]:
    """Hold a lock unless another process does; yields whether it is held."""
    with file.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def is_locked(file: Path) -> bool:
    """Whether a live process holds a lock."""
    try:
        with file.open() as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: tests do not collide
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _remove_leftovers(parent: Path, pattern: str) -> None:
    for folder in parent.glob(pattern):
        lock = folder / "lock"
        if folder.is_dir() and lock.exists() and not is_locked(lock):
            shutil.rmtree(folder, ignore_errors=True)
