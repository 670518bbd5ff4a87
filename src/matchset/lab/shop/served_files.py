"""Served files: how do simulated searches become a log, or the records of an experiment?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from matchset.data.duckdb_session import write_parquet
from matchset.lab.shop.served import ORIGINS, Served
from matchset.online.assignment import hide_unit
from matchset.online.definition import Experiment
from matchset.online.records import EventRecord, QueryRecord, write_record
from matchset.storage.atomic import atomic_file


def write_served_log(served: Served, path: str | os.PathLike[str]) -> None:
    """Write a log as Parquet: user_id, session_id, query, product_id, event, timestamp."""
    write_parquet(served, Path(path))


def write_served_records(
    served: Served, path: str | os.PathLike[str], experiment: Experiment
) -> None:
    """Write the records of an experiment as the server and a shop's tracking would, JSON Lines."""
    with atomic_file(Path(path).absolute()) as staged, staged.open("wb") as file:
        for number in range(len(served)):
            for record in _list_records(served, number, experiment):
                file.write(write_record(record))


def _list_records(
    served: Served, number: int, experiment: Experiment
) -> Iterator[QueryRecord | EventRecord]:
    """Yield the answer of one search, and what was done with its products."""
    catalog = served.crowd.shop.catalog
    shown = [n for n in served.product[number].tolist() if n >= 0]
    origins = None
    if served.origin is not None:
        origins = tuple(ORIGINS[o] for o in served.origin[number, : len(shown)].tolist())
    moment = datetime.fromtimestamp(int(served.second[number]), UTC)
    when = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    yield QueryRecord(
        experiment=experiment.name,
        arm=served.arms[int(served.arm[number])],
        unit=hide_unit(experiment, f"c{served.customer[number]}"),
        query_id=f"q{number}",
        query=served.crowd.texts[int(served.text[number])],
        timestamp=when,
        ids=tuple(catalog.ids[n] for n in shown),
        origins=origins,
        microseconds=0,
        model_version="simulated",
    )
    for action, marks in (("click", served.clicked), ("purchase", served.bought)):
        for place in np.flatnonzero(marks[number]).tolist():
            price = float(catalog.attributes["price"].values[shown[place]])
            yield EventRecord(
                action=action,
                query_id=f"q{number}",
                product=catalog.ids[shown[place]],
                timestamp=when,
                position=place + 1,
                revenue=price if action == "purchase" else None,
            )
