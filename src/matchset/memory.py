"""Memory: how much may a process own, and who gets which share of it?

What is owned is memory of no file (RssAnon). Arrays that would go beyond their share are temporary
files without a name, mapped into memory (`native/buffer.hpp`). No result depends on the limit.

Any large array is mapped, not a few known ones: a training of 200,000 products owns 1.6 GB without
a limit, of which reading takes 1.1 GB and the log that was read 0.5; with 0.8 GB, it owns 0.64 GB.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from matchset import _native
from matchset.errors import ParameterError

Memory = int | str  # bytes, or a size such as "3GB"
DEFAULT_MEMORY = "4GB"

# Shares of the limit. A step uses one of the last two at a time; what is left over is for small
# objects and for what the libraries below us allocate.
_ARRAYS = 3 / 4  # all that is owned when a large array is mapped instead
_TABLES = 1 / 2  # DuckDB, while a table is read
_COUNTERS = 1 / 4  # counters of n-grams
_UNITS = {"": 1, **{f"{p}{b}": n**i for b, n in (("B", 1000), ("IB", 1024))
                    for i, p in enumerate(("", "K", "M", "G", "T"))}}  # fmt: skip
_limit: ContextVar[tuple[int, str] | None] = ContextVar("_limit", default=None)  # bytes, folder


def parse_memory(memory: Memory) -> int:
    """Return the bytes of a size; a ParameterError if it is none."""
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?B)?\s*", memory.upper())
        unit = found and _UNITS.get(found[2] or "")
        n_bytes = int(float(found[1]) * unit) if found and unit else 0
    else:
        n_bytes = memory if isinstance(memory, int) and not isinstance(memory, bool) else 0
    if not 0 < n_bytes < 2**62:
        rule = f"must be a size such as 4GB, or a number of bytes; got {memory!r}"
        raise ParameterError(rule, parameter="memory")
    return n_bytes


@contextmanager
def limit_memory(memory: Memory, folder: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Let the process own at most so much inside; what needs more goes to files in `folder`.

    By default that is the folder of the limit around this one, or else the one for temporary files.
    Threads that are started inside need the context of this one (`contextvars.copy_context`).
    """
    n_bytes, outer = parse_memory(memory), _limit.get()
    path = tempfile.gettempdir() if outer is None else outer[1]
    if folder is not None and Path(folder).is_dir():
        path = str(Path(folder).absolute())
    token, handler = _limit.set((n_bytes, path)), _native.set_numpy_handler()
    before = _native.limit_memory(_share(_ARRAYS), path)
    try:
        yield
    except Exception:  # a MemoryError, or what other modules make of C++'s
        if not _native.was_disk_full():
            raise
        advice = f"free some space, or allow more than {n_bytes / 1e9:.3g} GB of memory"
        raise OSError(errno.ENOSPC, f"the disk is full; {advice}", path) from None
    finally:
        _native.limit_memory(*before)
        _native.set_numpy_handler(handler)
        _limit.reset(token)


def memory_for_tables() -> int:
    """Return the bytes that DuckDB may use."""
    return _share(_TABLES)


def memory_for_counters() -> int:
    """Return the bytes that counters of n-grams may use."""
    return _share(_COUNTERS)


def current_memory() -> int:
    """Return the limit in force, or the default."""
    found = _limit.get()
    return parse_memory(DEFAULT_MEMORY) if found is None else found[0]


def _share(part: float) -> int:
    return max(1, int(part * current_memory()))
