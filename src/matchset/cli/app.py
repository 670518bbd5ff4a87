"""App: which commands are there, and how do they fail?"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from importlib.metadata import version

from cyclopts import App
from cyclopts.config import Env

from matchset.cli.console import format_error, print_error
from matchset.cli.demo import demo
from matchset.cli.evaluate import evaluate
from matchset.cli.experiments import compare, sweep
from matchset.cli.inspection import inspect
from matchset.cli.logs import describe, simulate, split
from matchset.cli.match import explain, match
from matchset.cli.models import prune, train
from matchset.cli.serve import serve

app = App(
    name="matchset",
    help="Learn from your search log which products answer a query.",
    version=lambda: version("matchset"),
    suppress_keyboard_interrupt=False,  # or it exits silently; `main` says what happened
)
COMMANDS = (
    demo,
    simulate,
    describe,
    split,
    train,
    match,
    explain,
    evaluate,
    compare,
    sweep,
    prune,
    inspect,
    serve,
)
for command in COMMANDS:
    app.command(command)
app["serve"].config = Env("MATCHSET_", command=False)  # containers are configured this way


def main() -> None:
    """Run the command line; an error in the input is one sentence and exit code 1."""
    if threading.current_thread() is threading.main_thread():  # others may not
        signal.signal(signal.SIGTERM, _stop)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # it logs each attempt; we report the last
    try:
        app()
        sys.stdout.flush()
    except BrokenPipeError:  # `matchset match ... | head`: the reader has stopped
        sys.stdout = None  # or Python would flush it again at exit
        sys.exit(0)
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        print_error(f"matchset: {format_error(error)}")
        sys.exit(1)
    except KeyboardInterrupt:
        print_error("matchset: stopped; nothing was saved")
        is_terminated = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        sys.exit(128 + (signal.SIGTERM if is_terminated else signal.SIGINT))


def _stop(*_: object) -> None:
    """End like Ctrl-C, so that temporary files are removed; a second signal ends at once."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise KeyboardInterrupt
