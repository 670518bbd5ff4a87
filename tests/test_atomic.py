"""What killed processes leave beside a model is removed, and nothing else."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from matchset.storage import folders
from matchset.storage.atomic import atomic_file, remove_leftovers, staging_folder, temporary_name
from matchset.storage.folders import open_folder, write_folder

HANGS = """
import pathlib, sys, time
from matchset.storage.atomic import staging_folder
with staging_folder(pathlib.Path(sys.argv[1])) as folder:
    (folder / "tree.data.bin").write_bytes(b"half")
    print(folder, flush=True)
    time.sleep(600)
"""
TOO_LARGE = """
import pathlib, resource, sys
import numpy as np
from matchset.storage.folders import write_folder
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
arrays = {"small": np.zeros(10), "large": np.zeros(100_000)}
write_folder(pathlib.Path(sys.argv[1]), "test", header={}, arrays=arrays, overwrite=True)
"""


def save(path, n=0):
    write_folder(path, "test", header={"n": n}, arrays={"a": np.arange(3)}, overwrite=True)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("is_there", [False, True])
def test_a_save_removes_what_a_killed_one_left(tmp_path, is_there):
    path = tmp_path / "model"
    if is_there:
        save(path)
    with subprocess.Popen([sys.executable, "-c", HANGS, path], stdout=subprocess.PIPE) as child:
        left = Path(child.stdout.readline().decode().strip())
        save(path, 1)
        assert left.exists()  # its builder is alive
        os.kill(child.pid, signal.SIGKILL)
    save(path, 2)
    assert names(tmp_path) == ["model"]
    assert open_folder(path, "test")[0] == {"n": 2}


def test_the_old_model_of_a_killed_swap_is_kept_until_there_is_a_new_one(tmp_path, monkeypatch):
    path = tmp_path / "model"
    save(path)
    old = temporary_name(path, ".old")
    path.rename(old)

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(folders, "write_file", fail)
        with pytest.raises(OSError, match="No space left"):
            save(path)
    assert names(tmp_path) == [old.name]
    save(path)
    assert names(tmp_path) == ["model"]


def test_only_ours_is_removed(tmp_path):
    path = tmp_path / "model"
    strange = temporary_name(path)
    strange.mkdir()
    (strange / "letter.txt").write_text("dear")
    others = [".model.tmp", ".model.0123456z.tmp", ".models.01234567.tmp", "model.01234567.tmp"]
    for name in others:
        (tmp_path / name).mkdir()
    (tmp_path / "real").mkdir()
    link = temporary_name(path)
    link.symlink_to(tmp_path / "real")
    save(path)
    remove_leftovers(path)
    assert names(tmp_path) == sorted([*others, strange.name, link.name, "real", "model"])


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "page.html"
    with atomic_file(path) as staged:
        staged.write_text("one")
        assert not path.exists()
    with path.open() as before:
        with atomic_file(path) as staged:
            staged.write_text("two")
        assert before.read() == "one"  # what was opened stays
    with path.open() as before:
        with pytest.raises(KeyboardInterrupt), atomic_file(path) as staged:  # noqa: PT012
            staged.write_text("half")
            raise KeyboardInterrupt
        assert before.read() == path.read_text() == "two"
    assert names(tmp_path) == ["page.html"]


def test_a_folder_that_was_swept_before_it_was_locked_is_made_again(tmp_path, monkeypatch):
    made = []

    def name(path):
        made.append(temporary_name(path))
        return made[-1]

    def lock(handle, _):
        if len(made) == 1:
            made[0].rmdir()

    monkeypatch.setattr("matchset.storage.atomic.temporary_name", name)
    monkeypatch.setattr("matchset.storage.atomic.fcntl.flock", lock)
    with staging_folder(tmp_path / "model") as building:
        assert building == made[1]
        assert names(tmp_path) == [building.name]


def test_a_folder_that_was_swept_before_it_was_opened_is_made_again(tmp_path, monkeypatch):
    made, really_open = [], os.open

    def open_late(path, flags):
        made.append(Path(path))
        if len(made) == 1:
            made[0].rmdir()
        return really_open(path, flags)

    monkeypatch.setattr("matchset.storage.atomic.os.open", open_late)
    with staging_folder(tmp_path / "model") as building:
        assert building == made[1]
        assert names(tmp_path) == [building.name]


def test_a_full_disk_leaves_the_old_model_and_no_rubbish(tmp_path):
    path = tmp_path / "model"
    save(path, 7)
    done = subprocess.run([sys.executable, "-c", TOO_LARGE, path], capture_output=True, text=True)
    assert "OSError" in done.stderr
    assert names(tmp_path) == ["model"]
    assert open_folder(path, "test")[0] == {"n": 7}
