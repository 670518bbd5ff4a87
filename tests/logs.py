"""Small logs for the tests: written in any format, and as plain rows."""

import csv
import datetime as dt
import gzip
import io
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from matchset.data.log_reader import read_log

DAY = dt.date(2026, 1, 2)
DAY_NUMBER = (DAY - dt.date(1970, 1, 1)).days
ROWS = [
    {"query": "Red Shoes", "product_id": "00123", "event": "click", "date": "2026-01-02"},
    {"query": "red  shoes", "product_id": "00123", "event": "click", "date": "2026-01-02"},
    {"query": 'a 5" pipe, long', "product_id": "b,1", "event": "purchase", "date": "2026-01-03"},
    {"query": "größe ½ 靴", "product_id": "7", "event": "click", "date": "2026-01-03"},
]


def write_long_log(folder: Path):
    """A pattern of files that take half a minute to read: one of them, under many names."""
    folder.mkdir()
    rows = "".join(f"query {i},p{i % 1000}\n" for i in range(200_000))
    (folder / "0.csv").write_text("query,sku\n" + rows * 10)
    for number in range(1, 20):
        os.link(folder / "0.csv", folder / f"{number}.csv")
    return f"{folder}/*.csv"


def write_rows(path: Path, rows=ROWS):
    """Write rows in the format that the name tells."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    if name.endswith(("jsonl", "ndjson")):
        text = "".join(json.dumps(row) + "\n" for row in rows)
    elif name.endswith("json"):
        text = json.dumps(rows)
    elif name.endswith("tsv"):
        text = "".join(
            "\t".join(row) + "\n" for row in [list(rows[0]), *(r.values() for r in rows)]
        )
    else:
        out = io.StringIO()
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        text = out.getvalue()
    data = text.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data)
    path.write_bytes(data)
    return path


def rows_of(log):
    return {
        (log.queries[q], log.products[p], log.events[e], int(d)): float(c)
        for q, p, e, d, c in zip(log.query, log.product, log.event, log.day, log.count, strict=True)
    }


def one_value(column, value, **options):
    """The log of one row with a value of any type in a column."""
    row = {"query": ["shoe"], "product_id": ["p"]} | {column: value}
    return read_log(pa.table(row), **options)
