"""Damaged files of models: what may be wrong in one, and what must not happen then?"""

import datetime as dt
import hashlib
import json
import math
import shutil
import struct
import zlib
from functools import cache

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
from matchset.storage.change_log import changes_path

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
    match_set.upsert([Upsert("old", "red mug", {"price": 3.0})]).save(folder / "fresh")
    with ms.open_writer(folder / "fresh") as writer:  # with changes in it, and beside it
        writer.upsert([Upsert("new", "red rose", {"price": 3.0})])
        writer.upsert([Upsert("p001", "blue lamp")], remove=["p002"])


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


def choose_arrays(rng, models):
    """One to three changes to the arrays of a model, with the checksums that fit."""
    base, n_edits = choose_base(rng, models), rng.integers(1, 4)
    case = {"base": base, "record": choose_record(rng, base)}
    entries = read_entries(models / base, case["record"])
    return {**case, "edits": [choose_edit(rng, entries) for _ in range(n_edits)]}


def choose_header(rng, models):
    """One or two changes to the header of a model."""
    base = choose_base(rng, models)
    case = {"base": base, "record": choose_record(rng, base)}
    places = list(walk(read_parts(read_bytes(models / base, case["record"]))[0]))
    chosen = rng.integers(len(places), size=rng.integers(1, 3))
    edits = [["header", places[number], choose_value(rng)] for number in chosen]
    return {**case, "edits": edits}


def choose_bytes(rng, models):
    """A few bytes anywhere in a file, or in the changes beside it; its checksums do not fit."""
    base = choose_base(rng, models)
    file = models / base
    if base == "fresh" and rng.random() < 0.7:
        file = changes_path(file)
    at, n = int(rng.integers(file.stat().st_size)), int(rng.integers(1, 9))
    kind = "cut" if rng.random() < 0.2 else "flip"
    return {"base": base, "file": file.name, "edits": [[kind, at, rng.bytes(n).hex()]]}


def choose_base(rng, models):
    """The match set, which has the most arrays, comes as often as all others together."""
    others = sorted(one.name for one in models.iterdir() if one.suffix == "")
    others = [name for name in others if not name.startswith(".")]
    return "match_set" if rng.random() < 0.5 else str(rng.choice(others))


def choose_record(rng, base):
    """The number of a change beside the file, or None for the file itself."""
    return int(rng.integers(2)) if base == "fresh" and rng.random() < 0.5 else None


def choose_value(rng):
    return VALUES[rng.integers(len(VALUES))] if rng.random() < 0.9 else "remove"


def choose_edit(rng, entries):
    """A change that can be written down: of bytes, of a number, of a length, of a type."""
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
def read_entries(file, record):
    """Type and bytes of every array of a model, or of a change beside it."""
    plain, blobs = read_parts(read_bytes(file, record))
    return {name: (entry["dtype"], len(blobs[name])) for name, entry in plain["arrays"].items()}


FRAME = struct.Struct("<8sQII")  # of a change


def read_bytes(file, record):
    """The bytes of a model, or of one of the changes beside it, which have the same form."""
    return file.read_bytes() if record is None else split_changes(file)[record]


def split_changes(file):
    data, at, records = changes_path(file).read_bytes(), 40, []
    while at < len(data):
        length = FRAME.unpack_from(data, at)[1]
        records.append(data[at + FRAME.size : at + FRAME.size + length])
        at += FRAME.size + length
    return records


def write_changes(file, records):
    """Put changes beside a file, with the checksums that fit, also that of their base."""
    digest = hashlib.sha256(read_header(file.read_bytes())).digest()
    data = b"matchset" + digest
    for record in records:
        start = struct.pack("<8sQI", b"\x93change\n", len(record), zlib.crc32(record))
        data += start + struct.pack("<I", zlib.crc32(start)) + record
    changes_path(file).write_bytes(data)


def read_header(data):
    return data[64 : 64 + int.from_bytes(data[16:24], "little")]


def read_parts(data):
    """The header of a file as plain values, and the bytes of each array."""
    header = read_header(data)
    plain, begin = json.loads(header), 64 + len(header)
    blobs = {}
    for name, entry in plain["arrays"].items():
        at = begin + entry["offset"]
        blobs[name] = data[at : at + np.dtype(entry["dtype"]).itemsize * math.prod(entry["shape"])]
    return plain, blobs


