"""The guides do what they say: their commands run, in order, in one folder each."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDES = sorted((Path(__file__).parent.parent / "docs").glob("*.md"))
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
COMMANDS = {"sh": ("bash", "-euo", "pipefail", "-c"), "python": (sys.executable, "-c")}


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_a_guide_runs(guide, tmp_path):
    ours = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for language, block in BLOCK.findall(guide.read_text()):
        done = subprocess.run(
            [*COMMANDS[language], block],
            cwd=tmp_path,
            env={**os.environ, "PATH": ours},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
