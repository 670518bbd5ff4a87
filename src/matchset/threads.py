"""Threads: how many may a call use?"""

from __future__ import annotations

import os


def count_threads(threads: int | None) -> int:
    """The number asked for, or one per core that this process may use."""
    if threads is None:
        return (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
    if threads < 1:
        raise ValueError(f"threads must be at least 1; got {threads}")
    return threads
