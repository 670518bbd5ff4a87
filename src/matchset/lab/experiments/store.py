"""Digest: is this the same data, or the same configuration, as before?"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from matchset.config import count_threads
from matchset.data.catalog import Catalog
from matchset.data.log import Log
from matchset.errors import ModelFileError
from matchset.evaluate.metrics import Values
from matchset.lab.experiments.timing import Timing
from matchset.storage.atomic import remove_leftovers, staging_folder
from matchset.storage.folders import MANIFEST, open_folder, write_folder
from matchset.strings import Strings

_LOG = ("queries", "products", "events", "query", "product", "event", "day", "count")


def make_digest(*parts: Any) -> str:
    """A name for values: logs, catalogues, texts, arrays, configurations and plain values."""
    state = hashlib.sha256()
    for part in parts:
        _feed(state, part)
    return state.hexdigest()[:32]


def _feed(state: Any, part: Any) -> None:
    if isinstance(part, Log):
        for name in _LOG:
            _feed(state, getattr(part, name))
    elif isinstance(part, Catalog):
        for texts in (part.ids, part.titles, part.descriptions):
            _feed(state, texts)
    elif isinstance(part, Strings):
        _feed(state, part.lengths)
        _feed(state, part.used)
    elif isinstance(part, np.ndarray):
        state.update(f"{part.dtype.str}{part.shape}".encode())
        state.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    else:
        plain = asdict(part) if is_dataclass(part) and not isinstance(part, type) else part
        state.update(json.dumps(plain, sort_keys=True).encode() + b"\n")


PACKAGES = ("matchset", "numpy", "scipy", "duckdb", "bm25s", "torch", "usearch", "matplotlib")


def describe_machine() -> dict[str, str]:
    """Processor, cores and memory, as far as the system tells."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": str(count_threads(None)),
        "memory": f"{memory / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
    }


def list_versions() -> dict[str, str]:
    """Version of Python and of each package that had a part in it and is installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


ROW, FINDINGS = "row of a comparison", "findings"
_SCRATCH = "measured"


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """All that is known of a row once it is finished."""

    digest: str
    features: int | None  # of its vocabulary
    train_seconds: float
    disk_bytes: int
    scores: Sequence[Mapping[str, Any]]  # as of `Evaluation.to_dicts`
    answers: Sequence[Sequence[str]]  # the ten best products for each example
    recalls: Values  # of each question at each k, (n_questions, n_ks)
    timing: Timing


@dataclass(frozen=True, slots=True)
class Store:
    """The folder of an experiment."""

    path: Path

    def prepare(self) -> Store:
        """Itself, if the folder can be written; asked before the work."""
        rows, models = self.path / "rows", self.path / "models"
        if not rows.exists() and models.is_dir() and any(models.iterdir()):
            raise FileExistsError(
                f"{models}: must be of an experiment, with {rows.name} beside it; got other "
                "models; choose another folder"
            )
        try:
            for folder in (rows, models):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = f"{error.strerror}; choose another folder"
            raise OSError(f"{self.path}: cannot be written: {reason}") from None
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise PermissionError(f"{self.path}: cannot be written; choose another folder")
        remove_leftovers(self.path / _SCRATCH)  # what a run that was killed has left
        return self

    def model(self, name: str) -> Path:
        """Where a row's model is kept."""
        return self.path / "models" / name

    def find_row(self, name: str, digest: str) -> Measured | None:
        """A finished row, if it is of this data, configuration and machine."""
        try:
            header, arrays = open_folder(self.path / "rows" / name, ROW)
        except ModelFileError:  # there is none, or it is damaged: it is made again
            return None
        here = describe_machine()
        if header.get("digest") != digest or header.pop("machine", here) != here:
            return None
        timing = Timing(np.array(arrays["total"]), np.array(arrays["vectorizing"]))
        return Measured(**header, recalls=np.array(arrays["recalls"]), timing=timing)

    def drop_row(self, name: str) -> None:
        """Forget a row whose model is about to be another's, whatever happens then."""
        _remove(self.path / "rows" / name)

    def keep_row(self, name: str, row: Measured) -> None:
        """Keep a finished row, in place of one of the same name."""
        arrays = {
            "recalls": row.recalls,
            "total": row.timing.total,
            "vectorizing": row.timing.vectorizing,
        }
        names = ("digest", "features", "train_seconds", "disk_bytes", "scores", "answers")
        header = {name: getattr(row, name) for name in names} | {"machine": describe_machine()}
        _write(self.path / "rows" / name, ROW, header, arrays)

    def keep_findings(self, kind: str, findings: Mapping[str, Any]) -> None:
        """Keep what the report tells of a comparison or a sweep."""
        _write(self.path / kind, FINDINGS, findings, {})

    def find_findings(self, kind: str) -> dict[str, Any] | None:
        """What a comparison or a sweep found; None where there was none."""
        try:
            header, _ = open_folder(self.path / kind, FINDINGS)
        except ModelFileError:
            return None
        return header


def measure_disk(matcher: Any, folder: Path, *, keep_at: Path | None = None) -> int:
    """Bytes of a saved matcher; it stays at `keep_at`, if that is given."""
    with staging_folder(folder / _SCRATCH) as scratch:
        model = scratch / "model"
        matcher.save(model)
        size = sum(file.stat().st_size for file in model.rglob("*") if file.is_file())
        if keep_at is not None:
            _remove(keep_at)
            model.rename(keep_at)
        shutil.rmtree(scratch)
    return size


def _write(
    path: Path, kind: str, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    try:
        open_folder(path, kind)
    except ModelFileError:  # half a row of a killed run is never there: this is damaged
        _remove(path)
    write_folder(path, kind, header=header, arrays=arrays, overwrite=True)


def _remove(path: Path) -> None:
    """Make room for what comes there; what matchset did not write stays, and is an error."""
    is_ours = (path / MANIFEST).is_file() or (path.is_dir() and not any(path.iterdir()))
    if path.exists() and not is_ours:
        raise FileExistsError(f"{path}: must be what matchset wrote; choose another folder")
    shutil.rmtree(path, ignore_errors=True)
