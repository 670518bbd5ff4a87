"""Access log: what happened, as lines for programs or for people?

A line never contains a key, and contains queries only with `--log-queries`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from select import PIPE_BUF
from typing import Any

import msgspec

_FLUSH_SECONDS = 0.05
_FLUSH_LINES = 512
_STDERR = 2


def write_line(level: str, event: str, fields: dict[str, Any], *, pretty: bool) -> bytes:
    """Return one line of a log."""
    now = datetime.now(UTC)
    if not pretty:
        time = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return msgspec.json.encode({"time": time, "level": level, "event": event, **fields}) + b"\n"
    shown = " ".join(f"{name}={_one_line(value)}" for name, value in fields.items())
    line = f"{now:%H:%M:%S} {level:<7} {_one_line(event)} {shown}".rstrip()
    return line.encode("utf-8", "replace") + b"\n"


class LineFormatter(logging.Formatter):
    """Records of `logging` in our format; fields come with `extra={"fields": {...}}`."""

    def __init__(self, *, pretty: bool) -> None:
        super().__init__()
        self._pretty = pretty

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        fields = dict(getattr(record, "fields", {}))
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        line = write_line(
            record.levelname.lower(), record.getMessage(), fields, pretty=self._pretty
        )
        return line.decode().rstrip("\n")


def log_settings() -> dict[str, Any]:
    """Return settings of `logging.config`: everything goes to standard error, in our format."""
    handlers = {
        "lines": {
            "class": "logging.StreamHandler",
            "formatter": "lines",
            "stream": "ext://sys.stderr",
        }
    }
    quiet = {"handlers": ["lines"], "level": "WARNING", "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": LineFormatter, "pretty": sys.stderr.isatty()}},
        "handlers": handlers,
        "root": {"handlers": ["lines"], "level": "WARNING"},
        "loggers": {
            "matchset.serve": {"handlers": ["lines"], "level": "INFO", "propagate": False},
            "_granian": quiet,
            "granian.access": quiet,
            # Hints about filters repeat what callers sent.
            "matchset.filters": {**quiet, "level": "ERROR"},
        },
    }


class AccessLog:
    """A line per request; lines are written in groups, twenty times a second."""

    def __init__(self) -> None:
        self._pretty = sys.stderr.isatty()
        self._lines: list[bytes] = []

    def add(self, fields: dict[str, Any]) -> None:
        """Add a request."""
        if not self._lines:
            asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self.flush)
        self._lines.append(write_line("info", "request", fields, pretty=self._pretty))
        if len(self._lines) >= _FLUSH_LINES:
            self.flush()

    def flush(self) -> None:
        """Write the lines that were added."""
        lines, self._lines = self._lines, []
        for data in pack(lines):
            try:
                os.write(_STDERR, data)
            except OSError:  # no reader; the server goes on
                return


def pack(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join lines into as few writes as a pipe keeps intact: all workers write to the same one."""
    parts: list[bytes] = []
    size = 0
    for line in lines:
        if parts and size + len(line) > PIPE_BUF:
            yield b"".join(parts)
            parts, size = [], 0
        parts.append(line)
        size += len(line)
    if parts:
        yield b"".join(parts)


def format_exception(error: BaseException, *, has_messages: bool) -> str:
    """Return where an exception came from; its message may repeat a query, and can be left out."""
    texts: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        is_shown = has_messages or isinstance(cause, OSError | MemoryError)
        message = f": {cause}" if is_shown else ""
        frames = "".join(traceback.format_tb(cause.__traceback__))
        texts.append(f"{frames}{type(cause).__name__}{message}")
        cause = cause.__cause__ or cause.__context__
    return "\ncaused by\n".join(texts)


def _one_line(value: object) -> str:
    return "".join(char if char.isprintable() else " " for char in str(value))
