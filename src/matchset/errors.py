"""Errors: what can be wrong with what a user gave us?"""

from __future__ import annotations

import unicodedata

_SHOWN_BEFORE, _SHOWN_AFTER = 50, 30  # characters around the place of an error


class DataError(ValueError):
    """A log or catalogue breaks a rule; the message names file, column and row if there are any."""


class ModelFileError(ValueError):
    """A saved file is missing, damaged, of another kind or too new; the message names the file."""


class FilterError(ValueError):
    """A filter expression breaks a rule; the message points at the place with a caret.

    `rule` is the sentence alone, `place` the number of characters before the fault.
    """

    def __init__(self, rule: str, expression: str, place: int) -> None:
        super().__init__(rule, expression, place)
        self.rule = _one_line(rule)  # it may quote the expression
        self.expression = expression
        self.place = place

    def __str__(self) -> str:
        first = max(0, self.place - _SHOWN_BEFORE)
        last = self.place + _SHOWN_AFTER
        before = ("..." if first else "") + _one_line(self.expression[first : self.place])
        after = _one_line(self.expression[self.place : last])
        dots = "..." if last < len(self.expression) else ""
        return f"{self.rule}\n  {before}{after}{dots}\n  {' ' * _count_cells(before)}^"


class ServerError(ConnectionError):
    """A server cannot be reached, or cannot answer; the message says which and why.

    `status` and `code` are those of its refusal, None where there was none.
    """

    def __init__(self, message: str, *, status: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


def _count_cells(text: str) -> int:
    """Columns that a terminal gives to a text, so that a caret stands below its character."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def not_fitted(message: str) -> Exception:
    """A NotFittedError: scikit-learn's where it is installed, else a ValueError."""
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return ValueError(message)
    error: Exception = NotFittedError(message)  # a ValueError too
    return error
