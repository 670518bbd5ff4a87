"""A fault in a log is an error that says where it is."""

import gzip
import io
import os
import random
import tempfile
from functools import partial
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from logs import ROWS, one_value, write_rows

from matchset.data.catalog_reader import read_catalog
from matchset.data.duckdb_session import open_session
from matchset.data.log_reader import read_log
from matchset.errors import DataError


@pytest.mark.parametrize("name", ["log.csv", "log.tsv.gz", "log.jsonl", "log.parquet"])
@pytest.mark.parametrize(
    ("column", "value", "rule"),
    [
        ("query", "", "hold a query; got"),
        ("query", "!!", "hold a query; got '!!'"),
        ("product_id", "", "hold a product id; got"),
        ("count", "-3", "hold a finite number that is not negative; got '-3'"),
        ("date", "soon", "hold a date or a time; got 'soon'"),
    ],
)
def test_strict_names_file_row_column_and_value(tmp_path, name, column, value, rule):
    rows = [row | {"count": "1"} for row in ROWS * 3]
    good = write_rows(tmp_path / f"a_good_{name}", rows)
    rows[6] = rows[6] | {column: value}
    rows[9] = rows[9] | {column: value}
    bad = write_rows(tmp_path / name, rows)
    with pytest.raises(DataError) as error:
        read_log([good, bad], strict=True)
    assert f"{bad}, row 7: column {column!r} must {rule}" in str(error.value)
    assert read_log(good, strict=True).report.is_clean


def broken(name, data, reason):
    return pytest.param(name, data, reason, id=name)


