"""Threads: how many may a call use?"""

from __future__ import annotations

import os

MAX_THREADS = 4096


def count_threads(threads: int | None) -> int:
    """The number asked for, or one per core that this process may use."""
    if threads is None:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    if isinstance(threads, bool) or not isinstance(threads, int):
        raise TypeError(f"threads must be an int; got {type(threads).__name__}")
    if not 1 <= threads <= MAX_THREADS:
        raise ValueError(f"threads must be from 1 to {MAX_THREADS}; got {threads}")
    return threads
