"""Store: what was measured already, on which data, configuration and machine?

A comparison can be stopped and continued: each finished result is stored with a digest of all that
it depends on, and is used again only while that digest and the machine are the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
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
from matchset.evaluate.evaluation import Evaluation, Score
from matchset.evaluate.qrels import Qrels
from matchset.lab.experiments.timing import Timing
from matchset.matchers.base import Matcher
from matchset.storage.codec import decode, encode
from matchset.storage.file import is_ours, open_file, write_file
from matchset.strings import Strings

RESULT = "row of a comparison"  # a kind of file
PACKAGES = ("matchset", "numpy", "scipy", "duckdb", "torch", "usearch", "matplotlib")
_SCRATCH = "measured"
_LOG = ("queries", "products", "events", "query", "product", "event", "day", "count")


def make_digest(*parts: Any) -> str:
    """Hash logs, catalogs, texts, arrays, configurations and plain values by SHA-256, shortened."""
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


def describe_machine() -> dict[str, str]:
    """Return processor, cores, memory and system."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": _processor(),
        "cores": str(count_threads(None)),
        "memory": f"{memory / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}",
    }


def list_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages used, if installed."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """The result of one contender."""

    digest: str
    features: int | None  # size of its vocabulary
    train_seconds: float
    disk_bytes: int
    answers: Sequence[Sequence[str]]  # the ten best products of each example
    evaluation: Evaluation
    timing: Timing


@dataclass(frozen=True, slots=True)
class Store:
    """The folder of an experiment."""

    path: Path

    def prepare(self) -> Store:
        """Check that the folder can be written, before the work starts, and return self."""
        rows, models = self.path / "rows", self.path / "models"
        if not rows.exists() and models.is_dir() and any(models.iterdir()):
            raise FileExistsError(
                f"{models}: must be the folder of an experiment, with {rows.name} beside it; got "
                "other models; choose another folder"
            )
        try:
            for folder in (rows, models):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = f"{error.strerror}; choose another folder"
            raise OSError(f"{self.path}: cannot be written: {reason}") from None
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise PermissionError(f"{self.path}: cannot be written; choose another folder")
        return self

    def model(self, name: str) -> Path:
        """Return where the model of a contender is stored."""
        return self.path / "models" / name

    def load_result(self, name: str, digest: str, qrels: Qrels) -> Measurement | None:
        """Return a stored result, if it is from this data, configuration and machine."""
        try:
            opened = open_file(self.path / "rows" / name, RESULT)
        except ModelFileError:  # missing or damaged: measure again
            return None
        header, arrays = opened.header.value, opened.arrays
        here = describe_machine()
        if header.get("digest") != digest or header.pop("machine", here) != here:
            return None
        scores = decode(tuple[Score, ...], header.pop("scores"), {})
        evaluation = Evaluation(
            scores,
            tuple(header.pop("ks")),
            qrels.queries,
            qrels.traffic,
            np.bincount(qrels.row, minlength=len(qrels)).astype(np.float64),
            np.array(arrays["recalls"]),
            np.array(arrays["sizes"]),
        )
        timing = Timing(np.array(arrays["total"]), np.array(arrays["vectorizing"]))
        return Measurement(**header, evaluation=evaluation, timing=timing)

    def remove_result(self, name: str) -> None:
        """Remove a result before its model is replaced, so that the two never disagree."""
        _remove(self.path / "rows" / name)

    def save_result(self, name: str, result: Measurement) -> None:
        """Store a finished result, replacing one of the same name."""
        arrays = {
            "recalls": result.evaluation.recalls,
            "sizes": result.evaluation.sizes,
            "total": result.timing.total,
            "vectorizing": result.timing.vectorizing,
        }
        names = ("digest", "features", "train_seconds", "disk_bytes", "answers")
        header = {name: getattr(result, name) for name in names}
        evaluated = {
            "scores": encode(result.evaluation.scores, tuple[Score, ...])[0],
            "ks": list(result.evaluation.ks),
        }
        _write(
            self.path / "rows" / name,
            RESULT,
            {**header, **evaluated, "machine": describe_machine()},
            arrays,
        )


def measure_disk(matcher: Matcher, folder: Path, *, store_at: Path | None = None) -> int:
    """Return the size of a saved matcher in bytes, and store it at `store_at` if that is given."""
    path = store_at or folder / _SCRATCH
    _remove(path)
    matcher.save(path)
    size = path.stat().st_size
    if store_at is None:
        path.unlink()
    return size


def _write(
    path: Path, kind: str, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    _remove(path)
    write_file(path, kind, dict(header), dict(arrays))


def _remove(path: Path) -> None:
    """Remove a file that matchset wrote; anything else is an error."""
    if path.exists() and not is_ours(path):
        raise FileExistsError(f"{path}: must be written by matchset; choose another folder")
    path.unlink(missing_ok=True)
