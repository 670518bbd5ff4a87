"""Records are whole, bounded and kept, whatever becomes of the process or the disk."""

import json
import os
import signal
import threading

import pytest
from recorded import read_records
from serving import eventually

from matchset.errors import DataError
from matchset.online import record_files
from matchset.online.definition import Arm, Experiment
from matchset.online.record_files import (
    EVENTS,
    QUERIES,
    RecordFile,
    RecordsFullError,
    begin_records,
)
from matchset.serve import journals as journals_module
from matchset.serve.http.prometheus import Metrics
from matchset.serve.journals import Recorder, keep_records
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
    for damaged in ("", "[]", '"x"', "{"):
        (tmp_path / "test" / "experiment.json").write_text(damaged)
        with pytest.raises(DataError, match="must be the definition that the experiment"):
            begin_records(tmp_path, make())


def test_the_salt_does_not_lie_beside_the_hashed_units(tmp_path):
    folder = begin_records(tmp_path, make(salt="a-secret-of-the-shop"))
    assert "a-secret-of-the-shop" not in (folder / "experiment.json").read_text()
    assert folder.stat().st_mode & 0o077 == 0


@pytest.fixture
def slot(tmp_path):
    (tmp_path / "model").mkdir()
    with make_run_folder(tmp_path / "model") as run:
        yield Metrics(run, Slot(run.slots))


def counts(metrics):
    lines = [one for one in metrics.write().decode().splitlines() if one[0] != "#"]
    counted = dict(one.rsplit(" ", 1) for one in lines if "records" in one)
    return {name.partition("_records_")[2]: float(value) for name, value in counted.items()}


def keep(tmp_path, streams=(QUERIES,), n_workers=1):
    return keep_records(dict.fromkeys(streams, tmp_path), TOTAL, n_workers)


def test_records_are_moved_to_disk_while_the_server_runs_and_when_it_stops(slot, tmp_path):
    with keep(tmp_path, (QUERIES, EVENTS)) as journals:
        recorder = Recorder(journals, slot)
        for number in range(10):
            assert recorder.write(QUERIES, line(number) + line(number), 2)
            assert recorder.write(EVENTS, line(number))
        eventually(lambda: len(numbers(tmp_path)) == 20)
        for number in range(10, 15):
            assert recorder.write(QUERIES, line(number))
        recorder.close()
    assert numbers(tmp_path) == [n for n in range(10) for _ in range(2)] + list(range(10, 15))
    assert numbers(tmp_path, EVENTS) == list(range(10))
    assert counts(slot) == {'kept_total{stream="queries"}': 25, 'kept_total{stream="events"}': 10}


def test_a_killed_worker_leaves_its_records_and_the_next_one_goes_on(slot, tmp_path):
    with keep(tmp_path) as journals:
        for number in range(0, 6, 2):
            child = os.fork()
            if not child:
                recorder = Recorder(journals, slot)
                recorder.write(QUERIES, line(number))
                os.write(recorder._files[QUERIES].file, line(99)[:50])  # torn
                os.kill(os.getpid(), signal.SIGKILL)
            os.waitpid(child, 0)
            if number:  # the first time nothing is on disk yet
                eventually(lambda n=number: n in numbers(tmp_path))
            recorder = Recorder(journals, slot)  # the same journal: the lock died with the child
            assert recorder.write(QUERIES, line(number + 1))
            recorder.close()
    assert numbers(tmp_path) == list(range(6))
    assert b"99" not in b"".join(path.read_bytes() for path in tmp_path.glob("*.jsonl"))


def test_workers_have_journals_of_their_own(slot, tmp_path):
    with keep(tmp_path, n_workers=2) as journals:
        recorders = [Recorder(journals, slot) for _ in range(6)]
        for number, recorder in enumerate(recorders):
            recorder.write(QUERIES, line(number))
        with pytest.raises(RuntimeError, match="a journal for each worker; got 6, all in use"):
            Recorder(journals, slot)
        for recorder in recorders:
            recorder.close()
    assert sorted(numbers(tmp_path)) == list(range(6))


def test_a_slow_disk_delays_no_answer_and_beyond_a_backlog_records_are_counted(
    slot, tmp_path, monkeypatch
):
    monkeypatch.setattr(journals_module, "_BACKLOG", 1_000)
    slow, write = threading.Event(), record_files.os.write

    class SlowDisk:
        def __getattr__(self, name):
            return getattr(os, name)

        def write(self, file, data):
            slow.wait()
            return write(file, data)

    monkeypatch.setattr(record_files, "os", SlowDisk())
    with keep(tmp_path) as journals:
        recorder = Recorder(journals, slot)
        done = [recorder.write(QUERIES, line(number)) for number in range(30)]
        assert done == [True] * 10 + [False] * 20
        slow.set()
        eventually(lambda: recorder.write(QUERIES, line(99)))
        recorder.close()
    assert numbers(tmp_path) == [*range(10), 99]
    counted = counts(slot)
    assert counted['kept_total{stream="queries"}'] == 11
    assert counted['dropped_total{stream="queries",reason="disk"}'] >= 20


def test_a_disk_that_was_full_gets_what_waited(slot, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(journals_module, "_AGAIN_SECONDS", 0.01)

    def fail(*_):
        raise OSError(28, "No space left on device")

    with keep(tmp_path) as journals:
        monkeypatch.setattr(RecordFile, "append", fail)
        recorder = Recorder(journals, slot)
        assert recorder.write(QUERIES, line(1))
        eventually(lambda: "records wait for the disk" in caplog.text)
        monkeypatch.undo()
        eventually(lambda: numbers(tmp_path) == [1])
        recorder.close()
    assert caplog.text.count("records wait for the disk") == 1


def test_what_a_full_disk_never_took_is_said_at_the_end(slot, tmp_path, monkeypatch, caplog):
    with keep(tmp_path) as journals:
        recorder = Recorder(journals, slot)
        assert fill(RecordFile(tmp_path, QUERIES, TOTAL)) == 640
        recorder.write(QUERIES, line(1))
        recorder.close()
        monkeypatch.setattr(journals_module, "_AGAIN_SECONDS", 0.01)
    assert "100 bytes of records were not written to disk" in caplog.text


def test_memory_of_what_is_on_disk_is_given_back(slot, tmp_path):
    with keep_records({QUERIES: tmp_path}, 10**9, 1) as journals:
        recorder = Recorder(journals, slot)
        for number in range(200):
            assert recorder.write(QUERIES, line(number, 100_000))
            if number % 50 == 0:
                eventually(lambda n=number: len(numbers(tmp_path)) == n + 1)
        file = recorder._files[QUERIES].file
        eventually(lambda: os.fstat(file).st_blocks * 512 < 1_000_000)
        assert os.fstat(file).st_size == 200 * 100_000
        recorder.close()
