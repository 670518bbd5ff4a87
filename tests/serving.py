"""A server in processes of its own, as `matchset serve` starts it."""

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

COMMAND = Path(sys.executable).with_name("matchset")


@contextmanager
def serve(model, *options):
    """The address of a server on a free port, which is stopped afterwards."""
    command = [COMMAND, "serve", model, "--port", "0", *options]
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), process.communicate()[1]
        yield address
    finally:
        process.terminate()
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
