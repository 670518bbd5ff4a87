"""Files are read as they are written: nothing is guessed from a part of them."""

import gzip

import numpy as np

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
