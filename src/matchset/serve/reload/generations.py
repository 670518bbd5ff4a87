"""Generations: which model is served, and have all workers switched to it?

The run folder of a server holds what its processes share:

    lock            held while the server lives
    reload.lock     held by the process that makes a new generation
    current         the generation to serve: its number, its folder, its version
    asked, tried    when a reload was last asked for by a signal, and what was last tried
    generations/    a folder of verified snapshots each, with the digests of the API keys
    workers/        of each worker a lock that it holds while it lives, and what it serves
    metrics/        counters of each worker
    bought/         what was bought for which query, where there is a log

Files that are read while others write them are replaced at once. A kernel frees the locks of a
process that dies, however it dies.
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
class Generation:
    """A verified snapshot that is served, or was."""

    number: int
    folder: str
    version: str


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What a worker has done about a generation."""

    number: int  # of the newest generation that it has opened, or failed to
    folder: str  # that it uses
    version: str  # that it serves
    is_open: bool = True
    error: str | None = None  # why the generation could not be opened; the one before is served


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths of what the processes of a server share."""

    path: Path

    @property
    def generations(self) -> Path:
        """Snapshots."""
        return self.path / "generations"

    @property
    def workers(self) -> Path:
        """Who lives."""
        return self.path / "workers"

    @property
    def metrics(self) -> Path:
        """Counters."""
        return self.path / "metrics"

    @property
    def bought(self) -> Path:
        """The log's purchases."""
        return self.path / "bought"

    def read_text(self, name: str) -> str:
        """A small file of the folder, empty where there is none."""
        try:
            return (self.path / name).read_text()
        except FileNotFoundError:
            return ""

    def identity(self, *names: str) -> str:
        """Changes when one of these small files is replaced."""
        found = []
        for name in names:
            try:
                stat = os.stat(f"{self.path}/{name}")  # noqa: PTH116  # often: a Path costs more
                found.append(f"{stat.st_ino}-{stat.st_mtime_ns}")
            except FileNotFoundError:
                found.append("none")
        return " ".join(found)

    def write_text(self, name: str, text: str) -> None:
        """Replace a small file at once."""
        with atomic_file(self.path / name) as staged:
            staged.write_text(text)


@contextmanager
def make_run_folder(beside: Path) -> Iterator[RunFolder]:
    """A folder beside the model, so that hard links work, or else among temporary files.

    It is gone afterwards. Those that a killed server left are cleared away first.
    """
    beside = beside.resolve()
    temporary = Path(tempfile.gettempdir())
    for parent in (beside.parent, temporary):
        path = parent / f".{beside.name}.{secrets.token_hex(4)}{_SUFFIX}"
        with suppress(OSError):
            path.mkdir(mode=0o700)
            break
    else:
        raise PermissionError(
            f"{beside.parent}: a server must be able to write here or in {temporary}; got neither"
        )
    run = RunFolder(path)
    with _lock_new(path / "lock"):
        for parent in {beside.parent, temporary}:
            _clear_left(parent, f".{glob.escape(beside.name)}.*{_SUFFIX}")
        try:
            for folder in (run.generations, run.workers, run.metrics):
                folder.mkdir()
            yield run
        finally:
            shutil.rmtree(path, ignore_errors=True)


def current(run: RunFolder) -> Generation:
    """The generation to serve."""
    return Generation(**json.loads(run.read_text("current")))


def publish(run: RunFolder, generation: Generation) -> None:
    """Tell all workers what to serve from now on."""
    run.write_text("current", json.dumps(asdict(generation)))


class Registration:
    """A worker's place in the run folder; it ends with the process."""

    def __init__(self, run: RunFolder) -> None:
        self._run = run
        self._name = f"workers/{os.getpid()}"
        self._lock = _lock_new(run.path / f"{self._name}.lock")

    def close(self) -> None:
        """Live no more."""
        self._lock.close()

    def acknowledge(self, said: Acknowledgement) -> None:
        """Say what is served."""
        self._run.write_text(self._name, json.dumps(asdict(said)))

    def claim(self) -> Generation:
        """The generation to open first, kept from being swept away from now on."""
        while True:
            wanted = current(self._run)
            # Who sweeps reads claims after publishing: either they see this one, or it is made anew
            # for what they published.
            self.acknowledge(
                Acknowledgement(wanted.number, wanted.folder, wanted.version, is_open=False)
            )
            if current(self._run) == wanted:
                return wanted


def read_workers(run: RunFolder) -> dict[int, Acknowledgement | None]:
    """The live workers by process id, and what each has acknowledged."""
    live: dict[int, Acknowledgement | None] = {}
    for lock in sorted(run.workers.glob("*.lock")):
        if is_held(lock):
            said = run.read_text(f"workers/{lock.stem}")
            live[int(lock.stem)] = Acknowledgement(**json.loads(said)) if said else None
    return live


def forget_dead(run: RunFolder) -> None:
    """Remove what dead workers left."""
    for lock in run.workers.glob("*.lock"):
        if not is_held(lock):
            lock.with_suffix("").unlink(missing_ok=True)
            lock.unlink(missing_ok=True)


def sweep(run: RunFolder) -> None:
    """Remove snapshots that no worker serves or opens."""
    forget_dead(run)
    used = {current(run).folder}
    for said in read_workers(run).values():
        if said is None:
            return  # one that starts just now
        used.add(said.folder)
    for folder in run.generations.iterdir():
        if folder.name not in used:
            shutil.rmtree(folder, ignore_errors=True)


def _lock_new(file: Path) -> IO[str]:
    """A new lock, held before anybody can see it, until it is closed or the process ends."""
    with atomic_file(file) as staged:
        stream = staged.open("w")
        fcntl.flock(stream, fcntl.LOCK_EX)
    return stream


@contextmanager
def try_hold(file: Path) -> Iterator[bool]:
    """Hold a lock if nobody else does."""
    with file.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def is_held(file: Path) -> bool:
    """Whether a living process holds a lock."""
    try:
        with file.open() as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: who asks disturbs nobody
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _clear_left(parent: Path, pattern: str) -> None:
    for left in parent.glob(pattern):
        lock = left / "lock"
        if left.is_dir() and lock.exists() and not is_held(lock):
            shutil.rmtree(left, ignore_errors=True)
