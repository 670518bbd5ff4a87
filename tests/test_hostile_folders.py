"""A folder is read as one whole, and only its own regular files are."""

import json
import math
import multiprocessing
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from bookshelf import make_catalog, make_pairs

import matchset as ms
from matchset.baselines import BM25, Popularity
from matchset.errors import ModelFileError, TargetExistsError
from matchset.serve.reload.snapshots import Sources, take_snapshots
from matchset.storage import folders
from matchset.storage.folders import open_folder, verify_folder, write_folder
from matchset.storage.handles import read_folder

SAVES = """
import sys, pathlib, itertools
import numpy as np
from matchset.storage.folders import write_folder
path = pathlib.Path(sys.argv[1])
for n in itertools.count():
    arrays = {f"a{i}": np.full(4, n) for i in range(20)}
    write_folder(path, "test", header={"n": n}, arrays=arrays, overwrite=True)
    print(n, flush=True)
"""
SAVES_ONCE = """
import sys, pathlib
import numpy as np
from matchset.storage import folders
folders.flush_folder = lambda folder: input()  # the last step before the folder is published
arrays = {"a": np.arange(3)}
folders.write_folder(pathlib.Path(sys.argv[1]), "test", header={}, arrays=arrays)
"""


def save_matchers_in_a_loop(path):
    popular = Popularity.from_positives(make_pairs())
    lexical = BM25.from_catalog(make_catalog())
    fusion = ms.Fusion([popular, lexical])
    while True:
        for matcher in (popular, fusion, lexical):
            matcher.save(path, overwrite=True)


def test_m1_a_folder_opened_during_overwrites_is_the_old_or_the_new_one(tmp_path):
    path = tmp_path / "model"
    command = [sys.executable, "-c", SAVES, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        found, end = set(), time.monotonic() + 90
        while len(found) < 100 and time.monotonic() < end:
            header, arrays = open_folder(path, "test")
            assert {int(array[0]) for array in arrays.values()} == {header["n"]}
            found.add(header["n"])
        child.kill()
    assert len(found) == 100


def test_m1_load_and_verify_during_overwrites_by_other_kinds_never_fail(tmp_path):
    path = tmp_path / "model"
    Popularity.from_positives(make_pairs()).save(path)
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=save_matchers_in_a_loop, args=(path,), daemon=True)
    child.start()
    try:
        kinds, end = set(), time.monotonic() + 90
        while len(kinds) < 3 and time.monotonic() < end:
            for _ in range(50):
                kinds.add(ms.load(path).kind)
                ms.verify(path)
    finally:
        child.kill()
        child.join()
    assert kinds == {"popularity", "fusion", "bm25"}


def test_m1_a_folder_that_is_damaged_for_good_is_read_once(tmp_path):
    write_folder(tmp_path / "x", "test", header={}, arrays={"a": np.arange(3)})
    (tmp_path / "x" / "a.bin").unlink()
    n_read = 0

    def read(folder):
        nonlocal n_read
        n_read += 1
        return folders._map_array(folder, "a", {"dtype": "<i8", "shape": [3]})

    with pytest.raises(ModelFileError, match=r"a\.bin: missing or unreadable"):
        read_folder(tmp_path / "x", read)
    assert n_read == 1


def special(kind):
    """What makes a path something else than a regular file."""
    return {
        "a pipe": os.mkfifo,
        "a link": lambda path: path.symlink_to("/dev/zero"),
        "a folder": lambda path: path.mkdir(),
    }[kind]


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "model"
    arrays = {"a": np.arange(3), "empty": np.empty(0)}
    write_folder(path, "test", header={}, arrays=arrays)
    return path


@pytest.mark.parametrize("kind", ["a pipe", "a link", "a folder"])
@pytest.mark.parametrize("name", ["manifest.json", "a.bin", "empty.bin"])
def test_m4_only_regular_files_are_read(folder, kind, name):
    (folder / name).unlink()
    special(kind)(folder / name)
    for read in (lambda: open_folder(folder, "test"), lambda: verify_folder(folder)):
        with pytest.raises(ModelFileError, match=rf"{name}: .* must be a regular file; got {kind}"):
            read()


def test_m4_a_link_to_a_file_of_the_host_is_refused(folder, tmp_path):
    secret = tmp_path / "secret"
    (folder / "a.bin").rename(secret)
    (folder / "a.bin").symlink_to(secret)
    with pytest.raises(ModelFileError, match="regular file; got a link"):
        open_folder(folder, "test")


