"""Damaged model folders: what may be wrong in one, and what must not happen then?"""

import datetime as dt
import hashlib
import json
import os
import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from match_sets import make_shop

import matchset as ms
from matchset.baselines import BM25, NearestQueries, Popularity, TitleSimilarity
from matchset.cli.console import output
from matchset.cli.inspection import inspect
from matchset.config import PARTS
from matchset.data.positives import positives
from matchset.model.upserts import Upsert
from matchset.storage import folders
from matchset.storage.folders import MANIFEST

QUERIES = ("red rose", "white vase small", "lamp 3", "", "kitchen", "zebra", "grün 花 \x00")
NUMBERS = (0, 1, -1, 2, 7, 127, 255, 2**15, 2**31 - 1, -(2**31), 2**31, 2**53, 2**63 - 1, -(2**63))
FLOATS = (0.0, -1.0, np.nan, np.inf, -np.inf, 1e38, -1e38, 1e-45)
VALUES = (None, True, "", "x", [], {}, [1], 0, 1, -1, 2**31, 2**63, 2**70, 1e308, 0.5, "xr_linear")
FEW = 4096  # bytes at the start of a file that are changed more often than others


def make_models(folder):
    """A model of every kind that can be made here."""
    log, catalog = make_shop(n_queries=2500)
    catalog = ms.read_catalog(add_attributes(catalog))
    pairs = positives(log)
    tree = ms.train(log, catalog, ms.TrainConfig(parts=("tree",)))
    popular, lexical = Popularity.from_positives(pairs), BM25.from_catalog(catalog)
    match_set = ms.train(log, catalog)
    made = {
        "match_set": match_set,
        "tree": tree,
        "bm25": lexical,
        "title_similarity": TitleSimilarity.from_catalog(catalog),
        "nearest_queries": NearestQueries.from_positives(pairs),
        "popularity": popular,
        "fusion": ms.Fusion([popular, lexical]),
    }
    try:
        from towers import train_small

        made["dssm"] = train_small()
        made["dssm_hnsw"] = made["dssm"].with_hnsw()
        made["dssm_int8"] = made["dssm"].with_int8(16)
    except ImportError:  # neither PyTorch nor usearch: make test-all has them
        pass
    for name, matcher in made.items():
        matcher.save(folder / name)
    match_set.save(folder / "fresh")  # with segments
    changed = ms.load(folder / "fresh").upsert([Upsert("new", "red rose", {"price": 3.0})])
    changed.upsert([Upsert("p001", "blue lamp")], remove=["p002"])


def add_attributes(catalog):
    """The catalog with numbers, texts, booleans and dates, some of them missing."""
    n = len(catalog.ids)
    day = dt.date(2026, 1, 1)
    columns = {
        "product_id": list(catalog.ids),
        "title": list(catalog.titles),
        "price": [None if i % 17 == 0 else i / 7 for i in range(n)],
        "brand": [("acme", "Ölwerk", None, "x'y")[i % 4] for i in range(n)],
        "in_stock": [i % 3 > 0 for i in range(n)],
        "since": [day + dt.timedelta(i) for i in range(n)],
    }
    return pa.table(columns)


def choose_folder(rng, models):
    """One to three changes to the arrays of a model, with the manifest that fits."""
    base, n_edits = choose_base(rng, models), rng.integers(1, 4)
    return {"base": base, "edits": [choose_edit(rng, models / base) for _ in range(n_edits)]}


def choose_manifest(rng, models):
    """One or two changes to the manifest of a model."""
    base = choose_base(rng, models)
    places = list(walk(json.loads((models / base / MANIFEST).read_bytes())))
    chosen = rng.integers(len(places), size=rng.integers(1, 3))
    edits = [["header", places[number], choose_value(rng)] for number in chosen]
    return {"base": base, "edits": edits}


def choose_base(rng, models):
    """The match set, whose sections are the most, comes as often as all others together."""
    others = sorted(one.name for one in models.iterdir())
    return "match_set" if rng.random() < 0.5 else str(rng.choice(others))


def choose_value(rng):
    return VALUES[rng.integers(len(VALUES))] if rng.random() < 0.9 else "remove"


def choose_edit(rng, folder):
    """A change that can be written down: of bytes, of a number, of a length, of a type."""
    entries = read_entries(str(folder))
    name = str(rng.choice(sorted(entries)))
    kind = rng.choice(["bytes", "number", "number", "number", "swap", "length", "dtype"])
    n_bytes = int(entries[name][1])
    at = int(rng.integers(max(1, min(n_bytes, FEW) if rng.random() < 0.5 else n_bytes)))
    if kind == "bytes":
        return ["bytes", name, at, rng.bytes(int(rng.integers(1, 33))).hex()]
    if kind == "number":
        values = FLOATS if "f" in entries[name][0] else NUMBERS
        return ["number", name, at, float(values[rng.integers(len(values))])]
    if kind == "swap":
        return ["swap", name, at, int(rng.integers(max(1, n_bytes)))]
    if kind == "length":
        return ["length", name, float(rng.choice([0, 0.5, 0.9, 1.1, 2])), int(rng.integers(-2, 3))]
    return ["dtype", name, 0, str(rng.choice(["<i4", "<u4", "<f4", "<i8", "|u1", "<f8", "|b1"]))]


@cache
def read_entries(folder):
    """Type and bytes of every array of a folder and of those inside, by its path."""
    found = {}
    for manifest in sorted(Path(folder).rglob(MANIFEST)):
        inside = manifest.parent.relative_to(folder)
        for name, entry in json.loads(manifest.read_bytes())["arrays"].items():
            file = manifest.parent / f"{name}.bin"
            found[str(inside / name)] = (entry["dtype"], file.stat().st_size)
    return found


