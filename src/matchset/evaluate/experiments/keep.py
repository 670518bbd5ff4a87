"""Keeping: what of an experiment is done already?

The folder of an experiment has `rows/NAME` for each finished row, `models/NAME` for models that are
needed again, and one folder for all that the report tells of each kind of experiment. All are
written at once or not at all, and each row carries the digest of its data and configuration.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from matchset.errors import ModelFileError
from matchset.evaluate.experiments.timing import Timing
from matchset.evaluate.metrics import Values
from matchset.folders import open_folder, write_folder

ROW, FINDINGS = "row of a comparison", "findings"
_SCRATCH = ".measured-"


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
        for folder in (self.path / "rows", self.path / "models"):
            folder.mkdir(parents=True, exist_ok=True)
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise PermissionError(f"{self.path}: cannot be written; choose another folder")
        for left in self.path.glob(f"{_SCRATCH}*"):  # by a run that was killed
            shutil.rmtree(left, ignore_errors=True)
        return self

    def model(self, name: str) -> Path:
        """Where a row's model is kept."""
        return self.path / "models" / name

    def find_row(self, name: str, digest: str) -> Measured | None:
        """A finished row, if it is of this data and configuration."""
        try:
            header, arrays = open_folder(self.path / "rows" / name, ROW)
        except ModelFileError:  # there is none, or it is damaged: it is made again
            return None
        if header.get("digest") != digest:
            return None
        timing = Timing(np.array(arrays["total"]), np.array(arrays["vectorizing"]))
        return Measured(**header, recalls=np.array(arrays["recalls"]), timing=timing)

    def drop_row(self, name: str) -> None:
        """Forget a row whose model is about to be another's, whatever happens then."""
        shutil.rmtree(self.path / "rows" / name, ignore_errors=True)

    def keep_row(self, name: str, row: Measured) -> None:
        """Keep a finished row, in place of one of the same name."""
        arrays = {
            "recalls": row.recalls,
            "total": row.timing.total,
            "vectorizing": row.timing.vectorizing,
        }
        names = ("digest", "features", "train_seconds", "disk_bytes", "scores", "answers")
        header = {name: getattr(row, name) for name in names}
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
    with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=folder) as scratch:
        model = Path(scratch) / "model"
        matcher.save(model)
        size = sum(file.stat().st_size for file in model.rglob("*") if file.is_file())
        if keep_at is not None:
            shutil.rmtree(keep_at, ignore_errors=True)
            model.rename(keep_at)
    return size


def _write(
    path: Path, kind: str, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    if path.exists():
        try:
            open_folder(path, kind)
        except ModelFileError:  # half a row of a killed run is never there: this is damaged
            shutil.rmtree(path)
    write_folder(path, kind, header=header, arrays=arrays, overwrite=True)
