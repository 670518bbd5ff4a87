"""Contender: what is a matcher that takes part in a comparison?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from matchset.lab.experiments.benchmark import Benchmark
from matchset.lab.experiments.findings import Group
from matchset.lab.experiments.store import make_digest
from matchset.matchers.base import Matcher
from matchset.matchers.registry import find_kind

FORMAT = 2  # of a stored result
NO_CATALOG = "needs titles: give --catalog"


@dataclass(frozen=True, slots=True)
class Contender:
    """A matcher that takes part in a comparison."""

    name: str  # of its kind or variant: for --rows, folders and tables
    kind: str
    title: str  # for people
    config: Mapping[str, Any]  # all that defines it; a change makes a stored result invalid
    recipe: Callable[[Path], Matcher] = field(compare=False)  # given the folder of stored models
    group: Group = "baseline"
    is_stored: bool = False  # whether its model stays in that folder
    is_timed: bool = True  # whether its latency means anything
    needs: tuple[str, ...] = ()  # contenders whose models it is made of
    absent: str = ""  # why it cannot run here, and what would help
    note: str = ""  # for the report
    is_paper: bool = False  # whether it runs only where the paper's rows are asked for

    @property
    def depth(self) -> int:
        """Those of a smaller depth come first: they may be needed."""
        return {"fusion": 2}.get(self.group, len(self.needs))

    def train(self, models: Path) -> Matcher:
        """Make the matcher; `models` is the folder of stored models."""
        if self.absent:
            raise ValueError(f"{self.name} is absent: {self.absent}")
        return self.recipe(models)

    def digest(self, benchmark: Benchmark, *measured: Any) -> str:
        """Identify data, configuration and way of measuring."""
        made_by = (FORMAT, version("matchset"))
        return make_digest(made_by, benchmark.digest, self.name, dict(self.config), *measured)


def choose_contenders(
    contenders: Sequence[Contender], names: Iterable[str] | None, *, with_paper: bool = False
) -> list[Contender]:
    """Return the named contenders and those that they are made of; by default the shop's.

    The user's own engines always take part, and a fusion of those that do.
    """
    known = {contender.name: contender for contender in contenders}
    wanted = {contender.name for contender in contenders if contender.group == "engine"}
    if names is None:
        wanted |= {name for name, each in known.items() if with_paper or not each.is_paper}
    for name in names or ():
        if name not in known:
            raise ValueError(f"rows must be among {', '.join(known)}; got {name!r}")
        wanted |= {name, *known[name].needs}
    wanted |= {c.name for c in contenders if c.group == "fusion" and wanted.issuperset(c.needs)}
    return [contender for contender in contenders if contender.name in wanted]


def of_kind(
    kind: str, config: Mapping[str, Any], recipe: Callable[[Path], Matcher], **options: Any
) -> Contender:
    """Return a contender with the name and the label of its kind."""
    return Contender(kind, kind, find_kind(kind).label, config, recipe, **options)
