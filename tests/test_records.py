"""Records are whole, bounded and kept, whatever becomes of the process or the disk."""

import json
import os
import threading
import time

import pytest

from matchset.errors import DataError
from matchset.online import record_files
from matchset.online.definition import Arm, Experiment
from matchset.online.record_files import (
    QUERIES,
    RecordFile,
    RecordsFullError,
    begin_records,
    read_records,
)
from matchset.serve.http.prometheus import Metrics
from matchset.serve.recorder import WAIT_SECONDS, Recorder
from matchset.serve.reload.run_folder import make_run_folder
from matchset.serve.reload.slots import Slot

TOTAL = 64 * 1_000  # files of 1,000 bytes


def line(number, size=100):
    text = json.dumps({"number": number, "filler": ""})
    return text.replace('""', f'"{"x" * (size - len(text) - 1)}"').encode() + b"\n"


def numbers(folder, stream=QUERIES):
    return [record["number"] for record in read_records(folder, stream)]


def fill(file):
    """Write until the folder is full; returns how many there was room for."""
    for number in range(10_000):
        try:
            file.append(line(number))
        except RecordsFullError:
            return number
    return None


def test_files_are_rotated_and_the_folder_is_bounded(tmp_path):
    file = RecordFile(tmp_path, QUERIES, TOTAL)
    assert fill(file) == 640
    sizes = [path.stat().st_size for path in tmp_path.glob("*.jsonl")]
    assert (max(sizes), sum(sizes), len(sizes)) == (1_000, TOTAL, 64)
    assert numbers(tmp_path) == list(range(640))
    for path in sorted(tmp_path.glob("*.jsonl"))[:10]:  # moved away
        path.unlink()
    file.append(line(9))
    assert numbers(tmp_path)[-1] == 9


def test_a_record_that_no_file_can_hold_is_refused(tmp_path):
    file = RecordFile(tmp_path, QUERIES, TOTAL)
    with pytest.raises(RecordsFullError, match="records must have at most 1000 bytes"):
        file.append(line(1, 1_001))
    file.append(line(2, 1_000))
    assert numbers(tmp_path) == [2]


