"""Console: how are results, progress and errors shown in a terminal?"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from matchset.errors import InputError

if TYPE_CHECKING:
    from matchset.work.steps import Progress as Step

Form: TypeAlias = Literal["table", "tsv", "jsonl", "json"]
output = Console()
errors = Console(stderr=True)


def print_text(text: object) -> None:
    """Print plain text, without markup or wrapping: it may be piped into another program."""
    output.print(str(text), markup=False, highlight=False, soft_wrap=True)


def print_error(text: str) -> None:
    """Print plain text to standard error."""
    errors.print(text, markup=False, highlight=False, soft_wrap=True)


def print_heading(text: str) -> None:
    """Print the heading of a section."""
    output.print()
    output.print(Text(text, style="bold"))


def print_facts(values: Mapping[str, object]) -> None:
    """Print names and values, one pair per line; values are plain text, not markup."""
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for name, value in values.items():
        shown = f"{value:,}" if isinstance(value, int) else str(value)
        shown = f"{value:.3g}" if isinstance(value, float) else shown
        table.add_row(Text(name, style="dim"), Text(shown))
    output.print(table)


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, n_texts: int = 1) -> None:
    """Print a table, of which the first columns are texts, and the others numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for index, header in enumerate(headers):
        table.add_column(header, justify="left" if index < n_texts else "right")
    for row in rows:
        table.add_row(*map(Text, row))
    output.print(table)


def print_json(value: object) -> None:
    """Print a value as JSON."""
    print_text(json.dumps(to_plain(value), indent=1))


def to_plain(value: Any) -> Any:
    """Turn records, tuples and mappings into what JSON has; an unknown number becomes null."""
    if is_dataclass(value):
        return {each.name: to_plain(getattr(value, each.name)) for each in fields(value)}
    if hasattr(value, "_asdict"):
        return to_plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): to_plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(each) for each in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def format_error(error: Exception) -> str:
    """Return the message of an error, in which parameters are flags."""
    if isinstance(error, InputError):
        return error.message(format_flag)
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def format_flag(parameter: str) -> str:
    """Return the flag that sets a parameter: --test-days for test_days."""
    return f"--{parameter.replace('_', '-')}"


class FlagFormatter(logging.Formatter):
    """Formats what the library logs; options that it speaks of are flags."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (of the library)
        """Return the message of a record."""
        args = record.args if isinstance(record.args, tuple) else ()
        if len(args) == 1 and isinstance(args[0], InputError):
            return format_error(args[0])
        return super().formatMessage(record)


@contextmanager
def training_bar() -> Iterator[TrainingBar]:
    """Show a progress bar for training, in a terminal only."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal)
    # Older versions of Rich print an empty line at the end of a bar that was never shown.
    with nullcontext() if bar.disable else bar:
        yield TrainingBar(bar)


class TrainingBar:
    """Receives the steps of training and shows how far each is."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("training", total=None)

    def stop(self) -> None:
        """Erase the bar, from any thread."""
        if not self._bar.disable:
            self._bar.stop()

    def __call__(self, step: Step) -> None:
        """Show one step."""
        self._bar.update(
            self._task, description=describe_step(step), completed=step.done, total=step.total
        )


def describe_step(step: Step) -> str:
    """Return a step in words."""
    tuning = " (to weigh the parts)" if step.is_tuning else ""
    items = f", {step.done:,} of {step.total:,}" if step.total > 1 else ""
    return f"{step.stage}{tuning}{items}"


def format_seconds(seconds: float) -> str:
    """Write seconds; minutes or hours if there are many."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"
