"""Row: what is one line of the table, and what makes it another line?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from matchset.evaluate.experiments.digest import make_digest
from matchset.evaluate.experiments.problem import Problem

FORMAT = 1  # of a kept row
NO_CATALOG = "needs titles: give --catalog"


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    name: str  # for --rows, and of what is kept
    title: str  # for people
    config: Mapping[str, Any]  # what makes it what it is; a change makes it another row
    learn: Callable[[Path], Any] = field(compare=False)  # given the folder of kept models
    load: Callable[[Path], Any] | None = field(default=None, compare=False)  # if it is kept
    needs: tuple[str, ...] = ()  # rows whose models it is made of
    absent: str = ""  # why it cannot be made, and how it could

    def digest(self, problem: Problem, *measured: Any) -> str:
        """Of data, configuration and how it is measured."""
        made_by = (FORMAT, version("matchset"))
        return make_digest(made_by, problem.digest, self.name, dict(self.config), *measured)


def give_up(_: Path) -> Any:
    """Refuse to make a row that is absent."""
    raise ValueError("a row that is absent cannot be made")
