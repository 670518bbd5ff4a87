"""Run folder: which model version is served, and have all workers switched to it?

The run folder of a server holds what its processes share:

    lock            held as long as the server runs
    reload.lock     held by the process that makes a new model version
    current         the model version to serve: its number, folder, name and kinds
    requested       changes when a signal requests a reload
    begun           what the last reload began to load, and how often
    attempted       what the last reload tried to load
    versions/       a folder of verified snapshots for each, with the digests of the API keys
    experiment      the experiment that runs, if there is one
    purchases/      what was bought after which query, if there is a log

Files that are read while others write them are replaced atomically. The kernel releases the locks
of a process that dies, no matter how. What workers report and record is in memory (see `slots` and
`journals`): a full disk refuses a new model, and stops nothing else.
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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

from matchset.online.definition import Experiment
from matchset.serve.reload.slots import Slot, make_slots, read_slots
from matchset.storage.atomic import atomic_file

RELOAD_LOCK = "reload.lock"
_SUFFIX = ".serving"
_MAX_ERROR = 300  # characters of an error in a status, at most 12 bytes each


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """A verified snapshot that is or was served."""

    number: int
    folder: str
    name: str  # a digest of the files
    kinds: tuple[str, ...] = ()  # of its matchers, the model first
    trained: str = ""  # a digest of what was trained
    digest: str = ""  # of the model's manifest, which covers every byte
    begun: float = 0.0  # the monotonic time, which processes share, before its folder was read
    base: str = ""  # folder of the version that first had the files of this training

    def has(self, digest: str, written: float) -> bool:
        """Whether it is what the model's folder held at this time, or holds since then.

        No count of changes tells: one that is restored or saved again begins anew.
        """
        return self.digest == digest or self.begun >= written


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """What a worker serves."""

    number: int  # of the newest model version that it has opened, or failed to open
    folder: str  # that it uses
    version: str  # that it serves
    is_open: bool = True
    is_listening: bool = False
    error: str | None = None  # why it failed to open; it still serves the version before


@dataclass(frozen=True, slots=True)
class Journals:
    """Paths of the memory that records are kept in until they are on disk; see `journals`."""

    board: Path  # how much of each journal is on disk
    groups: tuple[dict[str, Path], ...]  # of each worker, and some to spare: by stream


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths of what the processes of a server share."""

    path: Path
    slots: tuple[Path, ...] = ()  # one for each worker, and some to spare
    journals: Journals | None = None  # of records, if there are any

    @property
    def versions(self) -> Path:
        """Snapshots."""
        return self.path / "versions"

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
def make_run_folder(model: Path, n_workers: int = 1) -> Iterator[RunFolder]:
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
    # Twice as many slots as workers: one that dies may still hold its own when the next starts.
    with _lock_new(path / "lock"), make_slots(path, 2 * n_workers + 2) as slots:
        run = RunFolder(path, slots)
        for parent in {model.parent, temporary}:
            _remove_leftovers(parent, f".{glob.escape(model.name)}.*{_SUFFIX}")
        try:
            run.versions.mkdir()
            (path / RELOAD_LOCK).touch()  # now: later the disk may be full
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


def read_running(run: RunFolder) -> Experiment | None:
    """The experiment that runs; it is that of the server's start, whatever became of its file."""
    stored = run.read_text("experiment")
    return Experiment.from_dict(json.loads(stored)) if stored else None


class Registration:
    """A worker's entry among those of a server; it ends with the process."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self.slot = Slot(run.slots)

    def close(self) -> None:
        """End it."""
        self.slot.close()

    def report(self, status: WorkerStatus) -> None:
        """Publish what this worker serves."""
        error = None if status.error is None else status.error[:_MAX_ERROR]
        self.slot.report(json.dumps(asdict(replace(status, error=error))))

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
    return {pid: status for pid, (is_live, status) in read_all_workers(run).items() if is_live}


def read_all_workers(run: RunFolder) -> dict[int, tuple[bool, WorkerStatus | None]]:
    """Whether each worker lives, and its last status, by process id; dead ones while known."""
    return {
        one.pid: (one.is_live, WorkerStatus(**json.loads(one.status)) if one.status else None)
        for one in sorted(read_slots(run.slots), key=lambda one: one.is_live)
        if one.pid
    }


def remove_unused_versions(run: RunFolder) -> None:
    """Remove snapshots that no worker serves or opens."""
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