def test_m4_a_folder_inside_may_not_be_a_link(tmp_path):
    path = tmp_path / "model"
    ms.Fusion([Popularity.from_positives(make_pairs())]).save(path)
    (path / "part0").rename(tmp_path / "elsewhere")
    (path / "part0").symlink_to(tmp_path / "elsewhere")
    for read in (ms.load, ms.verify):
        with pytest.raises(ModelFileError, match="part0: missing or not a folder"):
            read(path)


def test_m4_a_model_may_be_reached_by_a_link(tmp_path):
    Popularity.from_positives(make_pairs()).save(tmp_path / "v1")
    (tmp_path / "current").symlink_to(tmp_path / "v1")
    assert ms.load(tmp_path / "current").kind == "popularity"


def test_m4_a_manifest_has_a_size_limit(folder):
    with (folder / "manifest.json").open("ab") as stream:
        stream.truncate(1 << 40)  # takes no disk
    with pytest.raises(ModelFileError, match="must have at most 16,777,216 bytes"):
        open_folder(folder, "test")


@pytest.mark.parametrize("method", ["link", "copy"])
def test_m4_a_snapshot_keeps_only_what_the_manifest_names(folder, tmp_path, method):
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "zero.bin").symlink_to("/dev/zero")
    (folder / "usr").symlink_to("/usr")
    (folder / "self").symlink_to(".")
    os.mkfifo(folder / "pipe.bin")
    (folder / "notes.txt").write_text("hello")
    take_snapshots(Sources(folder), tmp_path / "kept", method)
    names = sorted(path.name for path in (tmp_path / "kept" / "0").iterdir())
    assert names == ["a.bin", "empty.bin", "manifest.json"]


@pytest.mark.parametrize("method", ["link", "copy"])
@pytest.mark.parametrize("kind", ["a pipe", "a link"])
def test_m4_a_snapshot_of_a_special_file_is_refused_at_once(folder, tmp_path, method, kind):
    (folder / "a.bin").unlink()
    special(kind)(folder / "a.bin")
    with pytest.raises(ModelFileError, match=f"regular file; got {kind}"):
        take_snapshots(Sources(folder), tmp_path / "kept", method)


def test_m4_watching_a_folder_does_not_follow_links_out_of_it(folder, tmp_path):
    before = Sources(folder).identity()
    (tmp_path / "outside").mkdir()
    (folder / "outside").symlink_to(tmp_path / "outside")
    linked = Sources(folder).identity()
    assert linked != before
    (tmp_path / "outside" / "more").write_text("")
    assert Sources(folder).identity() == linked


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"dtype": "<i8", "shape": [math.inf]}, "damaged entry 'a': cannot convert"),
        ({"dtype": "<i8", "shape": [math.nan]}, "damaged entry 'a': cannot convert"),
        ({"dtype": "<i8", "shape": [1] * 65}, "damaged entry 'a'"),
        ({"dtype": {"names": 1}, "shape": [3]}, "damaged entry 'a'"),
        ([], "damaged entry 'a'"),
        (None, "damaged entry 'a'"),
    ],
)
def test_l2_an_odd_entry_of_a_manifest_is_a_model_file_error(folder, entry, message):
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["arrays"]["a"] = entry
    file.write_text(json.dumps(manifest))
    with pytest.raises(ModelFileError, match=message):
        open_folder(folder, "test")


@pytest.mark.parametrize("version", [True, -1, 0, 1.5, "2", None])
def test_l2_an_odd_version_of_a_manifest_is_a_model_file_error(folder, version):
    file = folder / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"matchset": version}))
    with pytest.raises(ModelFileError, match="not a manifest of matchset"):
        open_folder(folder, "test")


def test_l3_of_several_processes_that_save_to_a_new_path_only_one_does(tmp_path):
    command = [sys.executable, "-c", SAVES_ONCE, str(tmp_path / "model")]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    children = [subprocess.Popen(command, **pipes, text=True) for _ in range(3)]
    end = time.monotonic() + 60
    while len(list(tmp_path.glob(".model.*.tmp/manifest.json"))) < 3:
        assert time.monotonic() < end
        time.sleep(0.01)
    errors = [child.communicate("\n\n")[1] for child in children]
    assert sorted(child.returncode for child in children) == [0, 1, 1]
    assert sum("TargetExistsError" in error for error in errors) == 2
    verify_folder(tmp_path / "model", "test")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_l3_a_target_that_appears_during_a_save_is_kept(tmp_path):
    def write_other(path):
        write_folder(tmp_path / "model", "test", header={"first": 1}, arrays={})
        write_folder(path, "test", header={}, arrays={})

    with pytest.raises(TargetExistsError):
        write_folder(
            tmp_path / "model", "test", header={}, arrays={}, inner={"inside": write_other}
        )
    assert open_folder(tmp_path / "model", "test")[0] == {"first": 1}
