"""Records are whole, and are kept wherever a file is by now."""

import json
import os

import pytest
from recorded import read_records

from matchset.errors import DataError
from matchset.online import record_files
from matchset.online.definition import Arm, Experiment
from matchset.online.record_files import EVENTS, QUERIES, RecordLog, begin_records


def line(number):
    return json.dumps({"number": number}).encode() + b"\n"


def numbers(folder, stream=QUERIES):
    return [record["number"] for record in read_records(folder, stream)]


def test_workers_append_to_one_file_per_stream(tmp_path):
    logs = [RecordLog(tmp_path) for _ in range(3)]
    for number, log in enumerate(logs * 2):
        assert log.write(QUERIES, line(number))
        assert log.write(EVENTS, line(number) + line(number))
    assert numbers(tmp_path) == list(range(6))
    assert numbers(tmp_path, EVENTS) == [number for number in range(6) for _ in range(2)]
    assert (tmp_path / "queries.jsonl").stat().st_mode & 0o077 == 0


def test_a_file_that_is_rotated_is_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(record_files.time, "monotonic", iter(range(0, 100, 2)).__next__)
    log, file = RecordLog(tmp_path), tmp_path / "queries.jsonl"
    assert log.write(QUERIES, line(1))
    file.rename(tmp_path / "queries-1.jsonl")
    assert log.write(QUERIES, line(2))
    assert file.read_bytes() == line(2)
    assert sorted(numbers(tmp_path)) == [1, 2]


def test_a_disk_that_fills_up_within_a_record_spoils_no_other(tmp_path, monkeypatch):
    log, write = RecordLog(tmp_path), os.write
    assert log.write(QUERIES, line(1))
    monkeypatch.setattr(record_files.os, "write", lambda file, data: write(file, data[:5]))
    assert not log.write(QUERIES, line(2))
    monkeypatch.undo()
    assert log.write(QUERIES, line(3))
    lines = (tmp_path / "queries.jsonl").read_bytes().splitlines()
    assert [lines[0], lines[-1]] == [line(1).strip(), line(3).strip()]


def test_records_that_have_no_place_are_refused(tmp_path):
    assert not RecordLog(tmp_path / "gone").write(QUERIES, line(1))


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
