"""Serve command: how does a model get behind a search box?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from matchset.cli.flags import LogColumns
from matchset.data.events import EventWeights
from matchset.data.log import Log
from matchset.errors import install_command
from matchset.serve.options import Limits, ServeConfig
from matchset.serve.snapshots import Sources

COLUMNS, CONFIG, LIMITS = LogColumns(), ServeConfig(), Limits()


def serve(
    model: Path,
    /,
    *,
    also: tuple[Path, ...] = (),
    log: tuple[str, ...] = (),
    events: dict[str, float] | None = None,
    config: Annotated[ServeConfig, Parameter(name="*", group="Server")] = CONFIG,
    limits: Annotated[Limits, Parameter(name="limits", group="Limits")] = LIMITS,
    columns: Annotated[LogColumns, Parameter(group="Columns of the log")] = COLUMNS,
) -> None:
    """Serve a model over HTTP; prints the address once every worker is ready.

    SIGUSR1 reloads the model, SIGHUP also replaces the workers. SIGTERM stops the server after
    the requests in flight.

    Parameters
    ----------
    model
        File of a saved matcher.
    also
        Folders of other saved matchers to serve as well, each of another kind.
    log
        A log whose purchases the page marks, and whose frequent queries it offers as examples.
    events
        Weight of each event of the log that makes a product relevant, such as --events.purchase 1
        (default: purchases, else clicks, else the events that the model was trained with).
    config
        How the server runs.
    limits
        Limits of a request.
    columns
        Columns of the log.

    """
    read = partial(columns.read, list(log)) if log else None
    start(
        Sources(model, also), config, limits, read_log=read, events=events, on_ready=print_address
    )


def start(
    sources: Sources,
    config: ServeConfig,
    limits: Limits,
    *,
    read_log: Callable[[], Log] | None,
    on_ready: Callable[[str], None],
    events: EventWeights | None = None,
) -> None:
    """Run the server, if the packages it needs are installed."""
    try:
        from matchset.serve.run import serve as run
    except ImportError as error:
        needs = f"the server needs more packages: {install_command('serve')}"
        raise ValueError(f"{needs} ({error.name} is missing)") from None
    run(sources, config, limits, read_log=read_log, events=events, on_ready=on_ready)


def print_address(address: str) -> None:
    """Print the server's address without delay: a program may wait for it."""
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
