"""The guides do what they say: their commands run, in order, in one folder each."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

GUIDES = sorted((Path(__file__).parent.parent / "docs").glob("*.md"))
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
# One shell for all of a guide: what it leaves running, such as a server, ends with it.
PREAMBLE = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null && wait || true' EXIT\n"
PORT = "8080"  # in the guides


def script_of(guide):
    """The commands of a guide, its Python among them, with a port that is free."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = str(listening.getsockname()[1])
    blocks = [
        block if language == "sh" else f"python - <<'PYTHON'\n{block}PYTHON\n"
        for language, block in BLOCK.findall(guide.read_text())
    ]
    return PREAMBLE + "".join(blocks).replace(PORT, port)


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_runs(guide, tmp_path):
    ours = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", script_of(guide)],
        cwd=tmp_path,
        env={**os.environ, "PATH": ours},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
