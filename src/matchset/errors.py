"""Errors: what can be wrong with what a user gave us, and where?

Each error holds its facts in fields; `message` puts them into one sentence. A caller that knows
things by other names (the command line says `--events` where Python says `events=`) passes its
own names to `message`, or changes a field, and never edits the text.
"""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from collections.abc import Callable
from importlib.metadata import requires
from pathlib import Path
from typing import ClassVar

_SHOWN_BEFORE, _SHOWN_AFTER = 50, 30  # characters of an expression around an error
_OPTION = re.compile(r"\{(\w+)(?:\.([^=}]+))?=([^}]*)\}")  # in advice; an entry after a dot


class InputError(Exception):
    """Something that a user gave breaks a rule.

    `rule` is the rule and the value that broke it ("must be at least 2; got 1"). The other fields
    say where, as far as it is known: the `parameter` of the function, the file at `path` (or, if it
    is not a file, its name in `source`), the `row` in it (the first is 1), the `column`, and the
    `position` in a text (characters before the error). `advice` says what to do. An option in it,
    as in "{strict=True} shows the first such row", is strict=True in Python and --strict in a
    shell.
    """

    python_name: ClassVar[str] = "{}="  # how a message names a parameter in Python

    def __init__(
        self,
        rule: str,
        *,
        parameter: str | None = None,
        path: str | os.PathLike[str] | None = None,
        source: str | None = None,
        row: int | None = None,
        column: str | None = None,
        position: int | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(rule)
        self.rule = rule
        self.advice = advice
        self.parameter = parameter
        self.path = None if path is None else Path(path)
        self.source = source
        self.row = row
        self.column = column
        self.position = position

    def message(self, name_parameter: Callable[[str], str] | None = None) -> str:
        """Return the error as one sentence; `name_parameter` gives a parameter's name in it."""
        source = self.source if self.path is None else format_path(self.path)
        located = [] if source is None else [source]
        located += [] if self.row is None else [f"row {self.row}"]
        words = [f"{', '.join(located)}:"] if located else []
        if self.parameter is not None:
            words.append((name_parameter or self.python_name.format)(self.parameter))
        if self.column is not None:
            words.append(f"column {self.column!r}")
        return " ".join([*words, self.rule]) + self._advise(name_parameter) + self._show_position()

    def _advise(self, name_parameter: Callable[[str], str] | None) -> str:
        """Return what to do, which follows the sentence."""
        if self.advice is None:
            return ""
        return "; " + _OPTION.sub(lambda found: _name_option(found, name_parameter), self.advice)

    def _show_position(self) -> str:
        """Return lines below the sentence, for an error in a text."""
        return ""

    def __str__(self) -> str:
        return self.message()


def _name_option(found: re.Match[str], name_parameter: Callable[[str], str] | None) -> str:
    name, entry, value = found.groups()
    if name_parameter is None:
        if entry is not None:
            return f"{name}={{{entry!r}: {value}}}"
        return f"{name}={value if value in ('True', 'False') else repr(value)}"
    shown = {"True": "", "False": " none"}.get(value, f" {shlex.quote(value)}")
    return name_parameter(name) + ("" if entry is None else shlex.quote(f".{entry}")) + shown


class DataError(InputError, ValueError):
    """A log, catalog or experiment breaks a rule; the message names file, column and row."""


class ParameterError(InputError, ValueError):
    """An argument of a function breaks a rule."""

    python_name = "{}"


class ModelFileError(InputError, ValueError):
    """A saved file is missing, damaged, of another kind or too new; the message names the file."""


class UncertainWriteError(InputError, OSError):
    """A change was written, but may not be safe on disk. Repeat the same step to make sure."""

    def __init__(self, path: str | os.PathLike[str], reason: BaseException) -> None:
        rule = f"the change may or may not be on disk; repeat the same step ({reason})"
        super().__init__(rule, path=path)
        self.args = (path, reason)  # for pickle


class TargetExistsError(InputError, FileExistsError):
    """Something already exists at `path`, and `overwrite` would replace it."""

    python_name = "{}=True"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__("already exists", path=path, parameter="overwrite")
        self.args = (path,)  # for pickle

    def message(self, name_parameter: Callable[[str], str] | None = None) -> str:
        """Return the error as one sentence; `name_parameter` gives a parameter's name in it."""
        name = (name_parameter or self.python_name.format)(self.parameter or "")
        return f"{self.path}: {self.rule}; {name} replaces it"


class FilterError(InputError, ValueError):
    """A filter expression breaks a rule; the message points at the position with a caret."""

    def __init__(self, rule: str, expression: str, position: int) -> None:
        super().__init__(format_line(rule), position=position)  # it may quote the expression
        self.args = (rule, expression, position)  # for pickle
        self.expression = expression

    def _show_position(self) -> str:
        """Return the expression around the error, and a caret below it."""
        position = self.position or 0
        first, last = max(0, position - _SHOWN_BEFORE), position + _SHOWN_AFTER
        before = ("..." if first else "") + format_line(self.expression[first:position])
        after = format_line(self.expression[position:last])
        dots = "..." if last < len(self.expression) else ""
        return f"\n  {before}{after}{dots}\n  {' ' * _count_cells(before)}^"


class ServerError(InputError, ConnectionError):
    """A server cannot be reached, or cannot answer; the message says which and why.

    `status` and `code` are those of its error response, None where there was none.
    """

    def __init__(
        self,
        rule: str,
        *,
        url: str | None = None,
        status: int | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(rule, source=url)
        self.status = status
        self.code = code

    @property
    def url(self) -> str | None:
        """The server's address."""
        return self.source


def format_path(path: Path) -> str:
    """Return a path as it is written, with escapes where a terminal could not show it."""
    return str(path) if str(path).isprintable() else repr(str(path))


def format_line(text: str) -> str:
    """Return a text as one line: what cannot be printed becomes a space."""
    return "".join(char if char.isprintable() else " " for char in text)


def _count_cells(text: str) -> int:
    """Return how many columns of a terminal a text takes, to place a caret below it."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def install_command(extra: str) -> str:
    """Return the command that installs an extra's packages, however matchset was installed."""
    marked = [requirement.partition(";") for requirement in requires("matchset") or ()]
    needed = [name.strip() for name, _, marker in marked if extra in shlex.split(marker)]
    return f"pip install {shlex.join(needed or [f'matchset[{extra}]'])}"


def not_fitted(message: str) -> Exception:
    """Return a NotFittedError: scikit-learn's where it is installed, else a ValueError."""
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return ValueError(message)
    error: Exception = NotFittedError(message)  # a ValueError too
    return error
