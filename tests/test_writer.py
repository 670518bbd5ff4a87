"""A writer keeps every change beside the model's file, whoever else writes, reads, or is killed."""

import builtins
import errno
import io
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from fresh_shop import dump, make_goods, trained_shop
from match_sets import make_config, make_shop
from stored import damage

import matchset as ms
from matchset.errors import ModelFileError, ParameterError
from matchset.matchers.saved import open_model
from matchset.model import added
from matchset.storage.change_log import changes_path, writing

FIRST = {"n1": ("red rose zyxo", 5.0, "zeta")}
SECOND = {"n2": ("white zyxo vase", 1.0, None)}
SINCE = make_shop(20, seed=5)[0]  # the log since the training


def add(path, rows):
    with ms.open_writer(path) as writer:
        return writer.add(make_goods(rows))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model with two changes beside it."""
    path = tmp_path_factory.mktemp("fresh") / "shop.matchset"
    trained_shop().save(path)
    with ms.open_writer(path) as writer:
        writer.add(make_goods(FIRST))
        writer.remove(["p009"])
    return path


def copy_model(path, folder):
    folder.mkdir(exist_ok=True)
    for file in (path, changes_path(path)):
        shutil.copy(file, folder / file.name)
    return folder / path.name


@pytest.fixture
def model(saved, tmp_path):
    return copy_model(saved, tmp_path / "shop")


def names(path):
    return sorted(file.name for file in path.parent.iterdir())


KEPT = [".shop.matchset.lock", "shop.matchset", "shop.matchset.changes"]


def test_a_writer_keeps_changes_beside_the_file_that_it_never_writes_to(model):
    before, base = dump(ms.load(model)), model.read_bytes()
    old = ms.load(model)
    with ms.open_writer(model) as writer:
        writer.add(make_goods(SECOND))
        new = writer.remove(["p000"])
        assert writer.matcher is new
    assert dump(ms.load(model)) == dump(new) != before
    assert dump(old) == before
    assert model.read_bytes() == base
    assert names(model) == KEPT
    ms.verify(model)


def test_a_matcher_is_a_value_and_writes_nothing(model):
    before = dump(ms.load(model))
    grown = ms.load(model).add(make_goods(SECOND)).remove(["p000"])
    assert "n2" in grown.products.ids
    assert dump(ms.load(model)) == before
    assert names(model) == KEPT[1:]


def test_changes_of_a_matcher_are_saved_with_it_in_one_file(model, tmp_path):
    grown = ms.load(model).add(make_goods(SECOND))
    grown.save(tmp_path / "copy")
    assert dump(ms.load(tmp_path / "copy")) == dump(grown)
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["copy"]
    with ms.open_writer(tmp_path / "copy") as writer:
        less = writer.remove(["n1", "n2", "p000"])
    assert dump(ms.load(tmp_path / "copy")) == dump(less)
    less.save(tmp_path / "again")
    assert dump(ms.load(tmp_path / "again")) == dump(less)


def test_a_known_training_is_not_read_again(model):
    known = open_model(model)
    assert open_model(model, known) is known
    add(model, SECOND)
    after = open_model(model, known)
    assert after.matcher.model.tree is known.matcher.model.tree
    assert dump(after.matcher) == dump(ms.load(model)) != dump(known.matcher)


def test_a_known_matcher_of_another_kind_is_not_read_again(tmp_path):
    trained_shop().part("tree").save(tmp_path / "tree")
    known = open_model(tmp_path / "tree")
    shutil.copy(tmp_path / "tree", tmp_path / "copy")
    assert open_model(tmp_path / "copy", known).matcher is known.matcher


def test_titles_that_were_read_once_are_not_read_again(model, tmp_path, monkeypatch):
    with ms.open_writer(model) as writer:
        writer.add(make_goods(SECOND))
        expected = dump(writer.update(make_goods({"p002": ("blue zyxo", 1.0, None)})))
    monkeypatch.setattr(added, "_read_titles", None)
    opened = ms.load(model)
    opened.save(tmp_path / "copy")
    assert dump(opened) == dump(ms.load(tmp_path / "copy")) == expected
    monkeypatch.undo()
    whole = trained_shop().add(make_goods({**FIRST, **SECOND})).remove(["p009"])
    assert dump(whole.update(make_goods({"p002": ("blue zyxo", 1.0, None)}))) == expected


@pytest.mark.parametrize("dropped", ["towers", "lexical"])
def test_titles_are_found_when_a_part_was_dropped(model, tmp_path, dropped):
    left = ms.load(model).prune(drop=[dropped])
    left.save(tmp_path / "left")
    assert dump(ms.load(tmp_path / "left")) == dump(left)
    grown = add(tmp_path / "left", SECOND)
    assert dump(ms.load(tmp_path / "left")) == dump(grown)
    assert "n2" in grown.match("white vase zyxo", 5).ids


def test_many_changes_are_folded_into_one_record(model):
    with ms.open_writer(model) as writer:
        for i in range(40):
            matcher = writer.update(make_goods({f"p{i:03}": ("", 100.0 + i, "nova")}))
    assert len(open_model(model).log.records) <= 17
    assert matcher.freshness.generation == 41  # p009 is not there
    assert dump(ms.load(model)) == dump(matcher)


def test_what_was_saved_with_changes_can_lose_them_when_they_are_folded(tmp_path):
    path = tmp_path / "model"
    trained_shop().add(make_goods(FIRST)).save(path)
    with ms.open_writer(path) as writer:
        writer.remove(["n1"])
        for i in range(20):
            writer.update(make_goods({"p001": ("", 100.0 + i, "nova")}))
    assert "n1" not in ms.load(path).products.ids


def test_writers_take_turns_and_nothing_is_lost(model):
    def write(number):
        with ms.open_writer(model) as writer:
            for i in range(5):
                product = f"w{number}-{i}"
                writer.add(make_goods({product: (f"zyxo {product}", 1.0, None)}))

    threads = [threading.Thread(target=write, args=[number]) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = ms.load(model)
    assert len(found.match("zyxo").ids) == 16
    assert found.freshness.generation == 17


def test_a_reader_sees_whole_states_while_changes_are_folded(model):
    stop, failed = threading.Event(), []

    def read():
        n_before = 0
        while not stop.is_set():
            try:
                n = len(ms.load(model).products)
            except Exception as error:
                failed.append(error)
                return
            if n < n_before:
                failed.append(f"{n} after {n_before}")
            n_before = n

    reader = threading.Thread(target=read)
    reader.start()
    with ms.open_writer(model) as writer:
        for i in range(40):
            writer.add(make_goods({f"r{i}": ("zyxo lamp", 1.0, None)}))
    stop.set()
    reader.join()
    assert not failed


def test_a_writer_goes_on_from_what_others_wrote(model):
    with ms.open_writer(model) as mine, ms.open_writer(model) as other:
        other.add(make_goods(SECOND))
        assert {"n1", "n2"} <= set(mine.remove(["p000"]).products.ids)


def test_a_writer_goes_on_with_the_model_that_took_the_place_of_its_own(model):
    with ms.open_writer(model) as writer:
        writer.add(make_goods(SECOND))
        trained_shop().with_beam(7).save(model, overwrite=True)
        after = writer.remove(["p000"])
    assert after.model.bounds.tree_beam == 7
    assert not {"n1", "n2", "p000"} & set(after.products.ids)
    assert dump(ms.load(model)) == dump(after)


WAITS = """
import sys, matchset as ms
sys.path.insert(0, sys.argv[1])
from fresh_shop import make_goods
with ms.open_writer(sys.argv[2]) as writer:
    print("open", flush=True)
    writer.add(make_goods({"n2": ("white zyxo vase", 1.0, None)}))
    print(writer.matcher.model.bounds.tree_beam)
