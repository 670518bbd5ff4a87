"""App: which commands are there, and how do they fail?"""

from __future__ import annotations

import logging
import sys
from importlib.metadata import version

from cyclopts import App

from matchset.cli.console import errors, format_error
from matchset.cli.demo import demo
from matchset.cli.evaluate import evaluate
from matchset.cli.experiments import compare, sweep
from matchset.cli.logs import describe, simulate, split
from matchset.cli.match import explain, match
from matchset.cli.models import inspect, prune
from matchset.cli.serve import serve
from matchset.cli.training import train

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
    """Run the command line; a mistake in the input is one sentence and exit code 1."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # of each attempt; the last one is told
    try:
        app()
        sys.stdout.flush()
    except BrokenPipeError:  # `matchset match ... | head`: nobody reads on
        sys.stdout = None  # nor should Python try at exit
        sys.exit(0)
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        errors.print(
            f"matchset: {format_error(error)}", markup=False, highlight=False, soft_wrap=True
        )
        sys.exit(1)
    except KeyboardInterrupt:
        errors.print("matchset: stopped; nothing was saved")
        sys.exit(130)
