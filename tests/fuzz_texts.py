"""Hostile requests, filters, logs, experiments: what must not happen, whatever somebody sends?"""

import asyncio
import gzip
import json
import os
import warnings
from contextlib import ExitStack
from functools import cache
from urllib.parse import quote

from stored import copy_model

import matchset as ms
from matchset.errors import FilterError, InputError
from matchset.filters.parser import parse
from matchset.model.upserts import Upsert
from matchset.online.assignment import assign
from matchset.online.definition import read_experiment
from matchset.online.record_files import begin_records
from matchset.serve.decoding import decode
from matchset.serve.options import Limits
from matchset.serve.request_errors import RequestError
from matchset.serve.requests import ProductsRequest

WORDS = (
    "price", "brand", "in_stock", "since", "missing", "and", "or", "not", "in", "is", "null",
    "true", "(", ")", ",", "=", "!=", "<>", "<", "<=", ">", ">=", "'acme'", "'x''y'", "'",
    '"brand"', '"', "3", "-1", "1e400", "0.1", "2026-01-01", "'2026-13-01'", "between", "like",
    "'%a_'", "--", ";", "\x00", "\ud800", "🛋", "\u202e", " ",
)  # fmt: skip
JSON_VALUES = (
    None, True, False, 0, -1, 1, 10, 10**9, 10**30, 0.5, 1e308, "", "red rose", "x" * 600, "\x00",
    "🛋", [], {}, [[]], ["p001"], ["p001", "p001"], [None], {"a": 1}, "price < 3", "fused", "bm25",
    "tree", "towers", "lexical", "neighbors", "price", "price,brand", ["price"],
)  # fmt: skip
FIELDS = (
    "queries", "k", "beam", "where", "matcher", "titles", "candidates", "fusion", "query",
    "product", "min_score", "min_relative", "attributes", "unit", "events", "products", "remove",
    "x",
)  # fmt: skip
FUSION = ("method", "weights", "constant")
PATHS = (
    "/v1/match", "/v1/match", "/v1/explain", "/v1/model", "/v1/purchases", "/v1/reload", "/",
    "/healthz", "/docs", "/x", "/v1/events", "/v1/products", "/v1/products/p001",
)  # fmt: skip
BODIES = {  # what a request to a path needs, at least; the default is that of explanations
    "/v1/match": {"queries": ["red rose"]},
    "/v1/events": {"events": [{"action_name": "click", "query_id": "a", "object_id": "p001"}]},
    "/v1/products": {"products": [{"id": "p001", "title": "red rose", "attributes": {"price": 3}}]},
}
EVENT = ("action_name", "query_id", "object_id", "position", "revenue", "id", "title", "attributes")
WRITES = ("remove", "version", "products", "x")
EXPERIMENT = """
name = "union"
salt = "autumn"
mode = "union"

[[arms]]
name = "control"
matcher = "bm25"

[[arms]]
name = "ours"
matcher = "match_set"
"""
LINES = (
    'mode = "ab"', "depth = 0", "depth = 99999999999999999999", "share = 0.5", "share = nan",
    'matchers = ["bm25", "tree"]', "matchers = []", "weights = [1, inf]", 'method = "rrf"', "x = 1",
    "[[arms]]", 'name = "ours"', 'name = ""', "salt = 1", "arms = 3", "[arms]", "keep = -1",
    'matcher = "nothing"',
)  # fmt: skip
HEADERS = (
    "content-type", "content-length", "authorization", "host", "x-request-id", "if-none-match",
)  # fmt: skip
CELLS = (
    "red rose", "p001", "1", "-1", "1e300", "nan", "", '"', "'", ",", "\t", "2026-01-02", "\x00",
    "ü", "purchase",
)  # fmt: skip
COLUMNS = {
    "log": ("query", "product_id", "event", "timestamp", "count", "user", ""),
    "catalog": ("product_id", "title", "description", "price", "since", "Price", ""),
    "run": ("query", "product_id", "rank", "score", "user", ""),
    "ubi": ("query_id", "user_query", "action_name", "timestamp", "event_attributes", "client"),
}
READERS = {
    "log": ms.read_log,
    "catalog": ms.read_catalog,
    "run": ms.baselines.read_run,
    "ubi": lambda file: ms.read_ubi(queries=file, events=file),
}
OBJECT = json.dumps({"object": {"object_id": "p001"}})
STACK = ExitStack()  # what lives as long as this process
PIECES = (b"\x00", b"\xff", b'"', b"\\", b"\n", b"[" * 50, b"\xed\xa0\x80")


