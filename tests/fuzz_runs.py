"""Damaged work folders and records: are they made again, or refused with a reason?"""

import json
import os
import shutil
import warnings
from functools import cache

from ab_tests import IDS, SHOES, event, record
from digests import digests
from fuzz_files import choose_value, walk
from fuzz_texts import choose_bytes, choose_json
from match_sets import make_config, make_shop

import matchset as ms
from matchset.online.decision import list_decision
from matchset.online.outcomes import read_outcomes
from matchset.online.reading import analyze
from matchset.online.record_files import begin_records

ARMS = ("old", "new", "interleaved")
ORIGINS = ("old", "new", "both")


def train(work):
    config = make_config(parts=("tree", "lexical", "neighbors"))
    return digests(ms.train(*make_shop(60, days=60), config, work=work))


@cache
def make_work(models):
    """A work folder with all results, and what the training gave."""
    work = models.parent / "work"
    return work, train(work)


def choose_work(rng, models):
    work, _ = make_work(models)
    files = sorted(str(file.relative_to(work)) for file in work.rglob("*") if file.is_file())
    kinds = ["remove", "folder", "empty", "cut", "bytes", "bytes"]
    edits = [
        [str(rng.choice(files)), str(rng.choice(kinds)), rng.random(), rng.bytes(5).hex()]
        for _ in range(rng.integers(1, 4))
    ]
    return {"edits": edits}


def run_work(case, models, scratch):
    """Damaged results are made again: the model is the same to the byte, or there is a reason."""
    work, expected = make_work(models)
    folder = scratch / "work"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(work, folder, copy_function=os.link)
    for name, kind, share, data in case["edits"]:
        damage(folder / name, kind, share, bytes.fromhex(data))
    try:
        found = train(folder)
    except ValueError as error:
        assert str(error)  # noqa: PT017
    else:
        assert found == expected


def damage(file, kind, share, new):
    """Change a file, in a new one: the old one is a link to the undamaged folder."""
    if not file.is_file():  # an earlier change has removed it
        return
    data = file.read_bytes()
    at = int(share * len(data))
    file.unlink()
    if kind == "folder":
        file.mkdir()
    elif kind == "bytes":
        file.write_bytes(data[:at] + new + data[at + len(new) :])
    elif kind != "remove":
        file.write_bytes(data[:at] if kind == "cut" else b"")


def choose_records(rng, _):
    """Records of a few answers and events, in which some values are others."""
    documents = []
    for number in range(rng.integers(1, 6)):
        arm = ARMS[rng.choice(3, p=[0.48, 0.48, 0.04])]
        origins = tuple(rng.choice(ORIGINS, len(IDS)).tolist()) if arm == ARMS[2] else None
        unit = f"unit{rng.integers(3)}"
        documents.append(record(number, unit, arm, origins=origins).to_dict())
        documents.append(event(number, str(rng.choice(["click", "purchase"]))).to_dict())
    documents = json.loads(json.dumps(documents))
    for _ in range(rng.integers(0, 3)):
        one = documents[rng.integers(len(documents))]
        places = list(walk(one))
        *path, last = places[rng.integers(len(places))]
        for key in path:
            one = one[key]
        one[last] = choose_value(rng) if rng.random() < 0.5 else choose_json(rng)
    data = "".join(json.dumps(one) + "\n" for one in documents).encode()
    return {"data": (choose_bytes(rng, data) if rng.random() < 0.3 else data).hex()}


def run_records(case, _, scratch):
    """Records are read and give a verdict, or are refused with a reason; so is a definition."""
    data = bytes.fromhex(case["data"])
    file, begun = scratch / "records.jsonl", scratch / SHOES.name / "experiment.json"
    file.write_bytes(data)
    begun.parent.mkdir(exist_ok=True)
    begun.write_bytes(data.partition(b"\n")[0])
    for read in (lambda: begin_records(scratch, SHOES), lambda: decide(file)):
        try:
            read()
        except ValueError as error:
            assert str(error)  # noqa: PT017


def decide(file):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reading = analyze(read_outcomes(file), planned=10)
        return list_decision(reading)
