"""Reload: how does a new model take the place of the one that is served?

Nobody serves from the model's folder. A reload takes a snapshot of it, verifies every byte, opens
it once, and only then publishes it; a bad model changes nothing. Workers open what is published
and switch between two requests.
"""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from dataclasses import dataclass

from matchset.serve.http.auth import read_keys
from matchset.serve.http.problems import RequestError
from matchset.serve.loaded_model import KEYS, open_generation
from matchset.serve.options import ServeConfig
from matchset.serve.reload.generations import (
    Generation,
    RunFolder,
    current,
    is_held,
    publish,
    read_workers,
    sweep,
    try_hold,
)
from matchset.serve.reload.snapshots import Sources, naming, take_snapshots

_POLL_SECONDS = 0.01
_LOCK = "reload.lock"


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload did."""

    version: str
    previous: str
    workers: int


def make_generation(
    run: RunFolder, sources: Sources, config: ServeConfig, number: int
) -> Generation:
    """A verified snapshot that has been opened once; a ModelFileError says why there is none."""
    folder = run.generations / str(number)
    shutil.rmtree(folder, ignore_errors=True)  # of a reload that was killed
    try:
        with naming(sources, folder):
            version = take_snapshots(sources, folder, config.snapshot)
            if config.api_key_file is not None:
                read_keys(config.api_key_file).save(folder / KEYS)
            made = Generation(number, folder.name, version)
            open_generation(run, made, sources, config)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return made


def reload(run: RunFolder, sources: Sources, config: ServeConfig) -> Reloaded:
    """Serve what lies in the model's folder now; returns when every worker does."""
    deadline = time.monotonic() + config.reload_seconds
    while True:
        with try_hold(run.path / _LOCK) as is_mine:
            if is_mine:
                return _switch(run, sources, config)
        # Another reload may have begun before the folder was replaced: this one waits its turn.
        if time.monotonic() > deadline:
            raise RequestError("reload_running", "one reload at a time; another is under way")
        time.sleep(_POLL_SECONDS)


def reload_if_wanted(run: RunFolder, sources: Sources, config: ServeConfig) -> Reloaded | None:
    """Reload where a signal or the folder asks for it, unless another worker does so."""
    with try_hold(run.path / _LOCK) as is_mine:
        if not is_mine or not is_wanted(run, sources, config):
            return None
        return _switch(run, sources, config)


def is_wanted(run: RunFolder, sources: Sources, config: ServeConfig) -> bool:
    """Whether something should be tried that was not tried yet."""
    return wanted(run, sources, config) != run.read_text("tried")


def is_running(run: RunFolder) -> bool:
    """Whether some worker reloads just now."""
    return is_held(run.path / _LOCK)


def _switch(run: RunFolder, sources: Sources, config: ServeConfig) -> Reloaded:
    asked = wanted(run, sources, config)
    try:
        return _try(run, sources, config)
    finally:
        # At the end: what a worker that is killed has begun, another begins anew.
        with suppress(OSError):  # no room: it will be tried again, a few times
            run.write_text("tried", asked)


def _try(run: RunFolder, sources: Sources, config: ServeConfig) -> Reloaded:
    before = current(run)
    try:
        made = make_generation(run, sources, config, before.number + 1)
        publish(run, made)
    except (ValueError, OSError, MemoryError) as error:
        raise RequestError("model_refused", f"{error}; the old model is served on") from None
    n_workers = _wait(run, made, before, config.reload_seconds)
    sweep(run)
    return Reloaded(made.version, before.version, n_workers)


def wanted(run: RunFolder, sources: Sources, config: ServeConfig) -> str:
    """What should be tried: it changes when a reload is asked for by a signal or by the folder."""
    return f"{run.read_text('asked')}\n{sources.identity() if config.watch else ''}"


def _wait(run: RunFolder, made: Generation, before: Generation, seconds: float) -> int:
    """Wait until every live worker serves what was made; how many they are."""
    deadline = time.monotonic() + seconds
    while True:
        workers = read_workers(run)
        said = [one for one in workers.values() if one is not None]
        faults = [one.error for one in said if one.number == made.number and one.error]
        if faults:  # the snapshot before is still there: workers use it
            publish(run, Generation(made.number + 1, before.folder, before.version))
            rule = "every worker must be able to open the model; the old one is served on"
            raise RequestError("model_refused", f"{rule}; got {faults[0]}")
        late = [
            pid
            for pid, one in workers.items()
            if one is None or one.number < made.number or not one.is_open
        ]
        if not late and workers:
            return len(workers)
        if time.monotonic() > deadline:
            rule = f"workers must switch within {seconds:g} s"
            raise RequestError("reload_timeout", f"{rule}; got {len(late)} that have not yet")
        time.sleep(_POLL_SECONDS)
