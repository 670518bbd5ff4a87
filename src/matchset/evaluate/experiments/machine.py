"""Machine: on what, and with what, was this measured? Nothing that names the machine itself."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from matchset.threads import count_threads

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
