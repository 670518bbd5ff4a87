"""Outcomes: what did the customers of an experiment see, and what did they do?

Reads documents of User Behavior Insights: those that the server wrote (see `records`), and the
events of the shop's own tracking with the same query ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.data.tables import TableSource
from matchset.data.ubi_answers import ORIGINS, Dropped, UbiAnswers, read_answers
from matchset.errors import DataError
from matchset.evaluate.significance import Values
from matchset.memory import DEFAULT_MEMORY, Memory
from matchset.online.definition import INTERLEAVED
from matchset.online.searches import EMPTY, KINDS, LATENCY, REVENUE, Searches
from matchset.strings import Strings


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """The recorded searches of one experiment."""

    experiment: str
    arms: tuple[str, ...]  # sorted by name; "interleaved" alone where both are shown
    arm: NDArray[np.int32]  # of each search, index into `arms`, (n_searches,)
    searches: Searches
    units: Strings  # as the records name them, (n_units,)
    # Of interleaved searches, by metric: products credited to the first and the second arm, that
    # were clicked or bought, (n_searches, 2).
    credited: Mapping[str, Values]
    n_events: int  # that have the query id of one of these searches
    n_strange: int  # of them, on products that were not in the answer
    dropped: Dropped = Dropped()  # noqa: RUF009  # frozen

    @property
    def is_interleaved(self) -> bool:
        """Whether every unit sees both arms."""
        return self.arms == (INTERLEAVED,)


def read_outcomes(
    source: TableSource,
    *,
    name: str | None = None,
    memory: Memory = DEFAULT_MEMORY,
) -> Outcomes:
    """Read the records of an experiment, by its name if there are several.

    `source` is files, globs or folders, or a list of them: JSON Lines as the server writes them, or
    the same fields as Parquet. Answers and events may be in the same file or in different ones.
    Answers of one unit, query and day are one search, as in a log that is planned with.
    """
    kinds = tuple(KINDS.values())
    return _to_outcomes(read_answers(source, kinds, name=name, memory=memory))


def _to_outcomes(read: UbiAnswers) -> Outcomes:
    columns = read.columns
    number = {key: column.values.astype(np.float64) for key, column in columns.items()}
    values = {metric: (number[kind] > 0).astype(np.float64) for metric, kind in KINDS.items()}
    values[REVENUE] = number["revenue"]
    values[EMPTY] = (number["n_hits"] == 0).astype(np.float64)
    is_untimed = columns["took"].is_null
    values[LATENCY] = number["took"]
    if is_untimed is not None:
        values[LATENCY] = np.where(is_untimed, np.nan, number["took"])
    named = list(columns["arm"].texts)
    arms = sorted(named)
    if INTERLEAVED in arms and len(arms) > 1:
        rule = "an experiment must be interleaved or not"
        raise DataError(f"{rule}; {read.experiment!r} has the arms {', '.join(arms)}")
    credited = {}
    if arms == [INTERLEAVED]:
        for metric, kind in KINDS.items():
            credited[metric] = np.stack([number[f"{kind} {o}"] for o in ORIGINS], axis=1)
    return Outcomes(
        experiment=read.experiment,
        arms=tuple(arms),
        arm=np.array([arms.index(each) for each in named], np.int32)[columns["arm"].values],
        searches=Searches(
            columns["unit"].values.astype(np.int64), number["day"].astype(np.int64), values
        ),
        units=columns["unit"].texts,
        credited=credited,
        n_events=read.n_events,
        n_strange=read.n_strange,
        dropped=read.dropped,
    )