def choose_text(rng, words, most):
    return " ".join(words[rng.integers(len(words))] for _ in range(rng.integers(0, most)))


def choose_bytes(rng, data):
    """A few random changes to bytes."""
    data = bytearray(data)
    for _ in range(rng.integers(0, 4)):
        at = int(rng.integers(len(data) + 1))
        kind = rng.integers(4)
        if kind == 0:
            data[at : at + 1] = rng.bytes(1)
        elif kind == 1:
            del data[at : at + int(rng.integers(1, 20))]
        elif kind == 2:
            data[at:at] = data[: int(rng.integers(1, 60))]
        else:
            data[at:at] = PIECES[rng.integers(len(PIECES))]
    return bytes(data)


def choose_filter(rng, _):
    return {"text": choose_text(rng, WORDS, 30)}


def run_filter(case, models, _):
    """A filter is an error that says where, or a selection."""
    try:
        parse(case["text"])
        open_model(models).filter(case["text"])
    except FilterError as error:
        assert 0 <= (error.position or 0) <= len(case["text"])  # noqa: PT017


@cache
def open_model(models):
    return ms.load(models / "match_set")


def choose_request(rng, _):
    headers = {
        str(rng.choice(HEADERS)): choose_text(rng, CELLS, 4) for _ in range(rng.integers(0, 3))
    }
    path = str(rng.choice(PATHS))
    if rng.random() < 0.4:
        fields = {name: choose_json(rng) for name in rng.choice(FIELDS, rng.integers(0, 5))}
        pairs = [f"{name}={quote(str(value), errors='replace')}" for name, value in fields.items()]
        query = choose_bytes(rng, "&".join(["q=red", *pairs]).encode())
        return {"method": "GET", "path": path, "query": query.hex(), "body": "", "headers": headers}
    fields = BODIES.get(path, {"query": "red", "product": "p001"})
    fields = {name: choose_rows(rng, fields[name]) for name in fields if rng.random() < 0.9}
    if rng.random() < 0.3:
        fields["unit"] = "u1"
    fields |= {str(name): choose_json(rng) for name in rng.choice(FIELDS, rng.integers(0, 4))}
    body = json.dumps(fields).encode()
    if rng.random() < 0.3:
        body = choose_bytes(rng, body)
    headers = {"content-type": "application/json", **headers}
    method = "DELETE" if path == "/v1/products/p001" else "POST"
    return {"method": method, "path": path, "query": "", "body": body.hex(), "headers": headers}


def choose_rows(rng, value):
    """Some of the fields of each object in a list are others."""
    if not isinstance(value, list) or not isinstance(value[0], dict):
        return value
    return [
        value[0] | {str(name): choose_json(rng) for name in rng.choice(EVENT, rng.integers(0, 3))}
        for _ in range(rng.integers(1, 4))
    ]


def choose_json(rng):
    if rng.random() < 0.2:
        return {str(name): choose_json(rng) for name in rng.choice(FUSION, rng.integers(0, 4))}
    if rng.random() < 0.2:
        return [choose_json(rng) for _ in range(rng.integers(0, 4))]
    return JSON_VALUES[rng.integers(len(JSON_VALUES))]


def run_request(case, models, _):
    """No request is a failure of the server."""
    app, loop = make_server(models)
    headers = {"host": "localhost", **case["headers"]}
    sent, given = [], [bytes.fromhex(case["body"])]

    async def receive():
        if not given:  # a client that waits for its response
            await asyncio.Event().wait()
        return {"type": "http.request", "body": given.pop()}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http", "method": case["method"], "path": case["path"], "root_path": "",
        "raw_path": case["path"].encode(),
        "query_string": bytes.fromhex(case["query"]),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    loop.run_until_complete(app(scope, receive, send))
    status, body = sent[0]["status"], b"".join(message["body"] for message in sent[1:])
    code = json.loads(body)["error"]["code"] if status >= 400 else None
    assert status < 500 or code == "not_recorded", body  # a disk that is slow is told so


@cache
def make_server(models):
    """The application of a worker, in this process."""
    from matchset.serve.app import make_app
    from matchset.serve.options import ServeConfig
    from matchset.serve.prometheus import make_slots
    from matchset.serve.snapshots import Sources
    from matchset.serve.versions import make_run_folder, publish
    from matchset.serve.worker import Worker

    sources = Sources(models / "match_set", (models / "bm25",))
    file, records = models.parent / "experiment.toml", models.parent / f"records{os.getpid()}"
    file.write_text(EXPERIMENT)
    config = ServeConfig(access_log=False, experiment=file, records=records)
    run = STACK.enter_context(make_run_folder(models.parent / f"served{os.getpid()}"))
    begin_records(records, read_experiment(file))
    (run.path / "experiment").write_text(json.dumps(read_experiment(file).to_dict()))
    publish(run, sources, config)
    slots = STACK.enter_context(make_slots(1))
    folder = records / read_experiment(file).name
    return make_app(Worker(run, sources, config, Limits(), slots, folder)), asyncio.new_event_loop()


