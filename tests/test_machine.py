"""`make` says in one sentence what a machine lacks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parent.parent / "tools" / "check_machine.sh"


def check(python=sys.executable, cxx="true", *, path=None):
    environment = {**os.environ, "PATH": path or os.environ["PATH"]}
    run = subprocess.run(
        ["/bin/sh", CHECK, python, cxx], env=environment, capture_output=True, text=True
    )
    return run.returncode, run.stderr


def fake(tmp_path, name, script):
    file = tmp_path / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("exit 1", "Python 3.11 or later is needed and"),
        ('case "$2" in *venv*) exit 1;; esac', "Python's venv module is missing; install it"),
        ('case "$2" in *Python.h*) exit 1;; esac', "Python's C headers are missing; install them"),
    ],
)
def test_an_unfit_python_is_named(tmp_path, script, sentence):
    code, said = check(python=fake(tmp_path, "python", script))
    assert code == 1
    assert sentence in said
    assert said.count("\n") == 1


def test_a_missing_python_or_compiler_is_named():
    code, said = check(python="no-such-python")
    assert (code, said.count("\n")) == (1, 1)
    assert "Python 3.11 or later is needed; install it" in said
    code, said = check(cxx="no-such-compiler")
    assert (code, said.count("\n")) == (1, 1)
    assert "a C++20 compiler is needed; install one" in said


def test_an_old_compiler_is_named(tmp_path):
    old = fake(tmp_path, "g++", 'case "$1" in --version) echo "g++ 4.8";; *) exit 1;; esac')
    code, said = check(cxx=old)
    assert (code, said.count("\n")) == (1, 1)
    assert "a C++20 compiler is needed and" in said
    assert "g++ 4.8" in said


def test_a_fit_machine_passes():
    assert check() == (0, "")
    assert check(cxx="env true") == (0, "")
