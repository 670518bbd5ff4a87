"""Files are read as they are written: nothing is guessed from a part of them."""

import gzip

import numpy as np
import pytest
from logs import DAY_NUMBER, rows_of, write_rows

from matchset.data.catalog_reader import read_catalog
from matchset.data.log import NO_DAY
from matchset.data.read import read_log
from matchset.data.tables import open_tables


def test_csv_details(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b'\xef\xbb\xbfquery;sku\r\n#6 screw;1\r\n"a;b ""c""\r\nd";NA\r\n')
    assert set(read_log(path).spellings) == {"#6 screw", 'a;b "c"\r\nd'}
    assert set(read_log(path).products) == {"1", "NA"}
    path.write_text(",query,sku\n0,red,1")
    assert list(read_log(path).queries) == ["red"]
    path.write_text("query,sku\n")
    assert len(read_log(path)) == 0


def test_the_header_of_a_large_file_is_its_first_line(tmp_path):
    path = tmp_path / "log.csv.gz"
    lines = np.random.default_rng(0).integers(97, 123, (3_200_000, 11), dtype=np.uint8)
    lines[:, -1] = ord("\n")
    assert lines.nbytes > 2**25  # from which on DuckDB reads with several threads
    path.write_bytes(gzip.compress(b"sku\n" + lines.tobytes(), 0))
    for _ in range(8):  # threads race: any of them may come first
        with open_tables(path, memory_limit="1GB") as (_, ((table,),)):
            assert list(table.columns) == ["sku"]


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
