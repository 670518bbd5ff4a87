"""Switch: how does a new model take the place of the one that is served?

Nothing is served from the model's folder itself. A reload takes a snapshot of it, verifies every
byte, opens it once, and only then publishes it; a bad model changes nothing. Workers open what is
published and switch between two requests.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace

from matchset.errors import ModelFileError
from matchset.serve.http.auth import read_keys
from matchset.serve.http.request_errors import RequestError
from matchset.serve.loaded_model import KEYS, LoadedModel, open_version
from matchset.serve.options import ServeConfig
from matchset.serve.reload.run_folder import (
    RELOAD_LOCK,
    ModelVersion,
    RunFolder,
    current_version,
    is_locked,
    publish,
    read_workers,
    remove_unused_versions,
    try_lock,
)
from matchset.serve.reload.snapshots import (
    Sources,
    naming_sources,
    snapshot_folders,
    take_snapshots,
)
from matchset.storage.folders import checksum, verify_folder
from matchset.storage.segments import identify_base

logger = logging.getLogger(__name__)
_POLL_SECONDS = 0.01
_ATTEMPTS = 3  # to load what kills the worker that loads it


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """What a reload did."""

    version: str
    previous: str
    workers: int


def make_version(
    run: RunFolder,
    sources: Sources,
    config: ServeConfig,
    number: int,
    *,
    kinds: tuple[str, ...] | None = None,
    served: LoadedModel | None = None,
) -> ModelVersion:
    """A verified snapshot that has been opened once, of matchers of these kinds.

    What a model that is `served` holds already is not read again.
    """
    folder, begun = run.versions / str(number), time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)  # left by a reload that was killed
    try:
        with naming_sources(sources, folder):
            before = None if served is None else served.opened_from
            known = None if before is None else run.versions / before.folder
            name = take_snapshots(sources, folder, config.snapshot, known)
            if config.api_key_file is not None:
                read_keys(config.api_key_file).save(folder / KEYS)
            taken = snapshot_folders(folder, 1)[0]
            trained = identify_base(taken)
            is_same = before is not None and before.trained == trained
            base = before.base if before is not None and is_same else folder.name
            made = ModelVersion(
                number,
                folder.name,
                name,
                trained=trained,
                digest=checksum(taken),
                begun=begun,
                base=base,
            )
            opened = open_version(run, made, sources, config, served)
        made = replace(made, kinds=opened.kinds)
        _check_kinds(sources, made.kinds, kinds)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return made


def _check_kinds(sources: Sources, kinds: tuple[str, ...], before: tuple[str, ...] | None) -> None:
    """Names of matchers are those of their kinds, and callers rely on them: they stay."""
    for path, kind, expected in zip(sources.folders, kinds, before or kinds, strict=True):
        if kind != expected:
            rule = f"a reload must bring a {expected} matcher as before; got a {kind}"
            raise ModelFileError(rule, path=path)


def reload(run: RunFolder, sources: Sources, config: ServeConfig) -> ReloadResult:
    """Load the model's folder again; returns when every worker has switched."""
    deadline = time.monotonic() + config.reload_seconds
    while True:
        try:
            with try_lock(run.path / RELOAD_LOCK) as is_mine:
                if is_mine:
                    return _reload_locked(run, sources, config)
        except OSError as error:  # a full disk, too many open files
            rule = "a reload must be able to open its files"
            raise RequestError("model_rejected", f"{rule}; got {error}") from None
        # Another reload may have begun before the folder was replaced: this one waits its turn.
        if time.monotonic() > deadline:
            raise RequestError("reload_running", "only one reload at a time; another is running")
        time.sleep(_POLL_SECONDS)


def reload_for(
    run: RunFolder,
    sources: Sources,
    config: ServeConfig,
    wanted: tuple[str, float],
    served: LoadedModel,
) -> str:
    """Serve what the model's folder held when it was written to, or later; returns its version.

    `wanted` is the digest of its manifest, and the time.

    Returns when every worker has switched. One reload serves all that was written before it, and
    reads that alone.
    """
    deadline = time.monotonic() + config.reload_seconds
    while not (now := current_version(run)).has(*wanted):
        with try_lock(run.path / RELOAD_LOCK) as is_mine:
            if is_mine and not current_version(run).has(*wanted):
                return _reload_locked(run, sources, config, served).version
        if time.monotonic() > deadline:
            raise RequestError("reload_timeout", "another reload takes too long")
        time.sleep(_POLL_SECONDS)
    _wait_for_workers(run, now, now, config.reload_seconds)
    return now.name


def reload_if_needed(run: RunFolder, sources: Sources, config: ServeConfig) -> ReloadResult | None:
    """Reload if a signal or the folder calls for it, unless another worker is doing so."""
    with try_lock(run.path / RELOAD_LOCK) as is_mine:
        if not is_mine or not needs_reload(run, sources, config):
            return None
        return _reload_locked(run, sources, config)