PARQUET = io.BytesIO()
pq.write_table(pa.Table.from_pylist(ROWS * 1000), PARQUET)
HALF_GZIP = gzip.compress(b"query,sku\n" + b"".join(b"red %d,1\n" % i for i in range(9999)))[:5000]


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        broken("empty.csv", b"", "must not be empty"),
        broken("empty.parquet", b"", "must not be empty"),
        broken("truncated.parquet", PARQUET.getvalue()[:-20], "must be a readable Parquet file"),
        broken("noise.parquet", b"PAR1\xff\xff\xff\xff\xffPAR1", "must be a readable Parquet file"),
        broken("ragged.csv", b"query,sku\nred,1\nblue\n", "must be a readable CSV file.*Line: 3"),
        broken("wide.csv", b"query,sku\nred,1\nblue,2,3\n", "must be a readable CSV file.*Line: 3"),
        broken("ragged.tsv", b"query\tsku\nred\t1\nblue\n", "must be a readable TSV file.*Line: 3"),
        broken("quote.csv", b'query,sku\n"red,1\nblue,2\n', "must be a readable CSV file"),
        broken("utf8.csv", b"query,sku\nr\xffd,1\n", "not UTF-8; got byte 0xff in line 2; try"),
        broken("utf8.tsv", b"query\tsku\nr\xffd\t1\n", "not UTF-8; got byte 0xff in line 2; try"),
        broken("utf8.jsonl", b'{"query": "r\xffd", "sku": 1}\n', "byte 0xff in line 1; try"),
        broken("cut.jsonl", b'{"query": "red", "sku": 1}\n{"que', "readable JSON Lines file"),
        broken("list.jsonl", b"1\n2\n", "must name a column"),
        broken("half.csv.gz", HALF_GZIP, "must be a whole gzip file"),
        broken("plain.csv.gz", b"query,sku\nred,1\n", "must be a whole gzip file"),
        broken("plain.csv.zst", b"query,sku\nred,1\n", "must not be packed with zstd; unpack it"),
        broken("blank.csv", b"\nquery,sku\nred,1\n", "must name the columns; got an empty line"),
        broken("blank.tsv.gz", gzip.compress(b" \nq\tsku\n"), "must name the columns; got an"),
        broken("nothing.csv.gz", gzip.compress(b""), "must name the columns; got an empty file"),
        broken("ends.tsv", b"query\tsku\r\nred\t1\nblue\t2\r\n", "do not all end alike"),
        broken("ends.csv", b"query,sku\nred,1\r\nblue,2\n", "do not all end alike"),
        broken("twice.csv", b"query,sku,Query\nred,1,2\n", "distinct names; got 'Query' twice"),
        broken("log.xlsx", b"PK", "a data file must end in one of .parquet"),
        broken("log.parquet.gz", b"PK", "a data file must end in one of .parquet"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("strict", [False, True])
def test_a_broken_file_is_an_error_that_names_it(tmp_path, name, data, reason, strict):
    (tmp_path / name).write_bytes(data)
    good = write_rows(tmp_path / "good.csv")
    with pytest.raises(DataError, match=reason) as error:
        read_log([good, tmp_path / name], strict=strict)
    assert name in str(error.value)


@pytest.mark.parametrize(
    ("row", "reason"),
    [("x" * 10_000, "Expected Number of Columns: 2 F"), ('"secret', "unterminated quote")],
)
def test_messages_name_the_line_and_never_show_it(tmp_path, row, reason):
    path = tmp_path / "log.csv"
    path.write_text(f"query,sku\nred,1\n{row}\n" + "my address,1\n" * 50)
    with pytest.raises(DataError, match=f"Line: 3 .*{reason}") as error:
        read_log(path)
    assert len(str(error.value)) < 200 + len(str(path))
    assert "xx" not in str(error.value)
    assert "secret" not in str(error.value)
    assert "address" not in str(error.value)


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl.gz", "log.parquet"])
def test_too_small_a_memory_is_not_blamed_on_the_file(tmp_path, name):
    path = write_rows(tmp_path / name, ROWS * 1000)
    for read in (read_log, partial(read_catalog, title="query", duplicates="first")):
        with pytest.raises(MemoryError, match="memory must be larger; got: Out of Memory"):
            read(path, memory="20KB")


def test_damage_inside_a_parquet_file_is_an_error_that_names_it(tmp_path):
    data = bytearray(PARQUET.getvalue())
    data[50:200] = b"\xff" * 150
    (tmp_path / "bad.parquet").write_bytes(data)
    good = write_rows(tmp_path / "good.parquet")
    with pytest.raises(DataError, match=r"bad\.parquet: must be a readable Parquet file"):
        read_log([good, tmp_path / "bad.parquet"])


@pytest.mark.parametrize(
    ("source", "error", "rule"),
    [
        ("nowhere.csv", DataError, r"nowhere.csv: there is no such file"),
        ("*.parquet", DataError, r"\*\.parquet: no file matches"),
        ("", DataError, r"a folder must hold at least one data file; got none"),
        (os.fsdecode(b"r\xffd.csv"), DataError, r"udcffd.csv': the name of a file must be"),
        ([], DataError, "source= must name at least one file; got an empty list"),
        (3, TypeError, "source must be a path, a list of paths or a table"),
        (None, TypeError, "source must be a path, a list of paths or a table"),
        (b"log.csv", TypeError, "source must be a path, a list of paths or a table"),
        ([3], TypeError, "source must be a path or a list of paths; got int"),
        ({"query": ["a"]}, TypeError, "got dict; make a table of it, such as pandas.DataFrame"),
        (pl.LazyFrame({"query": ["a"]}), TypeError, r"got LazyFrame; call its collect\(\)"),
    ],
)  # fmt: skip
def test_sources_that_hold_no_log_are_named(tmp_path, source, error, rule):
    if isinstance(source, str):
        source = f"{tmp_path}/{source}"
        if source.endswith("d.csv"):
            write_rows(Path(source))
    with pytest.raises(error, match=rule):
        read_log(source)


def test_links_that_lead_nowhere_are_named(tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    write_rows(folder / "a.csv")
    (folder / "_old.csv").symlink_to("/nowhere/log.csv")
    assert read_log(folder).report.rows == 4
    (folder / "b.csv").symlink_to("/nowhere/log.csv")
    for source in (folder, folder / "b.csv", str(folder / "[ab].csv"), [folder / "b.csv"]):
        with pytest.raises(DataError, match=r".*b.csv: a link must lead to a file; this one is b"):
            read_log(source)


def test_a_folder_of_mixed_formats_is_an_error(tmp_path):
    write_rows(tmp_path / "a.csv")
    write_rows(tmp_path / "b.jsonl")
    with pytest.raises(
        DataError, match=r"must have one format; got CSV \(a.csv\) and JSON Lines \(b.jsonl\)"
    ):
        read_log(tmp_path)


def test_nested_columns_are_refused():
    with pytest.raises(DataError, match=r"column 'query' must hold plain values; got VARCHAR\[\]"):
        one_value("query", [["shoe"]])
    with pytest.raises(DataError, match=r"column 'sku' must hold plain values; got STRUCT"):
        read_log(pa.table({"q": ["a"], "sku": [{"id": 1}]}))


def test_more_than_256_kinds_of_event_are_refused():
    n = 257
    table = pa.table({"query": ["a"] * n, "sku": ["x"] * n, "event": [f"e{i}" for i in range(n)]})
    with pytest.raises(
        DataError, match="the event column must hold at most 256 kinds of event; got 257"
    ):
        read_log(table)


def test_temporary_folders_are_removed(tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    n = 100_000
    table = pa.table({"q": [f"query {i}" for i in range(n)], "sku": [f"sku {i}" for i in range(n)]})
    read_log(table, memory="48MB")
    (tmp_path / "bad.csv").write_text("query,sku\nred\n")
    with pytest.raises(DataError):
        read_log(tmp_path / "bad.csv")
    assert list(scratch.iterdir()) == []


def test_other_files_are_out_of_reach(tmp_path):
    secret = write_rows(tmp_path / "secret.csv")
    with open_session(paths=[write_rows(tmp_path / "log.csv")]) as connection:
        assert len(connection.sql(f"FROM read_csv('{tmp_path}/log.csv')").fetchall()) == len(ROWS)
        for sql in (
            f"FROM read_csv('{secret}')",
            f"COPY (SELECT 1) TO '{tmp_path}/new.csv'",
            "INSTALL httpfs",
            "SET enable_external_access = true",
        ):
            with pytest.raises(duckdb.Error):
                connection.execute(sql)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
@pytest.mark.parametrize("column", ["title", "sku", "brand"])
def test_n3_a_text_that_is_too_long_is_shown_with_its_row(tmp_path, name, column):
    rows = [{"sku": str(row), "title": f"mug {row}", "brand": "acme"} for row in range(3)]
    most = 100_000 if column == "brand" else 10_000
    rows[1][column] = "x" * most
    path = write_rows(tmp_path / name, rows)
    assert len(read_catalog(path)) == 3
    rows[1][column] += "x"
    rule = rf"row 2: column '{column}' must have at most {most:,} bytes; got {most + 1:,}"
    with pytest.raises(DataError, match=rule):
        read_catalog(write_rows(tmp_path / name, rows))
    with pytest.raises(DataError, match=rule):
        read_catalog(pl.DataFrame(rows))
    with pytest.raises(DataError, match=rule):
        read_catalog(path, text=("brand",), attributes=(column,))


@pytest.mark.parametrize("column", ["query", "product_id"])
def test_n3_a_row_with_a_query_or_an_id_that_is_too_long_is_dropped(tmp_path, column):
    rows = [{"query": "mug", "product_id": "1"}] * 2
    path = write_rows(tmp_path / "log.csv", [*rows, rows[0] | {column: "x" * 10_001}])
    assert read_log(path).report.dropped == 1
    with pytest.raises(DataError, match=r"row 3: .* of at most 10,000 bytes; got 'x{80}\.\.\.'"):
        read_log(path, strict=True)


def test_n3_a_small_catalog_does_not_become_gigabytes(tmp_path):
    path = tmp_path / "bomb.parquet"
    duckdb.sql(
        "COPY (SELECT 'p' || i AS product_id, repeat('x y ', 250000) AS title FROM range(500) t(i))"
        f" TO '{path}' (COMPRESSION zstd)"
    )
    with pytest.raises(DataError, match=r"row 1: .*'title' must have at most 10,000 bytes"):
        read_catalog(path)


@pytest.mark.parametrize("name", ["log.csv", "log.parquet", "frame", "stream"])
def test_an_error_names_the_row_also_where_many_are_read_in_any_order(tmp_path, name):
    n, bad = 1_000_000, 765_432
    path = tmp_path / (name if "." in name else "log.parquet")
    duckdb.sql(
        f"COPY (SELECT 'query ' || i % 9 AS query, i AS sku, if(i = {bad}, '1,5', '2') AS count "
        f"FROM range(1, {n} + 1) t(i)) TO '{path}'"
    )
    source = path if "." in name else pq.read_table(path)
    source = source.to_reader() if name == "stream" else source
    with pytest.raises(DataError, match=f"row {bad}: column 'count' .* got '1,5'; say decimal=','"):
        read_log(source)


def test_m8_every_flipped_bit_and_every_cut_of_a_gzip_log_is_noticed(tmp_path):
    rng = random.Random(5)
    whole = gzip.compress(
        b"query,sku\n" + b"".join(b"red %d,1\n" % i for i in range(9999)), mtime=0
    )
    flipped = []
    for at in (-8, -1, *(rng.randrange(10, len(whole)) for _ in range(40))):
        flipped.append(bytearray(whole))
        flipped[-1][at] ^= 1 << rng.randrange(8)
    cut = [whole[: max(1, int(share * len(whole)))] for share in (0.0001, 0.1, 0.5, 0.9, 0.9999)]
    path = tmp_path / "log.csv.gz"
    for data in (*flipped, *cut):
        path.write_bytes(bytes(data))
        with pytest.raises(DataError, match=r"log\.csv\.gz: must be a whole gzip file"):
            read_log(path)
    for parts in ((whole,), (gzip.compress(b"query,sku\n"), whole[:0], gzip.compress(b"a,1\n"))):
        path.write_bytes(b"".join(parts))
        assert read_log(path).report.rows in (9999, 1)
