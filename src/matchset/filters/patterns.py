"""Patterns: which texts are like '%sofa%'?

Not by regular expressions: patterns come from users, and some would take exponential time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

# A run of characters without %; None is an underscore, which stands for any one.
_Run: TypeAlias = "str | tuple[str | None, ...]"


def match_pattern(pattern: str, texts: Iterable[str]) -> NDArray[np.bool_]:
    """Which texts have a pattern, (n_texts,)."""
    runs = _split(pattern)
    return np.fromiter((_has(text, runs) for text in texts), dtype=np.bool_)


def _split(pattern: str) -> list[_Run]:
    """The runs between the % of a pattern; without any, there is one run."""
    runs: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == "%":
            runs.append([])
        elif character == "_":
            runs[-1].append(None)
        elif character == "\\":
            runs[-1].append(next(characters, character))
        else:
            runs[-1].append(character)
    return [_pack(run) for run in runs]


def _pack(run: list[str | None]) -> _Run:
    plain = [character for character in run if character is not None]
    return "".join(plain) if len(plain) == len(run) else tuple(run)


def _has(text: str, runs: Sequence[_Run]) -> bool:
    """The first run begins the text, the last ends it, the others follow each other between."""
    first, last = runs[0], runs[-1]
    if len(runs) == 1:
        return len(text) == len(first) and _is_at(text, first, 0)
    end = len(text) - len(last)
    if end < len(first) or not _is_at(text, first, 0) or not _is_at(text, last, end):
        return False
    at = len(first)
    for run in runs[1:-1]:  # the leftmost place leaves most to the rest
        at = _find(text, run, at, end)
        if at < 0:
            return False
        at += len(run)
    return True


def _is_at(text: str, run: _Run, at: int) -> bool:
    if isinstance(run, str):
        return text.startswith(run, at)
    return all(wanted is None or text[at + index] == wanted for index, wanted in enumerate(run))


def _find(text: str, run: _Run, begin: int, end: int) -> int:
    if isinstance(run, str):
        return text.find(run, begin, end)
    return next((at for at in range(begin, end - len(run) + 1) if _is_at(text, run, at)), -1)
