"""Virtual environments of the peers: each side runs with what it wants, in a process of its own."""

import subprocess
import sys
from pathlib import Path

# PECOS without torch and transformers, which XR-Linear does not use (6 GB).
PEERS = {
    "pecos": (["--no-deps", "libpecos==1.2.8"], ["numpy<2", "scipy<1.14", "scikit-learn"]),
    "sklearn": (["scikit-learn>=1.5"],),
}


def peer_python(peer: str, folder: Path = Path("build/peers")) -> Path:
    """The Python of a peer's environment, which is made on first use."""
    python = folder / peer / "bin" / "python"
    ready = folder / peer / "ready"
    if not ready.exists():
        print(f"making an environment for {peer} under {folder / peer}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder / peer], check=True)
        for packages in PEERS[peer]:
            subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        ready.touch()
    return python
