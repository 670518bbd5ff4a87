"""Record files: how do records get to disk, whole, from several workers?"""

from __future__ import annotations

import json
import math
import os
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any

from matchset.errors import DataError
from matchset.online.definition import Experiment
from matchset.storage.atomic import atomic_file

QUERIES, EVENTS, SHADOW = "queries", "events", "shadow"  # streams of records
_DEFINITION = "experiment.json"
_LOOK_SECONDS = 1.0  # between two looks whether a file was renamed


def begin_records(folder: Path, experiment: Experiment) -> Path:
    """Make the folder of an experiment's records; a DataError if it began as another experiment."""
    target = folder / experiment.name
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    file, now = target / _DEFINITION, _describe(experiment)
    if file.exists():
        _check_same(file, now)
    else:
        with atomic_file(file) as staged:
            staged.write_text(json.dumps(now, indent=2) + "\n", "utf-8")
    return target


def shadow_folder(folder: Path) -> Path:
    """Make the folder of the records of shadows, if there is none."""
    target = folder / SHADOW
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    return target


class RecordLog:
    """The records that a process appends, a line each, to a file per stream.

    All workers append to the same files, by one write. Who rotates them renames them: the next
    record goes to a new file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, tuple[int, float]] = {}  # and when it was looked at
        self._torn: set[str] = set()  # streams whose last line is cut

    def write(self, stream: str, lines: bytes) -> bool:
        """Append whole lines; return whether they are there."""
        try:
            file = self._find(stream)
            if stream in self._torn:
                lines = b"\n" + lines
            n_written = os.write(file, lines)
        except OSError:
            return False
        if n_written < len(lines):  # the disk is full
            self._torn.add(stream)
            return False
        self._torn.discard(stream)
        return True

    def _find(self, stream: str) -> int:
        now, path = time.monotonic(), self._folder / f"{stream}.jsonl"
        file, looked_at = self._open.get(stream, (-1, -math.inf))
        if now - looked_at > _LOOK_SECONDS:
            if file >= 0 and not _is_at(file, path):
                os.close(file)
                file = -1
            if file < 0:
                file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._open[stream] = file, now
        return file


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _describe(experiment: Experiment) -> dict[str, Any]:
    """Return what must stay; the salt as a digest, as the hashed units lie beside it."""
    values = json.loads(json.dumps(experiment.to_dict()))
    values["salt"] = blake2b(experiment.key, digest_size=16).hexdigest()
    return dict(values)


def _check_same(file: Path, now: dict[str, Any]) -> None:
    try:
        before = json.loads(file.read_bytes())
    except ValueError:
        before = None
    if not isinstance(before, dict):
        rule = "must be the definition that the experiment began with"
        raise DataError(f"{rule}; got something else", path=file)
    for name in now:
        if before.get(name) != now[name]:
            raise DataError(
                f"{name} must stay as when the experiment began; got a change; "
                "give what you changed another name, as a new experiment",
                path=file,
            )
