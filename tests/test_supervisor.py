"""What kills workers is given up after a few attempts; what they served before stays."""

import os
import signal
from types import SimpleNamespace

import pytest

from matchset.serve import supervisor
from matchset.serve.options import ServeConfig
from matchset.serve.reload import switch
from matchset.serve.reload.run_folder import current_version, make_run_folder, publish
from matchset.serve.reload.snapshots import Sources
from matchset.serve.reload.switch import make_version, needs_reload, reload_if_needed
from matchset.serve.supervisor import Supervisor

CONFIG = ServeConfig(reload_seconds=0.2)


@pytest.fixture
def sources(folder):
    return Sources(folder / "model")


@pytest.fixture
def run(sources):
    with make_run_folder(sources.model) as made:
        publish(made, make_version(made, sources, CONFIG, 1))
        made.write_text("attempted", switch.reload_trigger(made, sources, CONFIG))
        yield made


@pytest.fixture
def server(run, sources):
    """A supervisor that was never started."""
    made = object.__new__(Supervisor)
    made.run, made.sources, made.config = run, sources, CONFIG
    return made


def reload_and_die(run, sources):
    """What happens when a new model kills the worker that opens it."""
    child = os.fork()
    if child == 0:  # no return from here, whatever happens
        switch._load_and_switch = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        try:
            reload_if_needed(run, sources, CONFIG)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_m5_a_model_that_kills_workers_is_left_alone_after_three_attempts(run, sources):
    before = current_version(run)
    run.write_text("requested", "a signal")
    assert [reload_and_die(run, sources) for _ in range(4)] == [-signal.SIGKILL] * 3 + [0]
    assert not needs_reload(run, sources, CONFIG)
    assert current_version(run) == before  # and is served on
    run.write_text("requested", "another signal")
    assert needs_reload(run, sources, CONFIG)


def dies(exit_code):
    return [SimpleNamespace(pid=4711, exitcode=exit_code)]


def test_m5_a_server_whose_workers_never_open_the_model_gives_up(server):
    reasons = [server._examine(dies(-signal.SIGSEGV)) for _ in range(6)]
    assert reasons[:5] == [None] * 5  # the model is whole
    assert reasons[5] == "6 workers in a row died before they had opened the model"


def test_m5_workers_that_somebody_kills_are_replaced_for_ever(server):
    assert [server._examine(dies(-signal.SIGKILL)) for _ in range(20)] == [None] * 20


def test_m5_one_worker_that_opened_the_model_begins_the_count_anew(server, monkeypatch):
    for _ in range(5):
        assert server._examine(dies(1)) is None
    opened = SimpleNamespace(is_open=True)
    monkeypatch.setattr(supervisor, "read_all_workers", lambda _: {4711: (False, opened)})
    assert server._examine(dies(1)) is None
    monkeypatch.undo()
    assert [server._examine(dies(1)) for _ in range(5)] == [None] * 5
