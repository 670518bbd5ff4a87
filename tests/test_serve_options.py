"""Options of `matchset serve`: by flags, or by the environment of a container."""

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from matchset.cli.commands import app
from matchset.serve import serve_command as command
from matchset.serve.options import Limits, ServeConfig


@pytest.fixture
def started(monkeypatch):
    """What the command would have started."""
    calls = []
    monkeypatch.setattr(command, "start", lambda *given, **_: calls.append(given))

    def run(*arguments):
        app(["serve", *arguments], result_action="return_value")
        return calls[-1]

    return run


def test_the_environment_sets_options_and_a_flag_wins_over_it(started, monkeypatch):
    monkeypatch.setenv("MATCHSET_MODEL", "from-env")
    monkeypatch.setenv("MATCHSET_ALSO", "one:two")
    monkeypatch.setenv("MATCHSET_PORT", "9000")
    monkeypatch.setenv("MATCHSET_WATCH", "true")
    monkeypatch.setenv("MATCHSET_ACCESS_LOG", "false")
    monkeypatch.setenv("MATCHSET_ALLOW_HOST", "shop.example api.example")
    monkeypatch.setenv("MATCHSET_LIMITS_CONCURRENCY", "40")
    sources, config, limits = started()
    assert (sources.model, sources.also) == (Path("from-env"), (Path("one"), Path("two")))
    assert (config.port, config.watch, config.access_log) == (9000, True, False)
    assert config.allow_host == ("shop.example", "api.example")
    assert limits == Limits(concurrency=40)
    flags = ("--port", "9001", "--no-watch", "--limits.concurrency", "50")
    sources, config, limits = started("from-flag", *flags)
    assert (sources.model, config.port, config.watch) == (Path("from-flag"), 9001, False)
    assert limits.concurrency == 50


def test_help_names_the_variable_of_every_option():
    # In a process of its own: what other tests did to the app must not show.
    command = [sys.executable, "-m", "matchset", "serve", "--help"]
    wide = {**os.environ, "COLUMNS": "400"}
    shown = subprocess.run(command, env=wide, capture_output=True, text=True, check=True).stdout
    shown = set(re.findall(r"env var:[\s│]+(\w+)", shown))
    wanted = {f"MATCHSET_{field.name.upper()}" for field in fields(ServeConfig)}
    wanted |= {f"MATCHSET_LIMITS_{field.name.upper()}" for field in fields(Limits)}
    assert wanted | {"MATCHSET_MODEL", "MATCHSET_ALSO", "MATCHSET_LOG"} <= shown


def test_other_commands_do_not_read_the_environment(capsys):
    app(["train", "--help"], result_action="return_value")
    assert "MATCHSET_" not in capsys.readouterr().out
