"""Commands: which commands are there, and how do they fail?"""

from __future__ import annotations

import ast
import logging
import signal
import sys
import threading
from functools import cache
from importlib.metadata import entry_points, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from cyclopts import App, Group, Parameter
from cyclopts.config import Env

from matchset.cli.console import FlagFormatter, format_error, print_error
from matchset.cli.interrupts import STOPPED

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


PLUGINS = "matchset.commands"  # group of entry points: a command's name, and where it is
# The core's commands. Other rooms bring theirs by entry points, as packages of others can. A
# command is imported when it is called, so that each starts as fast as what it needs.
CORE = {
    "changing": ("add", "update", "remove", "refresh"),
    "commands": ("completion",),
    "demo": ("demo",),
    "evaluate": ("evaluate",),
    "inspection": ("inspect",),
    "logs": ("describe", "split"),
    "matching": ("match", "explain"),
    "models": ("train", "prune"),
    "plan": ("plan",),
}
# What a user wants, in the order of the way from a log to a server.
GROUPS = {
    "Start here": ("demo", "simulate"),
    "Data": ("describe", "split", "plan"),
    "Models": ("train", "match", "explain", "inspect", "prune"),
    "Keep fresh": ("add", "update", "remove", "refresh"),
    "Measure": ("evaluate", "compare", "sweep", "shadow", "experiment"),
    "Serve": ("serve",),
    "More": (),  # whatever else is installed
    "Help": ("completion",),
}
# Containers are configured by variables.
OPTIONS: dict[str, dict[str, Any]] = {"serve": {"config": Env("MATCHSET_", command=False)}}


def find_targets() -> dict[str, str]:
    """Return the module and name of each command, as "module:name"."""
    core = {name: f"matchset.cli.{module}:{name}" for module in CORE for name in CORE[module]}
    return {entry.name: entry.value for entry in entry_points(group=PLUGINS)} | core


def read_help(target: str) -> str | None:
    """Return the docstring of a command, without importing what the command needs."""
    module, _, wanted = target.partition(":")
    try:
        found = find_spec(module)
    except ImportError:
        found = None
    if found is None or found.origin is None:
        return None  # of a package that is half removed
    for node in _parse(found.origin).body:
        match node:
            case ast.FunctionDef(name=name) if name == wanted:
                return ast.get_docstring(node)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(keywords=given)):
                if name == wanted:
                    return next((ast.literal_eval(k.value) for k in given if k.arg == "help"), None)
    return None


@cache
def _parse(path: str) -> ast.Module:
    return ast.parse(Path(path).read_text(encoding="utf-8"))


def add_commands() -> None:
    """Add each command to the application, in its group."""
    targets = find_targets()
    named = {name for names in GROUPS.values() for name in names}
    for title, names in GROUPS.items():
        group = Group.create_ordered(title)
        for name in sorted(set(targets) - named) if title == "More" else names:
            if name in targets:
                app.command(
                    targets[name],
                    name=name,
                    group=group,
                    sort_key=len(list(app)),
                    help=read_help(targets[name]),
                    **OPTIONS.get(name, {}),
                )
    app["--help"].group = app["--version"].group = group


add_commands()


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
