"""Writing: one page, one table and one JSON file, all with the same numbers."""

from __future__ import annotations
from pathlib import Path

def require_plots() -> None: ...
def write_report(out: Path) -> Path: return out
