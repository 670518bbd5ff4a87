"""Files are read as they are written: nothing is guessed from a part of them."""

import itertools
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from logs import DAY_NUMBER, rows_of, write_rows

from matchset.data.arrow import NO_DAY
from matchset.data.catalog_reader import read_catalog
from matchset.data.log_reader import read_log
from matchset.errors import DataError


def test_csv_details(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b'\xef\xbb\xbfquery;sku\r\n#6 screw;1\r\n"a;b ""c""\r\nd";NA\r\n')
    assert set(read_log(path).spellings) == {"#6 screw", 'a;b "c"\r\nd'}
    assert set(read_log(path).products) == {"1", "NA"}
    for ending, inner in itertools.product([b"\n", b"\r\n", b"\r"], repeat=2):
        text = b'query,sku\n"red%sshoe",1\nblue,2\n'.replace(b"\n", ending)
        path.write_bytes(text % inner)
        assert list(read_log(path).queries) == ["blue", "red shoe"]
    path.write_text(",query,sku\n0,red,1")
    assert list(read_log(path).queries) == ["red"]
    path.write_text("query,sku\n")
    assert len(read_log(path)) == 0


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "SEP=;", "\ufeffsep=;"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_first_line_of_excel_names_the_separator(tmp_path, first, ending):
    path = tmp_path / "log.csv"
    lines = [first, "query;sku;a,b,c,d", "red, blue;1;x", "green;2;y"]
    path.write_text(ending.join(lines) + ending, newline="")
    assert set(read_log(path).spellings) == {"red, blue", "green"}
    path.write_text(ending.join([first, "sku;title", "1;mug; or cup"]) + ending, newline="")
    with pytest.raises(DataError):
        read_catalog(path)
    for text in (first, f"{first}{ending}"):
        path.write_text(text, newline="")
        with pytest.raises(DataError, match="the first line must name the columns; got"):
            read_log(path)


def test_tsv_has_no_quoting(tmp_path):
    path = tmp_path / "log.tsv"
    path.write_text('query\tsku\n"open 5" pipe\t"1\n""\t2"\n')
    log = read_log(path)
    assert list(log.products) == ['"1']
    assert log.report.without_query == 1


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz"])
def test_json_keys_that_appear_late_are_found(tmp_path, name):
    rows = [{"query": "red", "product_id": "1"}] * 25_000
    late = [{"query": "red", "product_id": "2", "event": "buy", "date": "2026-01-02"}]
    log = read_log(write_rows(tmp_path / name, rows + late))
    assert rows_of(log) == {
        ("red", "1", "", int(NO_DAY)): 25_000,
        ("red", "2", "buy", DAY_NUMBER): 1,
    }


def test_rare_json_keys_are_columns(tmp_path):
    rows = [{"sku": str(i), "title": "hat", f"attribute {i}": "red"} for i in range(400)]
    catalog = read_catalog(write_rows(tmp_path / "c.jsonl", rows))
    assert len(catalog.attributes) == 400


TWICE = pa.table([["red"], ["1"], ["blue"]], names=["query", "sku", "Query"])


def test_equal_names_of_columns_are_refused(tmp_path):
    pq.write_table(TWICE, tmp_path / "log.parquet")
    where = "the given table"
    for source in (TWICE, TWICE.to_reader(), TWICE.to_pandas(), tmp_path / "log.parquet"):
        for read in (read_log, read_catalog):
            with pytest.raises(DataError, match="distinct names; got 'Query' twice") as error:
                read(source)
            assert str(error.value).startswith((f"{where}:", f"{tmp_path / 'log.parquet'}:"))
    nested = pa.table({"q": ["red"], "sku": ["1"], "a": [{"q": 1, "b": {"q": 2}}], "b": [[1]]})
    pq.write_table(nested, tmp_path / "nested.parquet")
    assert list(read_log(tmp_path / "nested.parquet").queries) == ["red"]


@pytest.mark.parametrize("name", ["c.jsonl", "c.json", "c.jsonl.gz"])
def test_json_keys_that_differ_only_in_case_are_refused(tmp_path, name):
    row = {"sku": "1", "title": "hat", "size": "M"}
    path = write_rows(tmp_path / name, [row | {"Size": "L"}])
    with pytest.raises(DataError, match="columns must have distinct names; got 'size' twice"):
        read_catalog(path)
    write_rows(path, [row | {"size_1": "L"}])
    assert list(read_catalog(path).attributes) == ["size", "size_1"]


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "log.parquet"])
def test_a_folder_that_is_named_like_a_column_is_refused(tmp_path, name):
    folder = tmp_path / "log" / "Query=zzz"
    folder.mkdir(parents=True)
    path = write_rows(folder / name, [{"query": "red", "sku": "1"}])
    for source in (tmp_path / "log", str(tmp_path / "log" / "*" / name)):
        with pytest.raises(DataError, match=r"got 'Query' twice, once as the name of a folder"):
            read_log(source)
    assert list(read_log(path).queries) == ["red"]  # the file alone has no folders


def test_l4_a_link_loop_reads_a_file_once(tmp_path):
    folder = tmp_path / "loop"
    folder.mkdir()
    (folder / "log.csv").write_text("query,sku\na,b\n")
    (folder / "again").symlink_to(".")
    assert read_log(f"{folder}/**/*.csv").report.rows == 1
    assert read_log([folder, folder / "again"]).report.rows == 1


def test_l4_links_to_partitions_and_hard_links_are_files_of_their_own(tmp_path):
    day = tmp_path / "log" / "day=1"
    day.mkdir(parents=True)
    (day / "log.csv").write_text("query,sku\na,b\n")
    (tmp_path / "log" / "day=2").symlink_to("day=1")
    os.link(day / "log.csv", day / "more.csv")
    assert read_log(f"{tmp_path}/log/*/*.csv").report.rows == 4