def run_folder(case, models, scratch):
    """Do everything with a damaged model that a user may do."""
    folder = scratch / "model"
    shutil.rmtree(folder, ignore_errors=True)
    if not (models / case["base"]).exists():  # of a kind that cannot be made here
        return
    shutil.copytree(models / case["base"], folder, copy_function=os.link)
    for edit in case["edits"]:
        apply(folder, *edit)
    for manifest in sorted(folder.rglob(MANIFEST), key=lambda file: -len(file.parts)):
        seal(manifest)
    use(folder, scratch)


def use(folder, scratch):
    """Wrong answers are allowed; a ValueError is the one way to refuse."""
    try:
        ms.verify(folder)
        matcher = ms.load(folder)
        matcher.match(QUERIES, 10)
    except ValueError:
        return
    tries = [
        *(lambda query=query: matcher.match(query, 10**12) for query in QUERIES),
        lambda: matcher.match(QUERIES, 5, where="price < 5"),
        lambda: matcher.match(QUERIES, 5, where=["p001", "p002", "nothing"]),
        lambda: matcher.match(QUERIES * 20, 20, min_score=0.01),
        lambda: matcher.match("red rose", 5, beam=10**12) if "beam" in matcher.takes else None,
        lambda: matcher.explain("red rose", "p001") if matcher.can_explain else None,
        lambda: list(zip(*[iter(matcher.match("red rose", 3))], strict=True)),
        lambda: matcher.products.index_of(["p001", "", "x"]),
        lambda: matcher.training,
        lambda: repr(matcher),
        lambda: matcher.save(scratch / "again", overwrite=True),
        lambda: show(folder),
        *(lambda part=part: use_part(matcher, part) for part in PARTS),
    ]
    for do in tries:
        try:
            do()
        except ValueError:
            continue


def show(folder):
    """What `matchset inspect` does."""
    with output.capture():
        inspect(folder)


def use_part(matcher, part):
    """One part alone, all but one, and a smaller tree, of a match set."""
    if isinstance(matcher, ms.MatchSet) and part in matcher.model.parts:
        matcher.part(part).match(QUERIES, 5, where="price < 5")
        matcher.only([part]).explain("red rose", "p001")
        if part == "tree":
            matcher.prune(0.3).match(QUERIES, 5)


def apply(folder, kind, name, *given):
    """Make a change; places beyond an end begin again at the start."""
    if kind == "header":
        edit_manifest(folder, name, *given)
        return
    path = folder / name
    manifest = path.parent / MANIFEST
    file = path.parent / f"{path.name}.bin"
    if not file.exists():
        return
    data, described = bytearray(file.read_bytes()), json.loads(manifest.read_bytes())
    entry = described["arrays"][path.name]
    dtype = np.dtype(entry["dtype"])
    if kind == "bytes" and data:
        at, new = given[0] % len(data), bytes.fromhex(given[1])
        data[at : at + len(new)] = new[: len(data) - at]
    elif kind == "number" and len(data) >= dtype.itemsize:
        array = np.frombuffer(data, dtype)
        with np.errstate(all="ignore"):
            array[given[0] // dtype.itemsize % len(array)] = to_number(given[1], dtype)
    elif kind == "swap" and len(data) >= dtype.itemsize:
        array = np.frombuffer(data, dtype)
        first, second = (at // dtype.itemsize % len(array) for at in given)
        array[[first, second]] = array[[second, first]]
    elif kind == "length" and entry["shape"]:
        inner = int(np.prod(entry["shape"][1:]))
        length = max(0, int(entry["shape"][0] * given[0]) + given[1])
        entry["shape"][0] = length
        data = (data + bytes(length * inner * dtype.itemsize))[: length * inner * dtype.itemsize]
    elif kind == "dtype":
        new = np.dtype(given[1])
        usable = len(data) // new.itemsize
        entry["dtype"], entry["shape"] = new.str, [usable]
        data = data[: usable * new.itemsize]
    file.unlink()
    file.write_bytes(data)
    write_new(manifest, json.dumps(described).encode())


def to_number(value, dtype):
    if dtype.kind == "f":
        return value
    if dtype.kind == "b":
        return bool(value)
    limits = np.iinfo(dtype)
    return int(min(max(value, limits.min), limits.max)) if abs(value) < 2**63 else limits.max


def edit_manifest(folder, place, value):
    """Replace or remove one value, anywhere in a manifest."""
    manifest = folder / MANIFEST
    described = holder = json.loads(manifest.read_bytes())
    try:
        for key in place[:-1]:
            holder = holder[key]
        if value == "remove":
            del holder[place[-1]]
        else:
            holder[place[-1]] = value
    except (KeyError, IndexError, TypeError):  # another edit has removed it
        return
    write_new(manifest, json.dumps(described).encode())


def walk(value, place=()):
    """Every place of a JSON value, as the keys that lead there."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs:
        yield [*place, key]
        if isinstance(inner, dict | list):
            yield from walk(inner, (*place, key))


def seal(manifest):
    """Make all checksums fit, as a forger does."""
    described = json.loads(manifest.read_bytes())
    folder = manifest.parent
    try:
        for name, entry in described["arrays"].items():
            file = folder / f"{name}.bin"
            entry["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
        for name in described.get("folders", {}):
            digest = hashlib.sha256((folder / name / MANIFEST).read_bytes()).hexdigest()
            described["folders"][name] = digest
        described.pop("sha256", None)
    except (AttributeError, TypeError, KeyError, OSError):
        return
    write_new(manifest, folders.seal(described))


def write_new(file, data):
    """In a new file: the old one may be a link to the model."""
    file.unlink()
    file.write_bytes(data)
