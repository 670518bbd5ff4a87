"""Write src/matchset/_native.pyi from the installed native module, or check that it is current."""

import subprocess
import sys
import tempfile
from pathlib import Path

STUB = Path("src/matchset/_native.pyi")


def make_stub(out: Path) -> None:
    """Generate the stub, formatted as the rest of the code."""
    subprocess.run(
        [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "matchset._native", "-o", str(out)],
        check=True,
    )
    ruff = [
        str(Path(sys.executable).with_name("ruff")),
        "format",
        "--quiet",
        "--config",
        "pyproject.toml",
    ]
    subprocess.run([*ruff, str(out)], check=True)


def main() -> int:
    """Write the stub; with --check, report whether the committed one is current."""
    if "--check" not in sys.argv:
        make_stub(STUB)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "_native.pyi"
        make_stub(fresh)
        if STUB.exists() and fresh.read_text() == STUB.read_text():
            return 0
    print(f"{STUB} is out of date: run `make stub`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
