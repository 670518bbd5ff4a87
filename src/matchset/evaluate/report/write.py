"""Writing: one page, one table and one JSON file, all with the same numbers."""

from __future__ import annotations

import json
import math
import secrets
from pathlib import Path
from typing import Any

from matchset.evaluate.experiments.comparison import COMPARISON
from matchset.evaluate.experiments.keep import Store
from matchset.evaluate.experiments.sweeps import SWEEP
from matchset.evaluate.report.flat import to_csv
from matchset.evaluate.report.page import make_page
from matchset.evaluate.report.plots import require_plots

__all__ = ["require_plots", "write_report"]
PAGE, TABLE, RESULTS = "report.html", "results.csv", "results.json"


def write_report(out: Path) -> Path:
    """Tell what the folder's experiments found: report.html, results.csv and results.json.

    A sweep of other test data than the comparison's is left out, and the page says so.
    """
    store = Store(out)
    comparison, sweep = (_without_nan(store.find_findings(kind)) for kind in (COMPARISON, SWEEP))
    if comparison is None and sweep is None:
        raise FileNotFoundError(f"{out}: must hold a comparison or a sweep; got neither")
    is_same = None in (comparison, sweep) or comparison["questions"] == sweep["questions"]
    results = {"matchset": 1, "comparison": comparison, "sweep": sweep if is_same else None}
    page = make_page(comparison, results["sweep"], is_same=is_same)
    for name, text in (
        (RESULTS, json.dumps(results, indent=1, allow_nan=False) + "\n"),
        (TABLE, to_csv(results)),
        (PAGE, page),
    ):
        _write(out / name, text)
    return out / PAGE


def _without_nan(value: Any) -> Any:
    """What is not known is null: JSON has no NaN."""
    if isinstance(value, dict):
        return {key: _without_nan(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _write(file: Path, text: str) -> None:
    """At once: who has the old file open keeps it."""
    partial = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
