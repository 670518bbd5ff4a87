"""Training as tasks: interrupted, resumed and spread over processes, it gives the same bytes."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from digests import digests
from hypothesis import given
from hypothesis import strategies as st
from match_sets import make_config, make_shop

import matchset as ms
from matchset.errors import DataError
from matchset.learn import two_tower
from matchset.storage import folders
from matchset.work import engines
from matchset.work.engines import ThreadEngine
from matchset.work.forms import decode, encode, keepable
from matchset.work.results import MemoryResults, WorkFolder
from matchset.work.tasks import Stage, Task, plan_parts, run_stages

N_QUERIES = 200


def shop():
    return make_shop(N_QUERIES, days=60)


def train(**options):
    config = make_config()
    config = replace(config, learn=replace(config.learn, threads=2))
    return ms.train(*shop(), **{"config": config, **options})


def list_results(work):
    return sorted(str(path.parent.relative_to(work)) for path in work.rglob(folders.MANIFEST))


def read_times(work):
    files = [path for path in work.rglob("*.bin") if not path.parent.name.startswith(".")]
    return {str(path): path.stat().st_mtime_ns for path in files}


class StoppedError(Exception):
    """What a progress raises to end a training."""


def stop_after(stage, n=1):
    heard = []

    def hear(step):
        heard.append(step.stage)
        if heard.count(stage) == n:
            raise StoppedError

    return hear


@pytest.fixture(scope="module")
def expected():
    """What a training in memory gives."""
    return digests(train())


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The work folder of a training that was not disturbed, and what it gave."""
    work = tmp_path_factory.mktemp("work") / "w"
    return work, digests(train(work=work))


@pytest.fixture
def tests_on_path(monkeypatch):
    """Other processes find the tasks of this file."""
    here = Path(__file__).parent
    paths = [str(here), str(here.parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))


def copy(work, target):
    subprocess.run(["cp", "-a", work, target], check=True)
    return target


def test_a_work_folder_changes_no_byte(expected, done):
    assert done[1] == expected


def test_a_re_ranker_that_was_learned_survives_a_work_folder(tmp_path):
    config = make_config(parts=("tree", "neighbors"))
    trained = train(config=config)
    assert trained.model.reranker.is_learned
    assert digests(train(config=config, work=tmp_path / "work")) == digests(trained)


@pytest.mark.parametrize("stage", ["vectorize", "fit", "pack"])
def test_a_training_that_was_stopped_goes_on_where_it_was(stage, tmp_path, expected):
    work = tmp_path / "work"
    with pytest.raises(StoppedError):
        train(work=work, progress=stop_after(stage))
    before = read_times(work)
    assert before
    assert digests(train(work=work)) == expected
    after = read_times(work)
    assert {name: after[name] for name in before} == before  # nothing was done twice
    assert len(after) > len(before)


def test_a_finished_work_folder_needs_no_work(done, expected):
    work, _ = done
    before = read_times(work)
    assert digests(train(work=work)) == expected
    assert read_times(work) == before


def test_a_damaged_result_is_made_again_and_no_other(tmp_path, done, expected, caplog):
    work = copy(done[0], tmp_path / "work")
    before = read_times(work)
    damaged = work / "final" / "encode"
    file = max(damaged.glob("*.bin"), key=lambda path: path.stat().st_size)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 255
    file.write_bytes(data)
    (work / "final" / "tree" / folders.MANIFEST).unlink()  # taken apart by somebody
    assert digests(train(work=work)) == expected
    changed = {name for name, time in read_times(work).items() if before[name] != time}
    assert "final/encode is damaged, and is made again" in caplog.text
    parents = {Path(name).parent.relative_to(work) for name in changed}
    assert parents == {Path("final/encode"), Path("final/tree")}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"log": lambda log, catalog, config: (make_shop(N_QUERIES, seed=1)[0], catalog, config)},
         "data"),
        ({"catalog": lambda log, catalog, config: (log, None, config)}, "data"),
        ({"config": lambda log, catalog, config: (log, catalog, replace(config, min_count=2.0))},
         "settings"),
    ],
    ids=["log", "catalog", "settings"],
)  # fmt: skip
def test_a_work_folder_of_something_else_is_refused(change, what, done):
    config = make_config()
    (change_one,) = change.values()
    rule = f"was begun with other {what}; choose a new folder, or remove this one to start again"
    with pytest.raises(DataError, match=rule):
        ms.train(*change_one(*shop(), config), work=done[0])