def lay_out(plain, blobs):
    """Make places and checksums of the arrays fit, as a forger does."""
    end = 0
    for name, entry in plain["arrays"].items():
        padded = pad(blobs[name])
        entry |= {"offset": end, "sha256": hashlib.sha256(padded).hexdigest()}
        end += len(padded)


def pad(data):
    return data.ljust(-(-len(data) // 64) * 64, b"\0")


def join_parts(plain, blobs):
    """A file of a header, whose checksum fits, and of arrays."""
    header = json.dumps(plain).encode()
    header = header.ljust(-(-(64 + len(header)) // 64) * 64 - 64)
    digest = hashlib.sha256(header).digest()
    start = struct.pack("<8sQQ32s8x", b"matchset", 5, len(header), digest)
    return b"".join([start, header, *map(pad, blobs.values())])


def run_file(case, models, scratch):
    """Do everything with a damaged model that a user may do."""
    base, file = models / case["base"], scratch / "model"
    if not base.exists():  # of a kind that cannot be made here
        return
    copy_model(base, file)
    if "file" in case:
        target = file if case["file"] == case["base"] else changes_path(file)
        flip(target, *case["edits"][0])
    else:
        record, records = case.get("record"), []
        if changes_path(file).exists():
            records = split_changes(file)
        plain, blobs = read_parts(read_bytes(file, record))
        for kind, *given in case["edits"]:
            if kind == "header":
                edit_header(plain, *given)
            else:
                apply(plain, blobs, kind, *given)
                lay_out(plain, blobs)
        data = join_parts(plain, blobs)
        if record is None:
            file.write_bytes(data)
        else:
            records[record] = data
        if records:
            write_changes(file, records)
    use(file, scratch)


def copy_model(base, file):
    for beside in (lambda path: path, changes_path):
        beside(file).unlink(missing_ok=True)
        if beside(base).exists():
            shutil.copy(beside(base), beside(file))


def flip(file, kind, at, data):
    whole, new = bytearray(file.read_bytes()), bytes.fromhex(data)
    if kind == "cut":
        del whole[at:]
    else:
        whole[at : at + len(new)] = new[: len(whole) - at]
    file.write_bytes(whole)


def use(file, scratch):
    """Wrong answers are allowed; a ValueError is the one way to refuse."""
    try:
        ms.verify(file)
        matcher = ms.load(file)
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
        lambda: show(file),
        *(lambda part=part: use_part(matcher, part) for part in PARTS),
    ]
    for do in tries:
        try:
            do()
        except ValueError:
            continue


def show(file):
    """What `matchset inspect` does."""
    with output.capture():
        inspect(file)


def use_part(matcher, part):
    """One part alone, all but one, and a smaller tree, of a match set."""
    if isinstance(matcher, ms.MatchSet) and part in matcher.model.parts:
        matcher.part(part).match(QUERIES, 5, where="price < 5")
        matcher.only([part]).explain("red rose", "p001")
        if part == "tree":
            matcher.prune(0.3).match(QUERIES, 5)


def apply(plain, blobs, kind, name, *given):
    """Make a change; places beyond an end begin again at the start."""
    if name not in blobs:
        return
    data, entry = bytearray(blobs[name]), plain["arrays"][name]
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
    blobs[name] = bytes(data)


def to_number(value, dtype):
    if dtype.kind == "f":
        return value
    if dtype.kind == "b":
        return bool(value)
    limits = np.iinfo(dtype)
    return int(min(max(value, limits.min), limits.max)) if abs(value) < 2**63 else limits.max


def edit_header(plain, place, value):
    """Replace or remove one value, anywhere in a header."""
    holder = plain
    try:
        for key in place[:-1]:
            holder = holder[key]
        if value == "remove":
            del holder[place[-1]]
        else:
            holder[place[-1]] = value
    except (KeyError, IndexError, TypeError):  # another edit has removed it
        return


def walk(value, place=()):
    """Every place of a JSON value, as the keys that lead there."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs:
        yield [*place, key]
        if isinstance(inner, dict | list):
            yield from walk(inner, (*place, key))
