"""Interrupted, resumed, cut into tasks, done by processes: a training gives the same bytes."""

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
from match_sets import SMALL_CUTS, train_in_tasks
from stored import damage
from word_shop import make_config, make_shop

import matchset as ms
from matchset.config import NGrams, VectorizerConfig
from matchset.errors import DataError
from matchset.matrices import Csr
from matchset.storage.file import open_file, write_file
from matchset.strings import Strings
from matchset.work import work_folder
from matchset.work.by_path import MOST, dumps
from matchset.work.cuts import CUTS, plan_parts
from matchset.work.process_pool import ProcessPool
from matchset.work.steps import open_steps
from matchset.work.work_folder import KIND, open_work

FEW = VectorizerConfig(
    ngrams=(NGrams("word", 1, 15), NGrams("word", 2, 60, min_df=2), NGrams("char", 3, 50)),
    oov_buckets=3,
)
KEY = "0123456789abcdef"


def shop(n_queries=200):
    """Return a log, and a catalog with text beside the titles."""
    log, catalog = make_shop(n_queries, days=60)
    texts = [f"made of oak and {i % 9} tins" for i in range(len(catalog))]
    return log, replace(catalog, more_text=Strings.of(texts))


def train(threads=2, settings=None, **options):
    config = make_config(**{"language": "en", "vectorizer": FEW, **(settings or {})})
    config = replace(config, learn=replace(config.learn, threads=threads))
    return train_in_tasks(*shop(), config, **{"cuts": CUTS, **options})


def read_times(work):
    files = [path for path in work.rglob("*") if path.is_file() and path.suffix != ".tmp"]
    return {str(path): path.stat().st_mtime_ns for path in files}