def replace_damaged(run: RunFolder, sources: Sources, config: ServeConfig) -> str | None:
    """Make the served version again from its folder, if its files have changed in place.

    Returns why that is not possible, or None: nothing was damaged, or it is replaced.
    """
    with try_lock(run.path / RELOAD_LOCK) as is_mine:
        if not is_mine:  # another version is being made
            return None
        before = current_version(run)
        damage = _find_damage(run, sources, before)
        if damage is None:
            return None
        logger.error("the served model is damaged: %s", damage)
        try:
            publish(run, make_version(run, sources, config, before.number + 1, kinds=before.kinds))
        except (ValueError, OSError, MemoryError) as error:
            return str(error)
        logger.warning("the served model was made again from its folder")
        return None


def _find_damage(run: RunFolder, sources: Sources, version: ModelVersion) -> str | None:
    try:
        for folder in snapshot_folders(run.versions / version.folder, len(sources.folders)):
            verify_folder(folder)
    except (ValueError, OSError) as error:
        return str(error)
    return None


def needs_reload(run: RunFolder, sources: Sources, config: ServeConfig) -> bool:
    """Whether there is something to load that has not been attempted yet.

    What killed the workers that tried to load it is left alone after a few attempts.
    """
    trigger = reload_trigger(run, sources, config)
    return trigger != run.read_text("attempted") and _count_begun(run, trigger) < _ATTEMPTS


def _count_begun(run: RunFolder, trigger: str) -> int:
    """How often a reload began for a trigger, and came to no end."""
    number, _, begun = run.read_text("begun").partition("\n")
    return int(number) if begun == trigger else 0


def is_reloading(run: RunFolder) -> bool:
    """Whether a worker is reloading right now."""
    return is_locked(run.path / RELOAD_LOCK)


def reload_trigger(run: RunFolder, sources: Sources, config: ServeConfig) -> str:
    """A text that changes when a signal or the watched folder calls for a reload."""
    return f"{run.read_text('requested')}\n{sources.identity() if config.watch else ''}"


def _reload_locked(
    run: RunFolder, sources: Sources, config: ServeConfig, served: LoadedModel | None = None
) -> ReloadResult:
    trigger = reload_trigger(run, sources, config)
    with suppress(OSError):  # disk full
        run.write_text("begun", f"{_count_begun(run, trigger) + 1}\n{trigger}")
    try:
        return _load_and_switch(run, sources, config, served)
    finally:
        # At the end: if this worker is killed before, another one starts over.
        with suppress(OSError):  # disk full: it will be attempted again, a few times
            run.write_text("attempted", trigger)


def _load_and_switch(
    run: RunFolder, sources: Sources, config: ServeConfig, served: LoadedModel | None
) -> ReloadResult:
    before = current_version(run)
    try:
        made = _make_in_time(run, sources, config, before, served)
        publish(run, made)
    except (ValueError, OSError, MemoryError) as error:
        raise RequestError("model_rejected", f"{error}; still serving the old model") from None
    n_workers = _wait_for_workers(run, made, before, config.reload_seconds)
    remove_unused_versions(run)
    return ReloadResult(made.name, before.name, n_workers)


def _make_in_time(
    run: RunFolder,
    sources: Sources,
    config: ServeConfig,
    before: ModelVersion,
    served: LoadedModel | None,
) -> ModelVersion:
    """The next version; a file system that hangs must not block the next reload.

    A thread that waits for a disk cannot be stopped: it is left alone, and what it makes removed.
    """
    number, future = before.number + 1, Future[ModelVersion]()

    def make() -> None:
        try:
            made = make_version(run, sources, config, number, kinds=before.kinds, served=served)
            future.set_result(made)
        except BaseException as error:  # raised again by the thread that waits
            future.set_exception(error)

    threading.Thread(target=make, name="snapshot", daemon=True).start()
    done, _ = wait([future], config.snapshot_seconds)
    if done:
        return future.result()
    publish(run, replace(before, number=number))  # so that the next reload uses another folder
    folder = run.versions / str(number)
    future.add_done_callback(lambda _: shutil.rmtree(folder, ignore_errors=True))
    rule = f"a model must be read within {config.snapshot_seconds:g} s"
    raise RequestError("reload_timeout", f"{rule}; got no end; still serving the old model")


def _wait_for_workers(
    run: RunFolder, made: ModelVersion, before: ModelVersion, seconds: float
) -> int:
    """Wait until every live worker serves the new version; returns how many there are."""
    deadline = time.monotonic() + seconds
    while True:
        workers = read_workers(run)
        reported = [status for status in workers.values() if status is not None]
        errors = [one.error for one in reported if one.number == made.number and one.error]
        if errors:  # the snapshot before is still there: workers use it
            publish(run, replace(before, number=made.number + 1))
            rule = "every worker must be able to open the model"
            raise RequestError(
                "model_rejected", f"{rule}; got {errors[0]}; still serving the old model"
            )
        late = [
            pid
            for pid, status in workers.items()
            if status is None or status.number < made.number or not status.is_open
        ]
        if not late and workers:
            return len(workers)
        if time.monotonic() > deadline:
            rule = f"workers must switch within {seconds:g} s"
            raise RequestError("reload_timeout", f"{rule}; got {len(late)} that have not yet")
        time.sleep(_POLL_SECONDS)
