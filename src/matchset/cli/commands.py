"""Commands: which commands are there, and how do they fail?"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable
from importlib.metadata import version
from typing import Literal

from cyclopts import App, Group, Parameter
from cyclopts.config import Env

from matchset.cli.changing import add, merge, refresh, remove, update
from matchset.cli.console import FlagFormatter, format_error, print_error
from matchset.cli.decisions import experiment
from matchset.cli.demo import demo
from matchset.cli.evaluate import evaluate
from matchset.cli.experiments import compare, sweep
from matchset.cli.inspection import inspect
from matchset.cli.interrupts import STOPPED
from matchset.cli.logs import describe, simulate, split
from matchset.cli.matching import explain, match
from matchset.cli.models import prune, train
from matchset.cli.plan import plan
from matchset.cli.serve import serve
from matchset.cli.shadowing import shadow

app = App(
    name="matchset",
    help="Learn from your search log which products answer a query.",
    version=lambda: version("matchset"),
    suppress_keyboard_interrupt=False,  # or it exits silently; `main` says what happened
    default_parameter=Parameter(negative_iterable=()),  # no --empty-parts: leaving out says it
)


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script that completes commands and flags in a shell.

    In bash: source <(matchset completion bash). In zsh: matchset completion zsh >
    ~/.zfunc/_matchset, where ~/.zfunc is in $fpath. In fish: matchset completion fish | source.

    Parameters
    ----------
    shell
        The shell.

    """
    sys.stdout.write(app.generate_completion(prog_name="matchset", shell=shell))


# What a user wants, in the order of the way from a log to a server.
GROUPS: dict[str, tuple[Callable[..., None], ...]] = {
    "Start here": (demo, simulate),
    "Data": (describe, split, plan),
    "Models": (train, match, explain, inspect, prune),
    "Keep fresh": (add, update, remove, refresh, merge),
    "Measure": (evaluate, compare, sweep, shadow),
    "Serve": (serve,),
    "Help": (completion,),
}
COMMANDS = tuple(command for commands in GROUPS.values() for command in commands)
for title, commands in GROUPS.items():
    group = Group.create_ordered(title)
    for command in commands:
        app.command(command, group=group, sort_key=COMMANDS.index(command))
    if title == "Measure":
        experiment.group, experiment.sort_key = group, len(COMMANDS)
        app.command(experiment)
    if title == "Help":
        app["--help"].group = app["--version"].group = group
app["serve"].config = Env("MATCHSET_", command=False)  # containers are configured this way


def main() -> None:
    """Run the command line; an error in the input is one sentence and exit code 1."""
    if threading.current_thread() is threading.main_thread():  # others may not
        signal.signal(signal.SIGTERM, _stop)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FlagFormatter("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # it logs each attempt; we report the last
    try:
        app(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # `matchset match ... | head`: the reader has stopped
        sys.stdout = None  # or Python would flush it again at exit
        sys.exit(0)
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
        print_error(f"matchset: {format_error(error)}")
        sys.exit(1)
    except KeyboardInterrupt:
        print_error("matchset: stopped" if sys.argv[1:2] == ["serve"] else STOPPED)
        is_terminated = signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        sys.exit(128 + (signal.SIGTERM if is_terminated else signal.SIGINT))


def _stop(*_: object) -> None:
    """End like Ctrl-C, so that temporary files are removed; a second signal ends at once."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise KeyboardInterrupt
