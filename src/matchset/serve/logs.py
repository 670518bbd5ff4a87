"""Logs: what happened, in lines for machines or for people?

A line never holds a key, nor a query unless that was asked for.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Any

import orjson

from matchset.serve.settings import LogFormat

_FLUSH_SECONDS = 0.05
_FLUSH_LINES = 512
_STDERR = 2


def is_pretty(form: LogFormat) -> bool:
    """Whether lines are for a person."""
    return form == "pretty" or (form == "auto" and sys.stderr.isatty())


def write_line(level: str, event: str, fields: dict[str, Any], *, pretty: bool) -> bytes:
    """One line of a log."""
    now = datetime.now(UTC)
    if not pretty:
        time = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return orjson.dumps({"time": time, "level": level, "event": event, **fields}) + b"\n"
    shown = " ".join(f"{name}={_one_line(value)}" for name, value in fields.items())
    line = f"{now:%H:%M:%S} {level:<7} {_one_line(event)} {shown}".rstrip()
    return line.encode("utf-8", "replace") + b"\n"


class LineFormatter(logging.Formatter):
    """Records of `logging` as lines of ours; fields come with `extra={"fields": {...}}`."""

    def __init__(self, *, pretty: bool) -> None:
        super().__init__()
        self._pretty = pretty

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        fields = dict(getattr(record, "fields", {}))
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        line = write_line(
            record.levelname.lower(), record.getMessage(), fields, pretty=self._pretty
        )
        return line.decode().rstrip("\n")


def log_settings(form: LogFormat) -> dict[str, Any]:
    """Settings of `logging.config`: everything goes to standard error, in our lines."""
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
        "formatters": {"lines": {"()": LineFormatter, "pretty": is_pretty(form)}},
        "handlers": handlers,
        "root": {"handlers": ["lines"], "level": "WARNING"},
        "loggers": {
            "matchset.serve": {"handlers": ["lines"], "level": "INFO", "propagate": False},
            "_granian": quiet,
            "granian.access": quiet,
        },
    }


class AccessLog:
    """A line per request. Lines are written together, twenty times a second."""

    def __init__(self, form: LogFormat) -> None:
        self._pretty = is_pretty(form)
        self._lines: list[bytes] = []

    def add(self, fields: dict[str, Any]) -> None:
        """Note a request."""
        if not self._lines:
            asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self.flush)
        self._lines.append(write_line("info", "request", fields, pretty=self._pretty))
        if len(self._lines) >= _FLUSH_LINES:
            self.flush()

    def flush(self) -> None:
        """Write what is noted."""
        if self._lines:
            data = b"".join(self._lines)
            self._lines.clear()
            try:
                os.write(_STDERR, data)
            except OSError:  # nobody reads; answering goes on
                return


def _one_line(value: object) -> str:
    return "".join(char if char.isprintable() else " " for char in str(value))
