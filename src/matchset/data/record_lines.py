"""Record lines: which lines of a folder of records are whole?

A server that was killed, or that is writing just now, leaves the last line of a file torn. Beside
its records, a folder has the definition of the experiment, which is no record.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Any

from matchset.data.files import PathLike
from matchset.data.tables import is_frame

_LINES = ".jsonl"
_BLOCK = 1 << 16


@contextmanager
def whole_lines(source: Any) -> Iterator[tuple[Any, int]]:
    """The source with JSON Lines files that end in a whole line, and how many lines were torn.

    Of a folder that has files of JSON Lines, those alone are taken, and empty ones are left out.
    """
    if is_frame(source):
        yield source, 0
        return
    entries = [source] if isinstance(source, str | os.PathLike) else list(source)
    with TemporaryDirectory() as folder:
        found: list[PathLike] = []
        n_torn = 0
        for number, path in enumerate(each for entry in entries for each in _expand(entry)):
            end = _find_end(path)
            n_torn += end is not None
            if end is None:
                found.append(path)
            elif end > 0:
                found.append(_copy_begin(Path(path), end, Path(folder) / str(number)))
        yield found, n_torn


def _expand(entry: PathLike) -> list[PathLike]:
    if not Path(entry).is_dir():
        return [entry]
    inside = sorted(Path(entry).rglob(f"*{_LINES}"))
    return [path for path in inside if path.stat().st_size] or [entry]


def _find_end(entry: PathLike) -> int | None:
    """Where the last whole line ends, if what follows is torn: no JSON, and without a line end."""
    path = Path(entry)
    if path.suffix.lower() != _LINES or not path.is_file():
        return None
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        last = b""
        while end > 0 and b"\n" not in last:
            begin = max(0, end - _BLOCK)
            file.seek(begin)
            last = file.read(end - begin) + last
            end = begin
    line = last[last.rfind(b"\n") + 1 :]
    try:
        json.loads(line or b"{}")
    except ValueError:
        return path.stat().st_size - len(line)
    return None


def _copy_begin(path: Path, n_bytes: int, folder: Path) -> Path:
    """A copy of the first bytes of a file, under its name."""
    folder.mkdir()
    copy = folder / path.name
    with path.open("rb") as whole, copy.open("wb") as part:
        copyfileobj(whole, part)
        part.truncate(n_bytes)
    return copy