def results_of(work):
    """Return the folder of the only training."""
    (folder,) = work.iterdir()
    return folder


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
    """What a training in memory gives, where no step is cut."""
    return digests(train())


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The work folder of a training that was not disturbed, and what it gave."""
    work = tmp_path_factory.mktemp("work") / "w"
    return work, digests(train(work=work))


@pytest.fixture
def tests_on_path(monkeypatch):
    """Other processes find the functions of this file."""
    here = Path(__file__).parent
    paths = [str(here), str(here.parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))


@pytest.fixture
def copied(done, tmp_path):
    """A finished work folder that may be changed, and the results in it."""
    subprocess.run(["cp", "-a", done[0], tmp_path / "work"], check=True)
    return tmp_path / "work", results_of(tmp_path / "work")


def test_a_work_folder_changes_no_byte(expected, done):
    assert done[1] == expected


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


def damage_it(file):
    damage(file, file.stat().st_size // 2)


def cut(file):
    data = file.read_bytes()
    file.unlink()
    file.write_bytes(data[: len(data) // 2])


def forge(file):
    """Say something else of a result, with a right checksum."""
    opened = open_file(file, KIND)
    header = {"class": "Popen", "fields": {"args": ["true"]}}
    write_file(file, KIND, header, opened.arrays, overwrite=True)


@pytest.mark.parametrize("harm", [damage_it, cut, forge])
def test_a_damaged_result_is_made_again_and_no_other(harm, copied, expected, caplog):
    work, results = copied
    before = read_times(work)
    harm(results / "final" / "lexical")
    assert digests(train(work=work)) == expected
    changed = {name for name, time in read_times(work).items() if before[name] != time}
    assert {Path(name) for name in changed} == {results / "final" / "lexical"}
    assert "final/lexical is damaged, and is made again" in caplog.text


@pytest.mark.parametrize(
    "change",
    [
        lambda log, catalog, config: (make_shop(200, seed=1)[0], catalog, config),
        lambda log, catalog, config: (log, None, config),
        lambda log, catalog, config: (log, catalog, replace(config, min_count=2.0)),
    ],
    ids=["log", "catalog", "settings"],
)
def test_results_of_other_data_or_settings_are_neither_used_nor_lost(change, copied, caplog):
    work, _ = copied
    before = read_times(work)
    other = change(*shop(), make_config(tune=False))
    assert digests(ms.train(*other, work=work)) == digests(ms.train(*other))
    assert len(list(work.iterdir())) == 2
    assert before.items() <= read_times(work).items()
    assert "holds results of other data, settings or versions, too" in caplog.text


def test_a_work_folder_of_another_version_is_not_used(copied, monkeypatch):
    work, _ = copied
    monkeypatch.setattr("matchset.learn.train_match_set.version", lambda _: "9.9")
    with pytest.raises(StoppedError):
        train(work=work, progress=stop_after("vectorize"))
    assert len(list(work.iterdir())) == 2


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


def test_a_full_disk_names_the_step_and_the_next_call_goes_on(tmp_path, monkeypatch, expected):
    work, write = tmp_path / "work", work_folder.write_file

    def fill(file, *told, **options):
        if "final" in file.parts and "lexical" in str(file):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, *told, **options)

    monkeypatch.setattr(work_folder, "write_file", fill)
    rule = r"the disk is full at step 'final/lexical'; free some space and run the same command"
    with pytest.raises(DataError, match=rule):
        train(work=work)
    assert not list((results_of(work) / "final").glob("*lexical*"))
    monkeypatch.setattr(work_folder, "write_file", write)
    assert digests(train(work=work)) == expected


def test_towers_go_on_from_their_last_state(tmp_path, expected):
    options = {"work": tmp_path / "work", "cuts": replace(CUTS, tower_steps=1, tower_seconds=0.0)}
    with pytest.raises(StoppedError):
        train(progress=stop_after("fit", 2), **options)
    assert (results_of(options["work"]) / "tune0" / "fit.state").exists()
    steps = []
    trained = train(progress=steps.append, **options)
    first = next(step for step in steps if step.stage == "fit" and step.is_tuning)
    assert first.done == 3
    assert digests(trained) == expected
    assert not list(options["work"].rglob("*.state"))


SETTINGS = {
    "all": {},
    "no language": {"language": None},
    "scripts without spaces": {"language": "cjk"},
    "every n-gram is known": {"vectorizer": VectorizerConfig(), "language": "auto"},
    "the tree alone": {"parts": ("tree",)},
    "no tree": {"parts": ("towers", "lexical")},
    "no titles": {"titles": "none"},
    "few positives": {"min_count": 4.0},
    "layers wait for one another": {
        "learn": replace(make_config().learn, negatives="tfn+man"),
        "tune": False,
    },
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_tasks_change_no_byte(settings):
    assert digests(train(settings=settings, cuts=SMALL_CUTS)) == digests(train(settings=settings))


@pytest.mark.parametrize(("threads", "engine"), [(1, "threads"), (7, "threads"), (2, "processes")])
def test_neither_threads_nor_engine_decide_where_steps_are_cut(threads, engine, tmp_path, expected):
    work = tmp_path / "work"
    assert digests(train(threads, work=work, engine=engine, cuts=SMALL_CUTS)) == expected
    final = results_of(work) / "final"
    cut = {step.name: len(list(step.iterdir())) for step in final.iterdir() if step.is_dir()}
    for step in ("vectorize.rows", "embed", "tree.part", "encode.nearest0", "solve", "pack"):
        assert cut[step] > 2


def test_a_text_longer_than_several_ranges_is_in_one_of_them():
    log, catalog = shop()
    texts = ["oak " * 2000, *list(catalog.more_text)[1:]]
    catalog = replace(catalog, more_text=Strings.of(texts))
    config = make_config(language="en", vectorizer=FEW)
    whole, cut = (
        digests(train_in_tasks(log, catalog, config, cuts)) for cuts in (CUTS, SMALL_CUTS)
    )
    assert whole == cut


KILLED = """
import os, signal, sys
from match_sets import SMALL_CUTS
from test_work import train
heard = []
def kill(step):
    heard.append(step.stage)
    if step.stage == sys.argv[3] and heard.count(step.stage) == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