def test_a_work_folder_of_another_version_is_refused(done, monkeypatch):
    monkeypatch.setattr("matchset.learn.train_match_set.version", lambda _: "9.9")
    with pytest.raises(DataError, match="was begun with other version"):
        train(work=done[0])


def test_a_folder_of_something_else_is_not_touched(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DataError, match="work= must be new or empty, or a work folder"):
        train(work=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_two_trainings_do_not_share_a_work_folder(done):
    handle = os.open(done[0], os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(DataError, match="is in use by another training; wait for it"):
            train(work=done[0])
    finally:
        os.close(handle)


def test_a_full_disk_names_the_stage_and_the_next_call_goes_on(tmp_path, monkeypatch, expected):
    work, write = tmp_path / "work", folders.write_file

    def fill(file, data):
        if "final" in file.parts and "encode" in str(file):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(file, data)

    monkeypatch.setattr(folders, "write_file", fill)
    rule = r"the disk is full at stage 'final/encode'; free some space and run the same command"
    with pytest.raises(DataError, match=rule):
        train(work=work)
    assert not [name for name in list_results(work) if "encode" in name and "final" in name]
    monkeypatch.setattr(folders, "write_file", write)
    assert digests(train(work=work)) == expected


def test_towers_go_on_from_their_last_state(tmp_path, monkeypatch, expected):
    monkeypatch.setattr(two_tower, "SECONDS_PER_STATE", 0.0)
    monkeypatch.setattr(two_tower, "_STEPS_PER_CALL", 1)
    work = tmp_path / "work"
    with pytest.raises(StoppedError):
        train(work=work, progress=stop_after("fit", 2))
    assert (work / "tune" / "fit.state").exists()
    steps = []
    trained = train(work=work, progress=lambda step: steps.append(step))
    first = next(step for step in steps if step.stage == "fit" and step.is_tuning)
    assert first.done == 3
    assert digests(trained) == expected
    assert not list(work.rglob("*.state"))


def test_processes_give_the_same_bytes(tmp_path, expected):
    assert digests(train(work=tmp_path / "work", engine="processes")) == expected


def test_a_process_that_dies_is_replaced(tmp_path, caplog, tests_on_path):
    results = WorkFolder(tmp_path)
    stage = Stage.of(Task("a", die_once, {"marker": str(tmp_path / "marker")}))
    run_stages([stage], results, engines.ProcessEngine(results, 2))
    assert results.get("a", "value") == 7
    assert "its process died, attempt 1" in caplog.text


def test_a_task_that_kills_every_process_is_an_error(tmp_path, tests_on_path):
    results = WorkFolder(tmp_path)
    rule = "the process of 'a' died 3 times, perhaps for lack of memory"
    with pytest.raises(DataError, match=rule):
        run_stages([Stage.of(Task("a", die))], results, engines.ProcessEngine(results, 1))


def test_what_a_task_raises_in_a_process_is_raised_here(tmp_path, tests_on_path):
    results = WorkFolder(tmp_path)
    with pytest.raises(DataError, match="column 'q' must be there") as caught:
        run_stages([Stage.of(Task("a", fail))], results, engines.ProcessEngine(results, 1))
    assert caught.value.column == "q"


def die(job):
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(job, marker):
    if not Path(marker).exists():
        Path(marker).touch()
        die(job)
    return {"value": 7}


def give(job):
    return {"value": 7}


def fail(job):
    raise DataError("must be there", column="q")


KILLED = """
import os, signal, sys
import test_work
def kill(step):
    if step.stage == "solve" and not step.is_tuning:
        os.kill(os.getpid(), signal.SIGKILL)
test_work.train(work=sys.argv[1], engine=sys.argv[2], progress=kill)
"""


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_a_killed_driver_loses_only_what_was_not_written(tmp_path, engine, expected, tests_on_path):
    work = tmp_path / "work"
    command = [sys.executable, "-c", KILLED, str(work), engine]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    before = read_times(work)
    assert any("solve" in name for name in before)
    assert digests(train(work=work)) == expected
    after = read_times(work)
    assert {name: after.get(name) for name in before} == before


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"engine": "spark"}, "engine must be threads, processes or ray; got 'spark'"),
        ({"engine": "ray"}, "engine must be threads without a work folder; got 'ray'"),
        ({"engine": "processes"}, "engine must be threads without a work folder; got 'processes'"),
    ],
)
def test_an_engine_that_cannot_be_is_refused_before_the_log_is_read(options, rule):
    with pytest.raises(ValueError, match=rule):
        ms.train("no such file", **options)


