"""Files: which files does a path, a glob or a folder stand for, and what is their format?"""

from __future__ import annotations

import glob
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from matchset.errors import DataError

PathLike: TypeAlias = str | os.PathLike[str]

_FORMATS = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".csv": "CSV",
    ".tsv": "TSV",
    ".tab": "TSV",
    ".jsonl": "JSON Lines",
    ".ndjson": "JSON Lines",
    ".json": "JSON",
}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a known format."""

    path: Path
    format: str
    is_partitioned: bool = False  # in folders named key=value, which become columns
    data: Path | None = None  # a copy in UTF-8 that is read instead


def find_files(source: Any) -> list[DataFile]:
    """Find the files of a path, a glob, a folder or a list of them: each once, in a fixed order.

    The files of a folder or a glob must have one format. In folders, names that start with "." or
    "_" are skipped, as many tools write such files beside their data.
    """
    entries = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not entries:
        raise DataError("must name at least one file; got an empty list", parameter="source")
    found: dict[object, DataFile] = {}
    for entry in entries:
        for file in _expand(entry):
            found.setdefault(_identify(file), file)
    return list(found.values())


def _identify(file: DataFile) -> object:
    """Return what makes two files the same: a link to a folder around it gives a file many paths.

    The names of folders around it may be columns. Hard links are files of their own, as some tools
    link files that happen to be equal.
    """
    keys = [part for part in file.path.parts[:-1] if "=" in part] if file.is_partitioned else []
    return file.path.resolve(), *keys


def _expand(entry: PathLike) -> list[DataFile]:
    if not isinstance(entry, str | os.PathLike):
        raise TypeError(f"source must be a path or a list of paths; got {type(entry).__name__}")
    path = Path(entry)
    if path.is_dir():
        return _check_one_format(_find_inside(path, path), path)
    if path.exists() or path.is_symlink():
        return [_check_file(path)]
    matches = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 (absolute patterns)
    if not matches:
        rule = "no file matches" if glob.has_magic(str(path)) else "there is no such file"
        raise DataError(rule, path=path)
    n_fixed = next(n for n, part in enumerate(path.parts) if glob.has_magic(part))
    base = Path(*path.parts[:n_fixed])
    return _check_one_format([file for m in matches for file in _find_inside(Path(m), base)], path)


def _find_inside(path: Path, base: Path) -> list[DataFile]:
    """Return a file, or the files inside a folder; folders key=value below `base` are columns."""
    paths = [path]
    if path.is_dir():
        paths = [
            inner
            for inner in sorted(path.rglob("*"))
            if not inner.is_dir()
            and not any(part.startswith((".", "_")) for part in inner.relative_to(path).parts)
        ]
        if not paths:
            raise DataError("a folder must hold at least one data file; got none", path=path)
    return [
        _check_file(each, is_partitioned=any("=" in p for p in each.relative_to(base).parts[:-1]))
        for each in paths
    ]


def _check_file(path: PathLike, *, is_partitioned: bool = False) -> DataFile:
    path = Path(path).absolute()
    if path != Path(os.fsencode(path).decode(errors="replace")):
        raise DataError("the name of a file must be UTF-8", path=path)
    if not path.exists():
        raise DataError("a link must lead to a file; this one is broken", path=path)
    name = path.name.lower()
    if name.endswith(".zst"):  # DuckDB takes most of those that were cut for whole ones
        rule = "a data file must not be packed with zstd; unpack it:"
        raise DataError(f"{rule} zstd -d {shlex.quote(str(path))}", path=path)
    name = name.removesuffix(".gz")
    form = _FORMATS.get(Path(name).suffix)
    if form is None or (form == "Parquet" and name != path.name.lower()):
        rule = (
            f"a data file must end in one of {', '.join(_FORMATS)}, all but Parquet also with .gz"
        )
        raise DataError(f"{rule}; got {path.name!r}", path=path)
    if path.is_file() and path.stat().st_size == 0:
        raise DataError("a data file must not be empty", path=path)
    return DataFile(path, form, is_partitioned)


def _check_one_format(files: list[DataFile], where: Path) -> list[DataFile]:
    first = files[0]
    other = next((file for file in files if file.format != first.format), None)
    if other:
        rule = f"all files must have one format; got {first.format} ({first.path.name})"
        raise DataError(f"{rule} and {other.format} ({other.path.name})", path=where)
    return files