train(work=sys.argv[1], engine=sys.argv[2], progress=kill, cuts=SMALL_CUTS)
"""


@pytest.mark.parametrize(
    ("engine", "stage", "n"),
    [
        ("threads", "vectorize", 20),
        ("threads", "encode", 5),
        ("threads", "solve", 3),
        ("processes", "solve", 3),
    ],
)
def test_a_training_killed_amid_a_step_goes_on(engine, stage, n, tmp_path, expected, tests_on_path):
    work = tmp_path / "work"
    command = [sys.executable, "-c", KILLED, str(work), engine, stage, str(n)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    before = read_times(work)
    assert any(f"/{stage}" in name for name in before)
    assert digests(train(work=work, cuts=SMALL_CUTS)) == expected
    after = read_times(work)
    assert {name: after.get(name) for name in before} == before  # nothing was done twice


def test_progress_tells_every_step_and_how_far_its_tasks_are():
    steps = []
    train(settings={"tune": False}, progress=steps.append, cuts=SMALL_CUTS)
    assert [step.stage for step in steps][:2] == ["pairs", "vectorize"]
    assert steps[-1].stage == "neighbors"
    for stage in ("vectorize", "solve", "pack"):
        assert max(step.total for step in steps if step.stage == stage) > 2
    assert all(0 < step.done <= step.total for step in steps)


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(marker):
    if not Path(marker).exists():
        Path(marker).touch()
        die(marker)
    return 7


def fail(column):
    raise DataError("must be there", column=column)


@pytest.fixture
def processes(tmp_path, tests_on_path):
    pool = ProcessPool(2, tmp_path)
    yield pool
    pool.shutdown(cancel_futures=True)


def test_a_process_that_dies_costs_its_own_task_alone(processes, tmp_path, caplog):
    markers = [str(tmp_path / name) for name in "abc"]
    Path(markers[2]).touch()
    assert list(processes.map(die_once, markers)) == [7, 7, 7]
    assert caplog.text.count("a process that did a task died, attempt 1") == 2
    assert "attempt 2" not in caplog.text


def test_a_task_that_kills_every_process_is_an_error(processes):
    rule = "the process of a task died 3 times, perhaps for lack of memory"
    with pytest.raises(DataError, match=rule):
        processes.submit(die, None).result()
    assert processes.submit(abs, -7).result() == 7


def test_what_a_task_raises_in_a_process_is_raised_here(processes):
    with pytest.raises(DataError, match="column 'q' must be there") as caught:
        processes.submit(fail, "q").result()
    assert caught.value.column == "q"


def test_a_module_in_the_current_folder_does_not_hide_one_of_python(
    processes, tmp_path, monkeypatch
):
    (tmp_path / "queue.py").write_text("raise SystemExit('hidden')")
    monkeypatch.chdir(tmp_path)
    assert processes.submit(abs, -7).result() == 7


def make_rows(n) -> Csr:
    ones = np.ones(n, np.float32)
    return Csr(np.arange(n + 1), np.arange(n, dtype=np.int32), ones, n)


def sum_rows(rows: Csr, chosen: range, *, threads: int) -> float:
    return float(threads * rows.slice(chosen.start, chosen.stop).data.sum())


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_tasks_get_large_arrays_by_their_path(engine, tmp_path, tests_on_path):
    from functools import partial

    from test_work import sum_rows  # as other processes know it

    with (
        open_work(tmp_path / "work", KEY) as folder,
        open_steps(threads=2, folder=folder, engine=engine) as step,
    ):
        rows = step("rows", make_rows, 10**6).slice(0, 10**6 - 1)
        assert len(dumps(rows)) < 1000
        assert step.map("sum", partial(sum_rows, rows), [range(5), range(3)]) == [10.0, 6.0]
    with pytest.raises(TypeError, match="a task must get large arrays mapped; got 1,048,580 bytes"):
        dumps(np.ones(MOST // 4 + 1, np.float32))


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
    monkeypatch.setattr("matchset.work.pools.find_spec", lambda _: None)
    with pytest.raises(ValueError, match="'ray' needs Ray; pip install "):
        ms.train("no such file", work=tmp_path / "work", engine="ray")


@given(st.integers(0, 200), st.integers(1, 30))
def test_parts_are_even_and_as_few_as_can_be(n, most):
    parts = plan_parts(n, most)
    sizes = [len(part) for part in parts]
    assert [item for part in parts for item in part] == list(range(n))
    assert max(sizes) <= most
    assert max(sizes) - min(sizes) <= 1
    assert len(parts) == max(1, -(-n // most))
