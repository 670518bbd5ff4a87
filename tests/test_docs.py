"""The guides do what they say: their commands run, in order, in one folder each."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from serving import find_port

BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
BLOCKS = {
    guide.stem: BLOCK.findall(guide.read_text())
    for guide in sorted((Path(__file__).parent.parent / "docs").glob("*.md"))
}
IN_SHELL = [stem for stem, blocks in BLOCKS.items() if "sh" in dict(blocks)]
IN_PYTHON = [stem for stem, blocks in BLOCKS.items() if blocks and stem not in IN_SHELL]
# One shell for all of a guide: what it leaves running, such as a server, ends with it.
PREAMBLE = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null && wait || true' EXIT\n"
PORT = "8080"  # in the guides


def script_of(blocks):
    """The commands of a guide, its Python among them, with a port that is free and a small shop."""
    commands = [
        block if language == "sh" else f"python - <<'PYTHON'\n{block}PYTHON\n"
        for language, block in blocks
    ]
    script = "".join(commands).replace(PORT, str(find_port()))
    return PREAMBLE + re.sub(r"--products \d+", "--products 200", script)


@pytest.mark.parametrize("guide", IN_PYTHON)
def test_a_guide_in_python_runs(guide, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _, block in BLOCKS[guide]:
        exec(compile(block, guide, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("guide", IN_SHELL)
def test_a_guide_runs(guide, tmp_path):
    ours = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", script_of(BLOCKS[guide])],
        cwd=tmp_path,
        env={**os.environ, "PATH": ours},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