"""


def test_a_model_that_is_replaced_while_a_writer_waits_gets_the_change(model):
    command = [sys.executable, "-c", WAITS, str(Path(__file__).parent), str(model)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        with writing(model):
            assert child.stdout.readline() == "open\n"
            time.sleep(0.2)  # it waits, or it will
            trained_shop().with_beam(7).write_held(model, overwrite=True)
        assert child.stdout.read() == "7\n"
    assert "n2" in ms.load(model).products.ids


def test_changes_of_another_base_are_ignored_and_said_so(model, caplog):
    stale = changes_path(model).read_bytes()
    trained_shop().with_beam(7).save(model, overwrite=True)
    assert not changes_path(model).exists()
    changes_path(model).write_bytes(stale)
    assert "n1" not in ms.load(model).products.ids
    assert "belongs to another model than the one beside it: ignored" in caplog.text
    after = add(model, SECOND)
    assert dump(ms.load(model)) == dump(after)
    assert "n2" in after.products.ids


def test_a_step_that_changes_nothing_writes_nothing(model):
    before = changes_path(model).read_bytes()
    with ms.open_writer(model) as writer:
        matcher = writer.matcher
        assert writer.add(make_goods({})) is matcher
        assert writer.update(make_goods({"nobody": ("a", 1.0, None)})) is matcher
    assert changes_path(model).read_bytes() == before


def test_a_torn_end_is_ignored_and_cut_off_by_the_next_change(model, caplog):
    file, before = changes_path(model), dump(ms.load(model))
    whole = file.read_bytes()
    add(model, SECOND)
    longer = file.read_bytes()
    for n in (len(whole) + 1, len(whole) + 30, len(longer) - 1):
        file.write_bytes(longer[:n])
        caplog.clear()
        assert dump(ms.load(model)) == before
        assert f"its last {n - len(whole)} bytes are no whole change: ignored" in caplog.text
        ms.verify(model)
    file.write_bytes(longer[:-1] + b"more than there was before" * 3)
    assert dump(add(model, SECOND)) == dump(ms.load(model)) != before
    assert file.stat().st_size == len(longer)


def test_a_damaged_change_that_another_one_follows_is_an_error(model):
    whole = changes_path(model).read_bytes()
    second = whole.rindex(b"\x93change\n")
    for at in range(40, second, 97):
        damage(changes_path(model), at)
        for read in (ms.load, ms.verify):
            with pytest.raises(ModelFileError, match="damaged: a change at byte 40 cannot be read"):
                read(model)
        changes_path(model).write_bytes(whole)
    for at in range(40):  # of the base that it belongs to
        damage(changes_path(model), at)
        assert "n1" not in ms.load(model).products.ids
        changes_path(model).write_bytes(whole)


def test_an_old_matcher_can_be_pickled_when_its_file_has_moved_on(model):
    old = ms.load(model)
    before = dump(old)
    add(model, SECOND)
    assert dump(pickle.loads(pickle.dumps(old))) == before
    new = ms.load(model)
    model.unlink()
    assert "n2" in pickle.loads(pickle.dumps(new)).products.ids


@pytest.mark.parametrize("kind", ["bm25", "no titles"])
def test_a_model_whose_products_cannot_change_says_so(tmp_path, kind):
    path = tmp_path / "model"
    log, catalog = make_shop(60)
    if kind == "bm25":
        ms.baselines.BM25.from_catalog(catalog).save(path)
        with pytest.raises(ParameterError, match="must be a match set; got a bm25"):
            ms.open_writer(path)
        return
    ms.train(log, None, make_config(tune=False)).save(path)
    with (
        ms.open_writer(path) as writer,
        pytest.raises(ValueError, match=r"must have titles, .* got no titles, and tree"),
    ):
        writer.remove(["p001"])


def test_a_refresh_of_a_model_that_was_replaced_meanwhile_is_refused(model, monkeypatch):
    learn = ms.MatchSet.learn

    def learn_slowly(matcher, *logs):
        trained_shop().with_beam(7).save(model, overwrite=True)
        return learn(matcher, *logs)

    monkeypatch.setattr(ms.MatchSet, "learn", learn_slowly)
    with (
        ms.open_writer(model) as writer,
        pytest.raises(ValueError, match="was replaced meanwhile; refresh it again"),
    ):
        writer.refresh(SINCE)
    assert ms.load(model).model.bounds.tree_beam == 7


STEPS = {
    "add": lambda path: add(path, SECOND),
    "fold": lambda path: add(path, SECOND),  # where many changes are
    "refresh": lambda path: ms.open_writer(path).refresh(SINCE),
    "save": lambda path: trained_shop().save(path, overwrite=True),
    "save new": lambda path: trained_shop().save(path.with_name("new"), overwrite=True),
}


FAULTS = {
    "kill": None,
    "interrupt": KeyboardInterrupt(),
    "memory": MemoryError(),
    "disk": OSError(errno.EIO, "Input/output error"),
    "full": OSError(errno.ENOSPC, "No space left on device"),
}
DONE, FAILED, UNCERTAIN, KILLED = range(4)


class Shim:
    """Counts what is done to the disk, and lets the nth of it fail; a full disk stays full."""

    def __init__(self, n, fault):
        self.n, self.fault, self.n_seen = n, fault, 0

    def tick(self, before=lambda: None):
        self.n_seen += 1
        is_full = isinstance(self.fault, OSError) and self.fault.errno == errno.ENOSPC
        if self.n_seen == self.n or (is_full and self.n_seen > self.n):
            before()
            if self.fault is None:
                os.kill(os.getpid(), signal.SIGKILL)
            raise self.fault

    def install(self):
        shim, really_open = self, open

        class Raw(io.FileIO):
            def write(self, data):
                shim.tick(lambda: io.FileIO.write(self, memoryview(data)[: len(data) // 2]))
                return super().write(data)

        def open_counted(file, mode="r", buffering=-1, *args, closefd=True, **more):
            if mode != "r+b":
                return really_open(file, mode, buffering, *args, closefd=closefd, **more)
            raw = Raw(file, mode, closefd=closefd)
            return raw if buffering == 0 else io.BufferedRandom(raw)

        builtins.open = io.open = open_counted
        for name in ("fsync", "replace", "unlink", "ftruncate"):
            self.count(name)

    def count(self, name):
        real = getattr(os, name)

        def counted(*args, **options):
            is_freeing = name in ("unlink", "ftruncate")
            if not (is_freeing and isinstance(self.fault, OSError)):
                self.tick()
            return real(*args, **options)

        setattr(os, name, counted)


def fail_at(path, step, n, fault):
    """Take a step in another process, with a fault at its nth call; how it ended, if it came."""
    pid = os.fork()
    if pid == 0:
        shim, ended = Shim(n, fault), FAILED
        try:
            shim.install()
            STEPS[step](path)
            ended = DONE
        except ms.errors.UncertainWriteError:
            ended = UNCERTAIN
        finally:
            os._exit(ended + 10 * (shim.n_seen >= n))
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return KILLED
    was_there, ended = divmod(os.WEXITSTATUS(status), 10)
    return ended if was_there else None


def many_changes(path):
    with ms.open_writer(path) as writer:
        for n in range(16 - len(open_model(path).log.records)):
            writer.update(make_goods({"p001": ("", 100.0 + n, None)}))


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        *((step, fault) for step in ("add", "fold") for fault in FAULTS),
        *((step, fault) for step in ("refresh", "save", "save new") for fault in ("kill", "full")),
    ],
)
def test_a_process_that_is_stopped_anywhere_leaves_the_old_or_the_new_state(
    saved, tmp_path, step, fault
):
    begun = copy_model(saved, tmp_path / "begun")
    if step == "fold":
        many_changes(begun)
    target = "new" if step == "save new" else begun.name
    old = dump(ms.load(begun))
    seen, ends, n = [], [], 0
    while not ends or ends[-1] is not None:
        n += 1 if n < 12 or not seen or step in ("add", "fold") else 7
        path = copy_model(begun, tmp_path / f"{n}")
        ends.append(fail_at(path, step, n, FAULTS[fault]))
        file = path.with_name(target)
        if file.exists():
            ms.verify(file)
            seen.append(dump(ms.load(file)))
            ms.open_writer(file).update(make_goods({"p001": ("", 9.0, None)}))  # the next writer
            ms.verify(file)
        else:
            seen.append(None)
        if fault != "kill":
            assert not [name for name in names(path) if name.endswith(".tmp")]
        shutil.rmtree(path.parent)
    before = None if step == "save new" else old
    assert all(each in (before, seen[-1]) for each in seen)  # never between
    is_old = [each == before for each in seen]
    assert 1 <= sum(is_old) < len(seen)
    if fault in ("disk", "full") and step in ("add", "fold"):  # an error says which it is
        assert [ended == FAILED for ended in ends] == is_old
        assert UNCERTAIN in ends
    else:
        assert is_old == sorted(is_old, reverse=True)


def test_a_change_that_may_be_lost_is_safe_once_the_step_is_taken_again(model, monkeypatch):
    real, flushed = os.fsync, []

    def fail(_):
        raise OSError(errno.EIO, "Input/output error")

    with ms.open_writer(model) as writer:
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(ms.errors.UncertainWriteError, match="may or may not be on disk"):
            writer.add(make_goods(SECOND), version=1)
        monkeypatch.setattr(os, "fsync", lambda handle: flushed.append(handle) or real(handle))
        assert "n2" in writer.add(make_goods(SECOND), version=1).products.ids
        assert flushed
