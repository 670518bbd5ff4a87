"""Versions: which model is served, and how does a new one take its place?

Nothing is served from the model's own path. A folder beside it holds what the processes of a server
share:

    lock            held as long as the server runs
    reload.lock     held by whoever makes a new version
    current         a link to the version that is served
    versions/       for each, verified snapshots and the digests of the API keys
    purchases/      what was bought after which query, if there is a log

A new version is copied, verified byte by byte and row by row, and only then published, by replacing
one link. Workers look at that link and switch between two requests; a bad model changes nothing.
"""

from __future__ import annotations

import fcntl
import glob
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import IO

from matchset.errors import ModelFileError
from matchset.matchers.saved import read_part
from matchset.model.soundness import check_rows
from matchset.serve.auth import read_keys
from matchset.serve.loaded_model import KEYS, LoadedModel, ModelVersion, open_version
from matchset.serve.options import ServeConfig
from matchset.serve.request_errors import RequestError
from matchset.serve.snapshots import (
    Sources,
    identify_base,
    naming_sources,
    snapshot_files,
    take_snapshots,
)
from matchset.storage.atomic import atomic_file

_SUFFIX = ".serving"
_DESCRIBED = "version.json"
_WAIT_SECONDS = 60.0  # for another reload to end
_POLL_SECONDS = 0.01
_KEPT = 2  # versions: a worker may just open the one before


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths of what the processes of a server share."""

    path: Path

    @property
    def versions(self) -> Path:
        """Snapshots."""
        return self.path / "versions"

    @property
    def purchases(self) -> Path:
        """The log's purchases."""
        return self.path / "purchases"

    @property
    def current(self) -> str:
        """Name of the folder of the version to serve; empty before the first."""
        try:
            # Often: a Path costs more.
            return os.readlink(f"{self.path}/current").rpartition("/")[2]  # noqa: PTH115
        except FileNotFoundError:
            return ""


@contextmanager
def make_run_folder(model: Path) -> Iterator[RunFolder]:
    """Make a folder next to the model, where blocks can be shared, or else a temporary one.

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
        rule = f"the server must be able to write here or to {temporary}"
        raise PermissionError(f"{model.parent}: {rule}; got permission for neither")
    with _lock_new(path / "lock"):
        for parent in {model.parent, temporary}:
            _remove_leftovers(parent, f".{glob.escape(model.name)}.*{_SUFFIX}")
        try:
            run = RunFolder(path)
            run.versions.mkdir()
            yield run
        finally:
            shutil.rmtree(path, ignore_errors=True)


def read_current(run: RunFolder) -> ModelVersion:
    """Return the version to serve."""
    stored = json.loads((run.versions / run.current / _DESCRIBED).read_bytes())
    return ModelVersion(**{**stored, "kinds": tuple(stored["kinds"])})


def open_current(
    run: RunFolder, config: ServeConfig, before: LoadedModel | None = None
) -> LoadedModel:
    """Open the version to serve; it may be replaced meanwhile."""
    while True:
        folder = run.current
        try:
            return open_version(run.versions / folder, read_current(run), config, before)
        except (ValueError, OSError):
            if run.current == folder:
                raise


def publish(
    run: RunFolder, sources: Sources, config: ServeConfig, served: LoadedModel | None = None
) -> LoadedModel:
    """Make what the sources hold the version to serve, and return it opened.

    What a model that is `served` holds already is not read again. Where the sources cannot be
    served, the version before stays, and the error is a ModelFileError, ValueError or OSError.
    """
    with _wait_for(run.path / "reload.lock"):
        before = read_current(run) if run.current else None
        number = 1 if before is None else before.number + 1
        folder = run.versions / str(number)
        shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
        try:
            with naming_sources(sources, folder):
                opened = _make(run, sources, config, folder, served)
            _check_kinds(sources, opened.opened_from.kinds, before)
            (folder / _DESCRIBED).write_text(json.dumps(asdict(opened.opened_from)))
            link = run.path / f"current.{number}"
            link.unlink(missing_ok=True)
            link.symlink_to(f"versions/{folder.name}")
            link.replace(run.path / "current")
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        for old in run.versions.iterdir():
            if int(old.name) <= number - _KEPT:
                shutil.rmtree(old, ignore_errors=True)
        return opened


def _make(
    run: RunFolder,
    sources: Sources,
    config: ServeConfig,
    folder: Path,
    served: LoadedModel | None,
) -> LoadedModel:
    known = None if served is None else run.versions / str(served.opened_from.number)
    if known is not None and not known.exists():
        known = None
    name = take_snapshots(sources, folder, known)
    if config.api_key_file is not None:
        read_keys(config.api_key_file).save(folder / KEYS)
    taken = snapshot_files(folder, len(sources.files))
    version = ModelVersion(int(folder.name), name, trained=identify_base(taken[0]))
    opened = open_version(folder, version, config, served)
    before = [] if known is None else map(identify_base, snapshot_files(known, len(taken)))
    matchers = zip(sources.files, taken, opened.matchers.values(), strict=False)
    for (source, file, matcher), base in zip_longest(matchers, before):
        if identify_base(file) != base:
            # The checksums of a forged file are right, but a query would come across its rows.
            read_part(source, f"{matcher.kind} matcher", partial(check_rows, matcher))
    return opened


def _check_kinds(sources: Sources, kinds: tuple[str, ...], before: ModelVersion | None) -> None:
    """Raise unless names of matchers, those of their kinds, stay: callers rely on them."""
    expected = kinds if before is None else before.kinds
    for path, kind, wanted in zip(sources.files, kinds, expected, strict=True):
        if kind != wanted:
            rule = f"a reload must bring a {wanted} matcher as before; got a {kind}"
            raise ModelFileError(rule, path=path)


@contextmanager
def _wait_for(file: Path) -> Iterator[None]:
    """Hold a lock; another reload may have begun before the model was replaced."""
    deadline = time.monotonic() + _WAIT_SECONDS
    with file.open("w") as stream:
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    rule = "only one reload at a time; another is running"
                    raise RequestError("reload_running", rule) from None
            time.sleep(_POLL_SECONDS)
        yield


def _lock_new(file: Path) -> IO[str]:
    """Return a new lock, held before anyone can see it, until it is closed or the process ends."""
    with atomic_file(file) as staged:
        stream = staged.open("w")
        fcntl.flock(stream, fcntl.LOCK_EX)
    return stream


def _remove_leftovers(parent: Path, pattern: str) -> None:
    for folder in parent.glob(pattern):
        with suppress(OSError), (folder / "lock").open() as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)  # an OSError: its server lives
            shutil.rmtree(folder, ignore_errors=True)
