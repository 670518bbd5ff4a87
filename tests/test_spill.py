"""Nothing of a log stays on disk, no matter how reading it ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from logs import write_long_log

from matchset.data.duckdb_session import open_session
from matchset.data.log_reader import read_log
from matchset.memory import limit_memory

READS = """
import pathlib, time
from matchset.data.duckdb_session import open_session
with open_session() as connection:
    folder = connection.execute("SELECT current_setting('temp_directory')").fetchone()[0]
    (pathlib.Path(folder) / "duckdb_temp_storage_DEFAULT-0.tmp").write_text("queries")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """A temporary folder of one's own, for this process and its children."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def start():
    child = subprocess.Popen([sys.executable, "-c", READS], stdout=subprocess.PIPE)
    return child, Path(child.stdout.readline().decode().strip())


def read_something():
    with open_session() as connection:
        connection.execute("SELECT 1").fetchall()


def test_m7_what_a_killed_read_left_is_removed_by_the_next(temporary):
    child, folder = start()
    with child:
        assert folder.parent == temporary
        assert folder.stat().st_mode & 0o777 == 0o700
        read_something()
        assert len(list(folder.iterdir())) == 1  # its process is alive
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert folder.exists()
    read_something()
    assert list(temporary.iterdir()) == []


def test_m7_only_folders_of_ours_are_removed(temporary):
    for name in ("matchset-spill-letters", "matchset-demo", "other"):
        (temporary / name).mkdir()
        (temporary / name / "letter.txt").write_text("dear")
    (temporary / "matchset-spill-link").symlink_to(temporary / "other")
    (temporary / "matchset-spill-file").write_text("")
    before = sorted(temporary.rglob("*"))
    read_something()
    assert sorted(temporary.rglob("*")) == before


def test_m7_duckdbs_spilled_files_have_names_that_are_swept(temporary):
    with limit_memory("120MB"), open_session() as connection:
        (folder,) = temporary.iterdir()
        connection.execute(
            "CREATE TABLE t AS SELECT range AS i, hash(range)::VARCHAR AS s FROM range(3000000)"
        )
        names = [file.name for file in folder.iterdir()]
    assert names
    assert all(name.startswith("duckdb_temp") for name in names)
    assert list(temporary.iterdir()) == []


def test_m7_sigterm_while_a_log_is_read_leaves_nothing(temporary, tmp_path):
    main = "from matchset.cli import main; main()"
    command = [sys.executable, "-c", main, "describe", write_long_log(tmp_path / "logs")]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as child:
        end = time.monotonic() + 60
        while not any(temporary.glob("matchset-spill-*")):  # tempfile tries it first
            assert time.monotonic() < end
            time.sleep(0.005)
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=60)
    assert (child.returncode, said) == (143, b"matchset: stopped; nothing was saved\n")
    assert list(temporary.iterdir()) == []


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
