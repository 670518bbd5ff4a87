"""Logs that no shop would write, too little memory, a full disk: an error that says what to do."""

import errno
import os
import signal
import subprocess
import sys
import time

import duckdb
import numpy as np
import pytest
from logs import write_long_log

from matchset.data.duckdb_session import open_session
from matchset.data.log_reader import read_log
from matchset.errors import DataError

# Whoever runs the tests in the background may have told all processes to ignore SIGINT.
HEARS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
MAIN = HEARS + "from matchset.cli import main; main()"


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_l1_a_log_that_is_read_ends_at_once_and_leaves_nothing(tmp_path, monkeypatch, by):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    command = [sys.executable, "-c", MAIN, "describe", write_long_log(tmp_path / "logs")]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as child:
        end = time.monotonic() + 60
        while not any(temporary.glob("matchset-spill-*")):  # it has begun to read
            assert time.monotonic() < end
            time.sleep(0.005)
        child.send_signal(by)
        _, said = child.communicate(timeout=60)
    assert (child.returncode, said) == (128 + by, b"matchset: stopped; nothing was saved\n")
    assert list(temporary.iterdir()) == []


TRAINS = f"""{HEARS}
import hashlib, sys
from matchset.cli import commands, models
def solve(*_, **__):  # native code that takes minutes, without the GIL
    print("begun", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
models.train_matcher = solve
commands.main()
"""


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_l1_a_training_ends_soon_after_ctrl_c_whatever_native_code_is_doing(tmp_path, by):
    path = tmp_path / "log.csv"
    path.write_text("query,sku\na,b\n")
    command = [sys.executable, "-c", TRAINS, "train", str(path), "--out", str(tmp_path / "model")]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as child:
        try:
            assert child.stdout.readline() == b"begun\n"
            child.send_signal(by)
            _, said = child.communicate(timeout=60)
        finally:
            child.kill()
    assert (child.returncode, said) == (128 + by, b"matchset: stopped; nothing was saved\n")
    assert [one.name for one in tmp_path.iterdir()] == ["log.csv"]


FULL = f'IO Error: Could not write file "x.parquet": {os.strerror(errno.ENOSPC)}'
SQL = "Binder Error: no such column! \n\nLINE 1: SELECT a FROM b\n   ^"
OWN_LIMIT = (
    "Out of Memory Error: could not allocate block of size 256.0 KiB (47.6 MiB/47.6 MiB used)"
)


@pytest.mark.parametrize(
    ("error", "expected", "rule"),
    [
        (duckdb.OutOfMemoryException(OWN_LIMIT), MemoryError, "memory must be larger"),
        (duckdb.OutOfMemoryException("Out of Memory Error: Allocation failure"), MemoryError,
         "this process needs more memory"),
        (duckdb.IOException(FULL), OSError, "No space left on device"),
        (duckdb.InterruptException("INTERRUPT Error: Interrupted!"), KeyboardInterrupt, None),
        (duckdb.Error("Query interrupted"), KeyboardInterrupt, None),
        (duckdb.Error(SQL), DataError, "got: Binder Error: no such column!$"),
    ],
)  # fmt: skip
def test_what_duckdb_raises_says_what_to_do(error, expected, rule):
    with pytest.raises(expected, match=rule), open_session():
        raise error


def test_l2_a_file_that_ends_amid_a_character_names_an_encoding(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(b"query,sku\nroses,b\ncaf\xc3\xa9,caf\xc3")
    with pytest.raises(DataError, match=r"is not UTF-8; got byte 0xc3 in line 3; try cp1252"):
        read_log(path)


def test_correctness_l1_fractions_in_any_order_give_the_same_log():
    rng = np.random.default_rng(0)
    at = rng.integers([5, 3, 50], size=(999, 3))
    given = [(f"q{query}", f"p{product}", 0.1 * count) for query, product, count in at]
    logs = []
    for _ in range(4):
        rows = [given[i] for i in rng.permutation(len(given))]
        logs.append(read_log(to_table(rows)))
    assert logs[1:] == logs[:1] * 3
    assert logs[0].count.sum() == pytest.approx(sum(count for _, _, count in given))


def to_table(rows):
    pa = pytest.importorskip("pyarrow")
    queries, products, counts = zip(*rows, strict=True)
    return pa.table({"query": queries, "product_id": products, "count": counts})