def test_several_writers_never_share_a_file_and_stay_within_the_bound(tmp_path):
    files = [RecordFile(tmp_path, stream, TOTAL) for stream in ("queries", "events") * 3]
    threads = [threading.Thread(target=fill, args=(file,)) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(path.stat().st_size for path in tmp_path.glob("*.jsonl")) <= TOTAL
    assert len(numbers(tmp_path)) + len(numbers(tmp_path, "events")) > 500


def test_what_a_dead_process_left_is_taken_over_and_its_torn_line_cut_off(tmp_path):
    child = os.fork()
    if not child:
        file = RecordFile(tmp_path, QUERIES, TOTAL)
        file.append(line(1))
        os.write(file._file, line(2)[:50])
        os._exit(0)
    os.waitpid(child, 0)
    assert numbers(tmp_path) == [1]  # a reader leaves out what is not whole
    file = RecordFile(tmp_path, QUERIES, TOTAL)
    file.append(line(3))
    assert numbers(tmp_path) == [1, 3]
    assert len(list(tmp_path.glob("*.jsonl"))) == 1
    other = RecordFile(tmp_path, QUERIES, TOTAL)  # the first is held
    other.append(line(4))
    assert len(list(tmp_path.glob("*.jsonl"))) == 2


def test_a_file_that_was_removed_is_made_again(tmp_path):
    file = RecordFile(tmp_path, QUERIES, TOTAL)
    file.append(line(1))
    next(tmp_path.glob("*.jsonl")).unlink()
    file.append(line(2))
    assert numbers(tmp_path) == [2]


def test_a_disk_that_fills_up_within_a_record_leaves_none_of_it(tmp_path, monkeypatch):
    file = RecordFile(tmp_path, QUERIES, TOTAL)
    file.append(line(1))
    write = os.write
    monkeypatch.setattr(record_files.os, "write", lambda file, data: write(file, data[:30]))
    with pytest.raises(OSError, match="No space left"):
        file.append(line(2))
    monkeypatch.undo()
    file.append(line(3))
    assert numbers(tmp_path) == [1, 3]


def make(**more):
    arms = (Arm(name="a", matchers=("m",), share=0.5), Arm(name="b", matchers=("n",), share=0.5))
    return Experiment(**{"name": "test", "salt": "s", "arms": arms, **more})


def test_a_running_experiment_cannot_change(tmp_path):
    begin_records(tmp_path, make())
    assert begin_records(tmp_path, make()) == tmp_path / "test"
    arms = (Arm(name="a", matchers=("m",), share=0.9), Arm(name="b", matchers=("n",), share=0.1))
    for name, changed in {"salt": "t", "arms": arms, "depth": 50}.items():
        with pytest.raises(DataError, match=f"{name} must stay as when the experiment began"):
            begin_records(tmp_path, make(**{name: changed}))
    begin_records(tmp_path, make(salt="t", name="other"))


def test_the_salt_does_not_lie_beside_the_hashed_units(tmp_path):
    folder = begin_records(tmp_path, make(salt="a-secret-of-the-shop"))
    assert "a-secret-of-the-shop" not in (folder / "experiment.json").read_text()
    assert folder.stat().st_mode & 0o077 == 0


@pytest.fixture
def recorder(tmp_path):
    (tmp_path / "model").mkdir()
    with make_run_folder(tmp_path / "model") as run:
        metrics = Metrics(run, Slot(run.slots))
        made = Recorder({QUERIES: tmp_path}, TOTAL, metrics)
        yield made, metrics
        made.close()


def dropped(metrics):
    lines = [one for one in metrics.write().decode().splitlines() if one[0] != "#"]
    counted = dict(one.rsplit(" ", 1) for one in lines if "records" in one)
    return {name.partition("_records_")[2]: float(value) for name, value in counted.items()}


def test_a_slow_disk_costs_records_that_are_counted_and_no_more_than_5_ms(
    recorder, tmp_path, monkeypatch
):
    writer, metrics = recorder
    monkeypatch.setattr("matchset.serve.recorder.WAIT_SECONDS", 20)
    assert writer.write(QUERIES, line(1))
    monkeypatch.setattr("matchset.serve.recorder.WAIT_SECONDS", WAIT_SECONDS)
    slow = threading.Event()
    write = os.write

    def wait(file, data):
        slow.wait()
        return write(file, data)

    monkeypatch.setattr(record_files.os, "write", wait)
    started = time.monotonic()
    assert not writer.write(QUERIES, line(2))
    assert time.monotonic() - started >= WAIT_SECONDS
    started = time.monotonic()
    assert not any(writer.write(QUERIES, line(3)) for _ in range(1000))
    assert time.monotonic() - started < 1000 * WAIT_SECONDS  # nobody waits again
    slow.set()
    monkeypatch.undo()
    deadline = time.monotonic() + 20
    while not writer.write(QUERIES, line(4)):
        assert time.monotonic() < deadline
    assert numbers(tmp_path) == [1, 2, 4]  # what came late is there after all
    counted = dropped(metrics)
    assert counted['written_total{stream="queries"}'] == 2
    assert counted['dropped_total{stream="queries",reason="slow"}'] >= 1001


def test_a_full_disk_and_a_full_folder_are_counted_apart(recorder, tmp_path, monkeypatch):
    monkeypatch.setattr("matchset.serve.recorder.WAIT_SECONDS", 20)  # however busy the machine is
    writer, metrics = recorder
    n_written = 0
    while writer.write(QUERIES, line(1, 1000)):
        n_written += 1
    assert not writer.write(QUERIES, line(1))
    counted = dropped(metrics)
    assert counted['written_total{stream="queries"}'] == n_written == 64
    assert counted['dropped_total{stream="queries",reason="full"}'] == 2
    for path in tmp_path.glob("*.jsonl"):
        path.unlink()
    monkeypatch.setattr(record_files.os, "write", fail)
    monkeypatch.setattr(writer, "_blocked", {})
    assert not writer.write(QUERIES, line(1), 3)
    assert dropped(metrics)['dropped_total{stream="queries",reason="failed"}'] == 3


def fail(*_):
    raise OSError(28, "No space left on device")
