"""API keys: which keys are in a file?"""

from __future__ import annotations

import re
from pathlib import Path

_MIN_CHARACTERS = 16
_KEY = re.compile(rf"[!-~]{{{_MIN_CHARACTERS},}}")


def read_key_lines(file: Path) -> list[str]:
    """Return the keys of a file: one per line, at least one, with comments after a #."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ValueError(f"{file}: API keys cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{file}: API keys must be UTF-8") from None
    keys = [line for line in map(str.strip, lines) if line and not line.startswith("#")]
    if not keys:
        raise ValueError(f"{file}: must have at least one API key; got none")
    if not all(map(_KEY.fullmatch, keys)):
        rule = f"an API key must be {_MIN_CHARACTERS} or more ASCII characters without spaces"
        raise ValueError(f"{file}: {rule}; got one that is not")
    return keys
