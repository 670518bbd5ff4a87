"""The command line, called in this process: to start Python takes longer than most commands."""

import io
import logging
import os
import signal
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from matchset.cli import console
from matchset.cli.commands import main

COMMAND = Path(sys.executable).with_name("matchset")  # as a person calls it


def call_main(*arguments, stdin=""):
    """Exit code, output and errors of a command."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with _as_in_a_process(arguments, stdin), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    return code, out.getvalue(), err.getvalue()


def run(*arguments, stdin="", ok=True):
    """Output of a command that must work, or errors of one that must not."""
    code, out, err = call_main(*arguments, stdin=stdin)
    assert (code == 0) is ok, err
    assert "Traceback" not in err
    return out if ok else err


@contextmanager
def _as_in_a_process(arguments, stdin):
    """Arguments, input, a wide terminal and a log of its own; all is as before at the end."""
    root, handler = logging.getLogger(), signal.getsignal(signal.SIGTERM)
    level = root.level
    with (
        patch.object(sys, "argv", ["matchset", *map(str, arguments)]),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()))),
        patch.dict(os.environ, COLUMNS="200", NO_COLOR="1"),
        patch.object(console.output, "_width", 200),
        patch.object(console.errors, "_width", 200),
        patch.object(root, "handlers", []),
    ):
        try:
            yield
        finally:
            root.setLevel(level)
            signal.signal(signal.SIGTERM, handler)
