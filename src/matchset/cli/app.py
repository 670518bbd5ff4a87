"""App: which commands are there, and how do they fail?"""

from __future__ import annotations

import logging
import sys
from importlib.metadata import version

from cyclopts import App

from matchset.cli.console import format_error, print_error
from matchset.cli.demo import demo
from matchset.cli.evaluate import evaluate
from matchset.cli.experiments import compare, sweep
from matchset.cli.logs import describe, simulate, split
from matchset.cli.match import explain, match
from matchset.cli.models import inspect, prune, train
from matchset.cli.serve import serve

app = App(
    name="matchset",
    help="Learn from your search log which products answer a query.",
    version=lambda: version("matchset"),
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


def main() -> None:
    """Run the command line; an error in the input is one sentence and exit code 1."""
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
        sys.exit(130)
