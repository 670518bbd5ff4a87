"""Serve command: how does a model get behind a search box?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from matchset.cli.console import format_error
from matchset.cli.flags import LogColumns
from matchset.data.log import Log
from matchset.errors import DataError, install_command
from matchset.serve.options import Limits, ServeConfig
from matchset.serve.snapshots import Sources

CONFIG, LIMITS = ServeConfig(), Limits()


def serve(
    model: Path,
    /,
    *,
    also: tuple[Path, ...] = (),
    log: tuple[str, ...] = (),
    config: Annotated[ServeConfig, Parameter(name="*", group="Server")] = CONFIG,
    limits: Annotated[Limits, Parameter(name="limits", group="Limits")] = LIMITS,
) -> None:
    """Serve a model over HTTP; prints the address once every worker is ready.

    SIGUSR1 reloads the model, SIGHUP also replaces the workers. SIGTERM stops the server after
    the requests in flight.

    Parameters
    ----------
    model
        File of a saved matcher.
    also
        Files of other saved matchers to serve as well, each of another kind.
    log
        A log whose purchases the page marks, and whose frequent queries it offers as examples. Its
        columns must have their usual names, as those of the files of `matchset split` have.
    config
        How the server runs.
    limits
        Limits of a request.

    """
    read = partial(read_usual, list(log)) if log else None
    start(Sources(model, also), config, limits, read_log=read, on_ready=print_address)


def read_usual(files: list[str]) -> Log:
    """Read a log whose columns have their usual names."""
    try:
        return LogColumns().read(files)
    except DataError as error:
        if error.parameter is None:
            raise
        has = "matchset split has this option, and writes a log that can be served"
        raise ValueError(f"{format_error(error)}; {has}") from error


def start(
    sources: Sources,
    config: ServeConfig,
    limits: Limits,
    *,
    read_log: Callable[[], Log] | None,
    on_ready: Callable[[str], None],
) -> None:
    """Run the server, if the packages it needs are installed."""
    try:
        from matchset.serve.run import serve as run
    except ImportError as error:
        needs = f"the server needs more packages: {install_command('serve')}"
        raise ValueError(f"{needs} ({error.name} is missing)") from None
    run(sources, config, limits, read_log=read_log, on_ready=on_ready)


def print_address(address: str) -> None:
    """Print the server's address without delay: a program may wait for it."""
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
