"""Virtual environments of the peers: each side runs with what it wants, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# PECOS without torch and transformers, which XR-Linear does not use (6 GB).
PEERS = {
    "pecos": (["--no-deps", "libpecos==1.2.8"], ["numpy<2", "scipy<1.14", "scikit-learn"]),
    "sklearn": (["scikit-learn>=1.5"],),
    "napkinxc": (["napkinxc==0.7.2"],),
    "schemathesis": (["schemathesis>=4"],),
    "omikuji": (["omikuji==0.5.2"], ["numpy", "scipy"]),  # it takes lists; the benchmark arrays
}


class SideError(RuntimeError):
    """A side cannot be installed, or failed; the message is what it said last."""


def peer_python(peer: str, folder: Path = Path("build/peers")) -> Path:
    """The Python of a peer's environment, which is made on first use."""
    python = folder / peer / "bin" / "python"
    ready = folder / peer / "ready"
    if not ready.exists():
        print(f"making an environment for {peer} under {folder / peer}", file=sys.stderr)
        run([sys.executable, "-m", "venv", "--clear", folder / peer])
        for packages in PEERS[peer]:
            run([python, "-m", "pip", "install", "--quiet", *packages])
        ready.touch()
    return python


def run_side(python: Path, script: str, *arguments: object) -> dict[str, Any]:
    """What a script of this folder prints last, as JSON, run in a process of its own."""
    return json.loads(run([python, HERE / script, *arguments]).splitlines()[-1])


def run(command: list[object]) -> str:
    """The output of a command; a SideError if it fails."""
    done = subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True)
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise SideError(said[-1] if said else f"exit code {done.returncode}, without a word")
    return done.stdout
