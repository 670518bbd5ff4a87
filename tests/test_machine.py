"""`make` says in one sentence what a machine lacks; the native module is built as it should be."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from matchset import _native

PT_DYNAMIC, DT_FLAGS, BIND_NOW = 2, 30, 8  # of ELF
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


@pytest.mark.skipif(sys.platform != "linux", reason="of ELF files")
def test_l11_the_native_module_guards_its_stack_and_its_tables():
    data = Path(_native.__file__).read_bytes()
    assert b"__stack_chk_fail" in data
    begin, count = *struct.unpack_from("<Q", data, 32), *struct.unpack_from("<H", data, 56)
    headers = [struct.unpack_from("<IIQQQQ", data, begin + 56 * i) for i in range(count)]
    at, size = next((offset, size) for kind, _, offset, _, _, size in headers if kind == PT_DYNAMIC)
    flags = dict(struct.unpack_from("<QQ", data, at + i) for i in range(0, size, 16))
    assert flags[DT_FLAGS] & BIND_NOW
