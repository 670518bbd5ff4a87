"""A folder takes changes all or nothing, whoever else writes, reads, or is killed meanwhile."""

import errno
import json
import os
import pickle
import shutil
import signal
import sys
import threading
from contextlib import suppress

import pytest
from fresh_shop import dump, make_goods, trained_shop
from match_sets import make_config, make_shop

import matchset as ms
from matchset.errors import ModelFileError, UncertainWriteError
from matchset.matchers import saved as saving
from matchset.model import added
from matchset.storage import folders, segments
from matchset.storage.folders import write_folder

FIRST = {"n1": ("red rose zyxo", 5.0, "zeta")}
SECOND = {"n2": ("white zyxo vase", 1.0, None)}
SINCE = make_shop(20, seed=5)[0]  # the log since the training


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder whose model has had two steps."""
    path = tmp_path_factory.mktemp("fresh") / "model"
    trained_shop().save(path)
    ms.load(path).add(make_goods(FIRST)).remove(["p009"])
    return path


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "model")


def list_files(folder):
    return sorted(file.name for file in folder.iterdir() if file.suffix != ".bin")


def test_a_loaded_match_set_keeps_its_changes_in_its_folder(folder):
    old = ms.load(folder)
    before = dump(old)
    new = old.add(make_goods(SECOND)).remove(["p000"])
    assert dump(old) == before
    assert dump(ms.load(folder)) == dump(new) != before
    assert list_files(folder) == ["manifest.json", *(f"segment{i}" for i in range(1, 5))]
    ms.verify(folder)


def test_a_match_set_that_is_reopened_is_the_one_that_is_loaded(folder, tmp_path):
    old = ms.load(folder)
    before = dump(old)
    ms.load(folder).update(make_goods({"n1": ("zyxo", 6.0, None), "p001": ("", 2.0, None)}))
    for change in (lambda m: m.remove(["n1", "p002"]), lambda m: m.add(make_goods(SECOND))):
        change(ms.load(folder)).merge()
        assert dump(old.reopen(folder)) == dump(ms.load(folder)) != before
    assert dump(old) == before
    trained_shop().with_beam(10).save(tmp_path / "trained")
    assert dump(old.reopen(tmp_path / "trained")) == dump(ms.load(tmp_path / "trained"))


def test_titles_that_were_read_once_are_not_read_again(folder, tmp_path, monkeypatch):
    ms.load(folder).add(make_goods(SECOND)).update(make_goods({"p002": ("blue zyxo", 1.0, None)}))
    monkeypatch.setattr(added, "_read_titles", None)
    opened = ms.load(folder)
    opened.save(tmp_path / "copy")
    expected = dump(opened)
    assert "n1" in opened.match("zyxo rose", 3).ids
    assert "p002" in opened.match("blue zyxo", 3).ids
    for other in (ms.load(tmp_path / "copy"), opened.reopen(folder), opened.merge()):
        assert dump(other) == expected
    assert dump(ms.load(folder)) == expected
    monkeypatch.undo()
    trained_shop().save(tmp_path / "at once")
    whole = ms.load(tmp_path / "at once").add(make_goods({**FIRST, **SECOND})).remove(["p009"])
    assert dump(whole.update(make_goods({"p002": ("blue zyxo", 1.0, None)}))) == expected


@pytest.mark.parametrize("dropped", ["towers", "lexical"])
def test_titles_are_found_when_a_part_was_dropped(folder, tmp_path, dropped):
    left = ms.load(folder).prune(drop=[dropped])
    left.save(tmp_path / "left")
    opened = ms.load(tmp_path / "left")
    assert dump(opened) == dump(left)
    grown = opened.add(make_goods(SECOND))
    assert dump(ms.load(tmp_path / "left")) == dump(grown)
    assert "n2" in grown.match("white vase zyxo", 5).ids


def test_a_saved_match_set_keeps_its_changes_in_its_folder(tmp_path):
    matcher = trained_shop().with_beam(10)  # not the one that other tests share
    in_memory = matcher.add(make_goods(FIRST))
    assert not (tmp_path / "model").exists()
    matcher.save(tmp_path / "model")
    on_disk = matcher.add(make_goods(FIRST))
    assert dump(ms.load(tmp_path / "model")) == dump(on_disk) == dump(in_memory)


def test_a_match_set_that_was_saved_with_changes_can_lose_them(tmp_path):
    trained_shop().with_beam(10).add(make_goods(FIRST)).save(tmp_path / "model")
    matcher = ms.load(tmp_path / "model").remove(["n1"])
    assert dump(matcher) == dump(trained_shop())
    matcher.merge()
    assert dump(ms.load(tmp_path / "model")) == dump(trained_shop())


def test_a_merge_leaves_one_segment_and_every_answer(folder):
    matcher = ms.load(folder).add(make_goods(SECOND)).remove(["p000", "n1"])
    before = dump(matcher)
    merged = matcher.merge()
    assert dump(merged) == dump(ms.load(folder)) == before
    assert merged.fresh.generation == 4
    assert list_files(folder) == ["manifest.json", "segment5"]
    assert dump(merged.add(make_goods(FIRST))) == dump(ms.load(folder))


def test_many_steps_leave_few_segments(folder):
    matcher = ms.load(folder)
    for i in range(40):
        matcher = matcher.update(make_goods({f"p{i:03}": ("", 100.0 + i, "nova")}))
    assert segments.count_segments(folder) <= 17
    assert matcher.fresh.generation == 41  # p009 is not there
    assert dump(ms.load(folder)) == dump(matcher)


def test_two_writers_take_turns_and_nothing_is_lost(folder):
    def write(number):
        matcher = ms.load(folder)
        for i in range(5):
            product = f"w{number}-{i}"
            matcher = matcher.add(make_goods({product: (f"zyxo {product}", 1.0, None)}))

    threads = [threading.Thread(target=write, args=[number]) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = ms.load(folder)
    assert len(found.match("zyxo").ids) == 16
    assert found.fresh.generation == 17


def test_a_reader_keeps_what_it_opened_while_segments_are_merged(folder):
    stop, failed = threading.Event(), []

    def read():
        while not stop.is_set():
            try:
                ms.load(folder)
            except Exception as error:
                failed.append(error)
                return

    reader = threading.Thread(target=read)
    reader.start()
    matcher = ms.load(folder)
    for i in range(20):
        matcher = matcher.add(make_goods({f"r{i}": ("zyxo lamp", 1.0, None)})).merge()
    stop.set()
    reader.join()
    assert not failed


def test_a_matcher_goes_on_from_what_others_wrote(folder):
    mine, other = ms.load(folder), ms.load(folder)
    other.add(make_goods(SECOND))
    assert {"n1", "n2"} <= set(mine.remove(["p000"]).products.ids)


def test_a_step_that_changes_nothing_writes_nothing(folder):
    before = list_files(folder)
    matcher = ms.load(folder)
    assert matcher.add(make_goods({})) is matcher
    assert matcher.update(make_goods({"nobody": ("a", 1.0, None)})) is matcher
    assert list_files(folder) == before


def test_a_part_of_a_fusion_changes_in_memory_alone(folder, tmp_path):
    whole = ms.load(folder)
    ms.Fusion([whole]).save(tmp_path / "fused")
    whole.remove(["p001"])  # still writes to its own folder
    assert "p001" not in ms.load(folder).products.ids
    part = ms.load(tmp_path / "fused").matchers[0]
    assert "n2" in part.add(make_goods(SECOND)).products.ids
    ms.verify(tmp_path / "fused")
    assert "n2" not in ms.load(tmp_path / "fused").products.ids


def test_a_damaged_segment_is_found_by_its_checksum(folder):
    file = folder / "segment1" / "data.bin"
    whole = file.read_bytes()
    for at in range(0, len(whole), 7):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        with pytest.raises(ModelFileError, match="checksum differs"):
            ms.verify(folder)
        with suppress(ModelFileError, ValueError):  # refused, or answers safely
            ms.load(folder).match("zyxo rose")
    file.write_bytes(whole[:-1])
    with pytest.raises(ModelFileError, match="must be"):
        ms.load(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda header: header["section"]["products"]["columns"][0].update(name="weight"), "have"),
        (lambda header: header["arrays"]["versions"].__setitem__(2, 10**9), "must lie within"),
        (lambda header: header["arrays"]["versions"].__setitem__(2, -8), "must lie within"),
        (lambda header: header["arrays"]["versions"].__setitem__(1, [-1]), "must lie within"),
        (lambda header: header["arrays"]["versions"].__setitem__(0, "O"), "must lie within"),
        (lambda header: header["arrays"].pop("versions"), "no 'versions'"),
        (lambda header: header.pop("section"), "no 'section'"),
    ],
)
def test_a_segment_that_cannot_be_is_refused(folder, change, said):
    segment = folder / "segment1"
    header, arrays = folders.open_folder(segment, "segment")
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(header)
    write_folder(segment, "segment", header=header, arrays=arrays, overwrite=True)
    with pytest.raises(ModelFileError, match=said):
        ms.load(folder)


STEPS = {
    "add": lambda matcher: matcher.add(make_goods(SECOND)),
    "remove": lambda matcher: matcher.remove(["p000"]),
    "merge": lambda matcher: matcher.merge(),
    "refresh": lambda matcher: matcher.refresh(SINCE),
}


@pytest.mark.parametrize("step", ["add", "refresh"])
def test_a_full_disk_leaves_the_folder_as_it_was(folder, monkeypatch, step):
    before, files = dump(ms.load(folder)), list_files(folder)
    real, n_left = folders.write_file, 0

    def write(file, data):
        nonlocal n_left
        n_left -= 1
        if n_left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file, data)

    monkeypatch.setattr(folders, "write_file", write)
    monkeypatch.setattr(segments, "write_file", write)
    # A refresh writes some fifty arrays beside the folder before it adds what is told in the end.
    for n in range(100) if step == "add" else (0, 1, 20, *range(47, 100)):
        n_left = n
        try:
            STEPS[step](ms.load(folder))
        except OSError:
            assert list_files(folder) == files
            assert [file.name for file in folder.parent.iterdir()] == ["model"]
            assert dump(ms.load(folder)) == before
        else:
            break
    assert 2 < n < 99
    assert dump(ms.load(folder)) != before


def test_an_old_matcher_can_be_pickled_when_its_folder_has_moved_on(folder):
    old = ms.load(folder)
    before = dump(old)
    old.add(make_goods(SECOND))
    assert dump(pickle.loads(pickle.dumps(old))) == before
    new = ms.load(folder)
    shutil.rmtree(folder)
    assert "n2" in pickle.loads(pickle.dumps(new)).products.ids


def test_a_write_while_a_folder_is_read_is_read_whole(folder, monkeypatch):
    writer, real, waiting = ms.load(folder), saving.open_sections, [SECOND]

    def read(handle):
        found = real(handle)
        if waiting:
            writer.add(make_goods(waiting.pop()))
        return found

    monkeypatch.setattr(saving, "open_sections", read)
    matcher = ms.load(folder)
    assert "n2" in matcher.products.ids
    monkeypatch.undo()
    assert dump(pickle.loads(pickle.dumps(matcher))) == dump(matcher)


def test_a_copy_that_is_saved_elsewhere_stays_as_it_was_saved(folder, tmp_path):
    matcher = ms.load(folder)
    matcher.save(tmp_path / "backup")
    matcher.add(make_goods(SECOND))
    assert "n2" in ms.load(folder).products.ids
    assert "n2" not in ms.load(tmp_path / "backup").products.ids


def test_a_folder_that_was_trained_without_titles_says_what_is_missing(folder, tmp_path):
    matcher = ms.load(folder)
    log, _ = make_shop(60)
    ms.train(log, None, make_config(tune=False)).save(folder, overwrite=True)
    with pytest.raises(ValueError, match=r"must have titles, .* got no titles, and tree"):
        matcher.remove(["p001"])


WRITES = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree", "os.listdir")


FAULTS = {
    "kill": None,
    "interrupt": KeyboardInterrupt(),
    "memory": MemoryError(),
    "disk": OSError(errno.EIO, "Input/output error"),
}
DONE, FAILED, UNCERTAIN, KILLED = range(4)


def fail_at(folder, step, n, fault):
    """Take a step in another process, with a fault at its nth write; how it ended, if it came."""
    pid = os.fork()
    if pid == 0:
        n_seen = 0

        def count(event, arguments):
            nonlocal n_seen
            is_read = event == "open" and not (
                isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
            )
            if event in WRITES and not is_read:
                n_seen += 1
                if n_seen == n:
                    if fault is None:
                        os.kill(os.getpid(), signal.SIGKILL)
                    raise fault

        ended = FAILED
        try:
            matcher = ms.load(folder)
            sys.addaudithook(count)
            STEPS[step](matcher)
            ended = DONE
        except UncertainWriteError:
            ended = UNCERTAIN
        finally:
            os._exit(ended + 10 * (n_seen >= n))
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return KILLED
    was_there, ended = divmod(os.WEXITSTATUS(status), 10)
    return ended if was_there else None


@pytest.mark.parametrize(
    ("step", "fault"),
    [*((step, "kill") for step in STEPS), *(("add", fault) for fault in list(FAULTS)[1:])],
)
def test_a_writer_that_is_stopped_anywhere_leaves_the_old_or_the_new_state(
    saved, tmp_path, step, fault, monkeypatch
):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # slow, and for crashes of the system
    seen, ends, n = [], [], 0
    while True:
        is_alike = step == "refresh" and not 45 < n < 75  # one of many arrays
        n += 9 if is_alike else 1
        folder = shutil.copytree(saved, tmp_path / f"{n}" / "model", copy_function=os.link)
        ends.append(fail_at(folder, step, n, FAULTS[fault]))
        ms.verify(folder)
        found = ms.load(folder)
        seen.append((segments.count_segments(folder), sorted(found.products.ids)))
        found.update(make_goods({"p001": ("", 9.0, None)}))  # the next writer
        named = set(json.loads((folder / "manifest.json").read_bytes())["folders"])
        assert set(list_files(folder)) == {"manifest.json", *named}
        assert [file.name for file in folder.parent.iterdir()] == ["model"]
        if ends[-1] is None:
            break
        shutil.rmtree(folder)
    old = sorted(ms.load(saved).products.ids)
    is_old = [each == (2, old) for each in seen]
    assert all(each in ((2, old), seen[-1]) for each in seen)  # never between
    new = {"add": {*old, *SECOND}, "remove": {*old} - {"p000"}}.get(step, {*old})
    assert seen[-1] == (3 if step in ("add", "remove") else 1, sorted(new))
    assert 5 < sum(is_old) < len(seen)
    if fault in ("memory", "disk"):  # an error says which of the two it is
        assert [ended == FAILED for ended in ends] == is_old
        assert UNCERTAIN in ends
    else:
        assert is_old == sorted(is_old, reverse=True)


def test_a_change_that_may_be_lost_is_safe_once_the_step_is_taken_again(folder, monkeypatch):
    real, matcher = segments.flush_folder, ms.load(folder)

    def fail(path):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(segments, "flush_folder", fail)
    with pytest.raises(UncertainWriteError, match="may or may not be on disk"):
        matcher.add(make_goods(SECOND), version=1)
    flushed = []
    monkeypatch.setattr(segments, "flush_folder", lambda path: flushed.append(path) or real(path))
    assert "n2" in matcher.add(make_goods(SECOND), version=1).products.ids
    assert flushed == [folder]


def test_a_step_that_changes_nothing_removes_what_a_killed_writer_left(folder):
    before = list_files(folder)
    shutil.copytree(folder / "segment1", folder / "segment9")
    (folder / ".segment10.0a0b0c0d.tmp").mkdir()
    ms.load(folder).update(make_goods({"nobody": ("", 1.0, None)}))
    assert list_files(folder) == before
