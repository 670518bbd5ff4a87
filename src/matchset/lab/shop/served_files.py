"""Served files: how do simulated searches become a log, or the records of an experiment?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from matchset.data.arrow import ExportColumn, export_columns
from matchset.data.duckdb_session import write_parquet
from matchset.lab.shop.served import Served
from matchset.lab.shop.visits import EVENTS
from matchset.online.assignment import hide_unit
from matchset.online.definition import Experiment
from matchset.online.interleaving import Origin
from matchset.online.records import EventRecord, QueryRecord, write_record
from matchset.storage.atomic import atomic_file
from matchset.strings import Strings

_ORIGINS: tuple[Origin, ...] = ("a", "b", "both")
_PRICE = "price"


def write_served_log(served: Served, path: str | os.PathLike[str]) -> None:
    """Write a log with a row per product that was looked at, clicked or bought, as Parquet.

    Columns: user_id, session_id, query, product_id, event, timestamp (seconds since 1970).
    """
    write_parquet(_Rows(served), Path(path))


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    served: Served

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export to Arrow."""
        served = self.served
        looks = np.arange(served.product.shape[1]) < served.looked[:, None]
        marks = looks, served.clicked, served.bought
        found = [np.nonzero(mark) for mark in marks]
        search = np.concatenate([row for row, _ in found])
        place = np.concatenate([column for _, column in found])
        event = np.repeat(np.arange(len(EVENTS), dtype=np.uint8), [len(row) for row, _ in found])
        catalog = served.crowd.shop.catalog
        columns = [
            _name("user_id", "c", served.customer[search]),
            _name("session_id", "s", served.visit[search]),
            ExportColumn("query", served.text[search].astype(np.int32), served.crowd.texts),
            ExportColumn("product_id", served.product[search, place], catalog.ids),
            ExportColumn("event", event, Strings.of(EVENTS)),
            ExportColumn("timestamp", served.second[search].astype(np.float64)),
        ]
        return export_columns(columns, len(search))


def _name(column: str, letter: str, number: NDArray[np.int64]) -> ExportColumn:
    distinct, code = np.unique(number, return_inverse=True)
    names = Strings.of([f"{letter}{n}" for n in distinct.tolist()])
    return ExportColumn(column, code.astype(np.int32), names)


def write_served_records(
    served: Served, path: str | os.PathLike[str], experiment: Experiment
) -> None:
    """Write the records of an experiment as the server and a shop's tracking would, JSON Lines."""
    with atomic_file(Path(path).absolute()) as staged, staged.open("wb") as file:
        for record in _make_records(served, experiment):
            file.write(write_record(record))


def _make_records(served: Served, experiment: Experiment) -> Iterator[QueryRecord | EventRecord]:
    ids = list(served.crowd.shop.catalog.ids)
    price = served.crowd.shop.catalog.attributes[_PRICE].values
    for number, (customer, text) in enumerate(
        zip(served.customer.tolist(), served.text.tolist(), strict=True)
    ):
        shown = [n for n in served.product[number].tolist() if n >= 0]
        origins = None
        if served.origin is not None:
            origins = tuple(_ORIGINS[o] for o in served.origin[number, : len(shown)].tolist())
        moment = datetime.fromtimestamp(int(served.second[number]), UTC)
        when = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        name = f"q{number}"
        yield QueryRecord(
            experiment=experiment.name,
            arm=served.arms[int(served.arm[number])],
            unit=hide_unit(experiment, f"c{customer}"),
            query_id=name,
            query=served.crowd.texts[text],
            timestamp=when,
            ids=tuple(ids[n] for n in shown),
            origins=origins,
            microseconds=0,
            model_version="simulated",
        )
        for action, done in (("click", served.clicked), ("purchase", served.bought)):
            for place in np.flatnonzero(done[number]).tolist():
                product = shown[place]
                yield EventRecord(
                    action=action,
                    query_id=name,
                    product=ids[product],
                    timestamp=when,
                    position=place + 1,
                    revenue=float(price[product]) if action == "purchase" else None,
                )
