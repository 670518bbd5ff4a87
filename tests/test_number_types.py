"""Numbers keep their meaning on the way in: float32, integers of 64 bits, NaN and infinity."""

import json
import math
from decimal import Decimal

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from matchset.data.catalog_reader import read_catalog
from matchset.data.log_reader import read_log
from matchset.data.positives import positives
from matchset.errors import DataError, FilterError
from matchset.filters.parser import parse
from matchset.filters.predicate import evaluate

IDS = ["a", "b", "c"]
PRICES = [19.99, 20.0, 0.1]
SELLERS = [1765432109876543210, 1765432109876543211, -5]


def sources(columns, schema, tmp_path):
    """The same table in every form that has types."""
    table = pa.table(columns, schema=schema)
    pq.write_table(table, tmp_path / "table.parquet")
    return [tmp_path / "table.parquet", table, pl.from_arrow(table), table.to_pandas()]


def holds(catalog, text):
    mask = evaluate(parse(text), catalog.attributes, len(catalog))
    return [product for product, is_in in zip(catalog.ids, mask, strict=True) if is_in]


@pytest.mark.parametrize(
    ("text", "found"),
    [("price = 19.99", ["a"]), ("price < 19.99", ["c"]), ("price >= 19.99", ["a", "b"]),
     ("price in (0.1)", ["c"])],
)  # fmt: skip
def test_w1_a_filter_compares_a_float32_price_as_the_decimal_that_was_written(
    tmp_path, text, found
):
    schema = pa.schema([("sku", "string"), ("title", "string"), ("price", "float32")])
    columns = {"sku": IDS, "title": IDS, "price": PRICES}
    for source in sources(columns, schema, tmp_path):
        assert holds(read_catalog(source), text) == found, type(source)


def test_w1_a_float32_count_reaches_the_threshold_that_was_written(tmp_path):
    schema = pa.schema([("q", "string"), ("sku", "string"), ("count", "float32")])
    columns = {"q": IDS, "sku": IDS, "count": [2.33, 2.67, 2.0]}
    for source in sources(columns, schema, tmp_path):
        assert len(positives(read_log(source), min_count=2.33)) == 2


def test_w1_float32_nulls_stay_nulls_and_bad_counts_stay_bad():
    count = pa.array([1.5, None, math.nan, math.inf, -1], pa.float32())
    log = read_log(pa.table({"q": list("abcde"), "sku": list("abcde"), "count": count}))
    assert log.count.tolist() == [1.5]
    assert log.report.bad_count == 4
    catalog = read_catalog(pa.table({"sku": list("abcde"), "title": list("abcde"), "x": count}))
    assert catalog.attributes["x"].is_null.tolist() == [False, True, True, False, False]


def test_w2_integers_beyond_2_to_the_53_stay_distinct(tmp_path):
    schema = pa.schema([("sku", "string"), ("title", "string"), ("seller", "int64")])
    columns = {"sku": IDS, "title": IDS, "seller": SELLERS}
    for source in sources(columns, schema, tmp_path):
        catalog = read_catalog(source)
        assert catalog.attributes["seller"].kind == "text"
        assert holds(catalog, f"seller = '{SELLERS[0]}'") == ["a"]
        assert holds(catalog, "seller = '-5'") == ["c"]
        with pytest.raises(FilterError, match=r"seller \(text\) must be compared with"):
            holds(catalog, f"seller = {SELLERS[0]}")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [(pa.int64(), 2**53 - 1, "number"), (pa.int64(), 2**53, "text"), (pa.int64(), -(2**53), "text"),
     (pa.uint64(), 2**64 - 1, "text"), (pa.decimal128(20, 0), 2**53, "text"),
     (pa.float64(), 2.0**60, "number"), (pa.decimal128(20, 2), 5, "number"),
     (pa.int64(), None, "number")],
)  # fmt: skip
def test_w2_only_integers_that_would_collide_become_text(kind, value, expected):
    exact = Decimal(value) if pa.types.is_decimal(kind) else value
    values = pa.array([exact], kind)
    catalog = read_catalog(pa.table({"sku": ["a"], "title": ["a"], "x": values}))
    assert catalog.attributes["x"].kind == expected


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_w3_nan_and_infinity_as_ids_are_dropped_and_counted(tmp_path, kind):
    schema = pa.schema([("q", "string"), ("sku", kind)])
    columns = {"q": list("xyzwv"), "sku": [123.0, math.nan, math.inf, -math.inf, None]}
    for source in sources(columns, schema, tmp_path):
        log = read_log(source)
        assert list(log.products) == ["123"]
        assert (log.report.rows, log.report.without_product) == (5, 4)
        catalog = read_catalog(source, title="q")
        assert list(catalog.ids) == ["123"]
        assert catalog.report.without_product == 4


@pytest.mark.parametrize("name", ["log.csv", "log.tsv", "log.csv.gz", "log.jsonl"])
def test_w3_ids_that_were_nan_before_they_became_text_are_dropped_too(tmp_path, name):
    frame = pd.DataFrame({"query": list("abcd"), "sku": ["7", "nan", "NaN", "inf"]})
    path = tmp_path / name
    if name.endswith("jsonl"):
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="\t" if "tsv" in name else ",")
    log = read_log(path)
    assert list(log.products) == ["7"]
    assert log.report.without_product == 3
    with pytest.raises(DataError, match="row 2: column 'sku' must hold a product id; got 'nan'"):
        read_log(path, strict=True)


def test_w3_nan_in_json_is_no_id_and_nan_is_still_a_query(tmp_path):
    path = tmp_path / "log.jsonl"
    rows = [{"query": "nan", "sku": 1.5}, {"query": "inf", "sku": math.nan}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    log = read_log(path)
    assert (list(log.queries), list(log.products)) == (["nan"], ["1.5"])
    assert log.report.without_product == 1