def test_ray_that_is_not_installed_is_refused_with_what_installs_it(tmp_path, monkeypatch):
    monkeypatch.setattr("matchset.learn.train_match_set.find_spec", lambda _: None)
    with pytest.raises(ValueError, match="'ray' needs Ray; pip install "):
        ms.train("no such file", work=tmp_path / "work", engine="ray")


def test_a_task_that_is_done_twice_at_once_leaves_one_result(tmp_path):
    results = WorkFolder(tmp_path)
    results.put("a", {"value": 1})
    results.put("a", {"value": 1})
    assert results.get("a", "value") == 1
    (tmp_path / "b").mkdir()  # taken apart: no manifest
    (tmp_path / "b" / "rest.bin").touch()
    results.put("b", {"value": 2})
    assert results.get("b", "value") == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_module_in_the_current_folder_does_not_hide_one_of_python(
    tmp_path, monkeypatch, tests_on_path
):
    (tmp_path / "queue.py").write_text("raise SystemExit('hidden')")
    monkeypatch.chdir(tmp_path)
    results = WorkFolder(tmp_path / "work")
    run_stages([Stage.of(Task("a", give))], results, engines.ProcessEngine(results, 1))
    assert results.get("a", "value") == 7


def test_two_classes_of_results_must_not_have_one_name():
    with pytest.raises(TypeError, match="must have distinct names; got Csr twice"):
        keepable(type("Csr", (), {}))


def test_values_come_back_as_they_were(tmp_path):
    log, catalog = shop()
    values = {"log": log, "catalog": catalog, "n": (1, [2.5, None], {"a": True}, np.float32(3))}
    header, arrays = encode(values)
    assert decode(header, arrays, "log") == log
    assert list(decode(header, arrays, "catalog").titles) == list(catalog.titles)
    assert decode(header, arrays, "n") == (1, [2.5, None], {"a": True}, 3.0)
    with pytest.raises(TypeError, match="a result must be of arrays and known classes; got"):
        encode({"a": object()})


def test_the_longest_tasks_of_a_stage_begin_first_and_results_are_freed():
    results, begun = MemoryResults(), []

    def note(job, name):
        begun.append(name)
        return {"value": name}

    costs = {"a": 1.0, "b": 3.0, "c": 2.0}
    tasks = [Task(name, note, {"name": name}, cost=cost) for name, cost in costs.items()]
    last = Stage.of(Task("last", note, {"name": "last"}), "many")
    run_stages(
        [Stage("many", lambda _: tasks), last], results, ThreadEngine(results, 1), kept=["last"]
    )
    assert begun == ["b", "c", "a", "last"]
    assert list(results.values) == ["last"]


def test_a_stage_that_needs_what_nobody_makes_is_an_error():
    results = MemoryResults()
    with pytest.raises(RuntimeError, match="stages must need what there is; got a"):
        run_stages([Stage.of(Task("a", fail), "nothing")], results, ThreadEngine(results, 1))


@given(st.integers(0, 200), st.integers(1, 30))
def test_parts_are_even_and_as_few_as_can_be(n, most):
    parts = plan_parts(n, most)
    sizes = [len(part) for part in parts]
    assert [item for part in parts for item in part] == list(range(n))
    assert max(sizes) <= most
    assert max(sizes) - min(sizes) <= 1
    assert len(parts) == max(1, -(-n // most))
