"""Spill: where is what does not fit into memory, and who removes it?"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex


@contextmanager
def spill_folder() -> Iterator[Path]:
    """Make a temporary folder that only this user can read, and remove it at the end.

    What is spilled are queries. So nothing may come between making the folder and removing it:
    Ctrl-C inside of `tempfile.TemporaryDirectory` would leave one.
    """
    folder = Path(tempfile.gettempdir()) / f"{_prefix()}{token_hex(8)}"
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_spilled() -> None:
    """Remove the temporary folders of this process, which ends without unwinding."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_prefix()}*"):
        shutil.rmtree(folder, ignore_errors=True)


def _prefix() -> str:
    return f"matchset-spill-{os.getpid()}-"
