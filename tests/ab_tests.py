"""Records of experiments, for tests."""

import numpy as np

from matchset.online.assignment import assign, hide_unit
from matchset.online.definition import Arm, Experiment
from matchset.online.records import EventRecord, QueryRecord, write_record

SHOES = Experiment(
    name="shoes",
    salt="pepper",
    arms=(
        Arm(name="old", matchers=("bm25",), share=0.5),
        Arm(name="new", matchers=("match_set",), share=0.5),
    ),
)
IDS = ("1", "2", "3")


def record(number, unit, arm, *, ids=IDS, origins=None, took=200, day=1, name="shoes"):
    return QueryRecord(
        experiment=name,
        arm=arm,
        unit=unit,
        query_id=f"q{number}",
        query="red shoes",
        timestamp=f"2026-01-{day:02}T08:00:00.000Z",
        ids=ids,
        origins=origins,
        microseconds=took,
        model_version="v1",
    )


def event(number, action, product="2", revenue=None):
    return EventRecord(
        action=action,
        query_id=f"q{number}",
        product=product,
        timestamp="2026-01-02T08:00:00Z",
        revenue=revenue,
    )


def write(path, records):
    path.write_bytes(b"".join(map(write_record, records)))
    return str(path)


def simulate(rates, *, units=1_000, searches=2, seed=0, took=(200, 200), empty=(0.0, 0.0)):
    """Records of an A/B test in which each arm sells at its rate."""
    rng = np.random.default_rng(seed)
    records, number = [], 0
    for unit in range(units):
        text = f"unit {unit}"
        arm = assign(SHOES, text).name
        side = ("old", "new").index(arm)
        for _ in range(searches):
            number += 1
            ids = () if rng.random() < empty[side] else IDS
            day = 1 + number % 14
            hidden = hide_unit(SHOES, text)
            spent = took[side] + number % 7
            records.append(record(number, hidden, arm, ids=ids, took=spent, day=day))
            if ids and rng.random() < rates[side]:
                records += [event(number, "click"), event(number, "purchase", revenue=20.0)]
    return records
