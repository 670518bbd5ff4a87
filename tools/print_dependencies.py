"""Print what the package needs at run time, one requirement per line, from pyproject.toml."""

import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
print("\n".join(requirement.replace(" ", "") for requirement in project["dependencies"]))
