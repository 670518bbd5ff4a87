"""Experiment page: how does the reading of an experiment become one page?"""

from __future__ import annotations

from pathlib import Path

from matchset.lab.report.formatting import Html, cell, make_table, section, tag
from matchset.lab.report.page import frame_page
from matchset.online.decision import (
    find_faults,
    format_change,
    format_difference,
    format_value,
    list_checks,
    list_decision,
)
from matchset.online.reading import Compared, Reading
from matchset.storage.atomic import atomic_file

HOW = (
    "A change is relative to the first arm, with the 95 % interval for one reading at the planned "
    "end. The difference at any time has an interval that holds however often one looks, and is "
    "wider for it. Both treat the searches of one unit as dependent on each other. What decides is "
    "the first metric; with many other metrics, one of them may differ by chance."
)


def write_reading(reading: Reading, path: Path) -> Path:
    """Write the page; it replaces a file of that name."""
    path.absolute().parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path.absolute()) as staged:
        staged.write_text(make_reading_page(reading), encoding="utf-8")
    return path


def make_reading_page(reading: Reading) -> str:
    """The page: the verdict first, then every number, then what was checked."""
    headline, *facts = list_decision(reading)
    checks = list_checks(reading)
    reasons = [fact for fact in facts if fact not in checks]
    verdict = section(
        "Verdict", tag("p", headline, class_="headline"), _list(reasons), name="verdict"
    )
    parts = [
        verdict,
        _numbers(reading),
        section("Checks", _list(_check_all(reading)), name="checks"),
    ]
    searches = " and ".join(f"{n:,} in {arm}" for arm, n in reading.searches.items())
    about = f"Searches: {searches}{f'; {reading.days:,} days' if reading.days else ''}."
    return frame_page(f"Experiment {reading.experiment}", about, [part for part in parts if part])


def format_compared(row: Compared) -> list[str]:
    """A metric as the cells of a table: first arm, name of the arm, its value, and changes."""
    return [
        format_value(row.metric, row.first),
        row.arm,
        format_value(row.metric, row.second),
        format_change(row),
        format_difference(row),
    ]


def _numbers(reading: Reading) -> Html:
    if not reading.compared:
        return Html("")
    headers = ["metric", "arm", reading.arms[0], "its value", "change", "difference at any time"]
    rows = []
    for row in reading.compared:
        first, arm, second, change, always = format_compared(row)
        cells = [
            tag("td", arm),
            cell(first, row.first),
            cell(second, row.second),
            cell(change, row.relative[0]),
            cell(always, row.effect.value),
        ]
        rows.append(tag("tr", tag("th", row.metric, scope="row"), *cells))
    table = make_table("Every metric of every arm", headers, rows, n_texts=2)
    return section("Numbers", table, tag("p", HOW, class_="note"), name="numbers")


def _check_all(reading: Reading) -> list[str]:
    return [f"Wrong: {fault}." for fault in find_faults(reading)] + list_checks(reading)


def _list(texts: list[str]) -> Html:
    return tag("ul", *(tag("li", text) for text in texts))