def choose_products(rng, _):
    body = {name: choose_rows(rng, rows) for name, rows in BODIES["/v1/products"].items()}
    for row in body["products"]:
        row["id"] = row["id"] if rng.random() < 0.5 else str(rng.choice(CELLS))
        if isinstance(row["attributes"], dict) and rng.random() < 0.5:
            row["attributes"] = {str(rng.choice(WORDS[:5])): choose_json(rng)}
    body |= {str(name): choose_json(rng) for name in rng.choice(WRITES, rng.integers(0, 3))}
    return {"data": json.dumps(body).encode().hex()}


def run_products(case, models, scratch):
    """Products are refused with a reason, or the model takes them and goes on."""
    file = copy_model(models / "match_set", scratch / "written")
    try:
        wanted = decode(bytes.fromhex(case["data"]), ProductsRequest)
    except RequestError as error:
        assert error.status < 500  # noqa: PT017
        return
    try:
        products = [Upsert(one.id, one.title, one.attributes or {}) for one in wanted.products]
        with ms.open_writer(file) as writer:
            model = writer.upsert(products, remove=wanted.remove, version=wanted.version)
    except ValueError as error:
        assert str(error)  # noqa: PT017
        return
    model.match(["red rose", "", "🛋"], 20, where="price < 3 or brand is null")
    assert ms.load(file).match("red rose") == model.match("red rose")


def choose_experiment(rng, _):
    lines = EXPERIMENT.splitlines()
    for _ in range(rng.integers(0, 4)):
        at = int(rng.integers(len(lines)))
        lines[at : at + int(rng.integers(0, 2))] = [LINES[rng.integers(len(LINES))]]
    data = "\n".join(lines).encode()
    return {"data": (choose_bytes(rng, data) if rng.random() < 0.3 else data).hex()}


def run_experiment(case, models, scratch):
    """An experiment is refused with a reason, or gives every unit an arm."""
    file = scratch / "experiment.toml"
    file.write_bytes(bytes.fromhex(case["data"]))
    try:
        experiment = read_experiment(file)
        experiment.check_matchers(["match_set", "bm25", "tree"])
    except ValueError as error:
        assert str(error)  # noqa: PT017
    else:
        assert all(assign(experiment, unit) in experiment.arms for unit in CELLS)
        assert type(experiment).from_dict(experiment.to_dict()) == experiment


def choose_log(rng, _):
    reader = str(rng.choice(["log", "log", "catalog", "run", "ubi"]))
    names = COLUMNS[reader]
    columns = [str(name) for name in rng.choice(names, rng.integers(1, 7))]
    if rng.random() < 0.7:  # distinct, with those that it must have
        columns = [*names[: rng.integers(2, len(names) + 1)]]
    rows = [
        [OBJECT if name == "event_attributes" else str(rng.choice(CELLS)) for name in columns]
        for _ in range(rng.integers(0, 8))
    ]
    kind = str(rng.choice(["csv", "tsv", "jsonl", "csv.gz", "parquet"]))
    if kind == "jsonl":
        text = "\n".join(json.dumps(dict(zip(columns, row, strict=True))) for row in rows)
    else:
        text = "\n".join(("\t" if kind == "tsv" else ",").join(row) for row in [columns, *rows])
    data = text.encode("utf-8", "replace")
    if kind == "csv.gz":
        data = gzip.compress(data, mtime=0)
    if kind == "parquet":
        data = write_parquet(columns, rows)
    return {"reader": reader, "kind": kind, "data": choose_bytes(rng, data).hex()}


def write_parquet(columns, rows):
    import pyarrow as pa
    from pyarrow import parquet

    values = [pa.array([row[i] for row in rows], pa.string()) for i in range(len(columns))]
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(values, names=columns), sink)
    return sink.getvalue().to_pybytes()


def run_log(case, _, scratch):
    """A log, a catalog, a run or UBI is read, or refused with a reason."""
    file = scratch / f"log.{case['kind']}"
    file.write_bytes(bytes.fromhex(case["data"]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            READERS[case.get("reader", "log")](file)
        except InputError as error:
            assert str(error)  # noqa: PT017
