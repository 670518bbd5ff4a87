"""Print what the package needs at run time, one per line: print_dependencies.py [EXTRA ...]."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
wanted = [*project["dependencies"]]
for extra in sys.argv[1:]:
    wanted += project["optional-dependencies"][extra]
print("\n".join(requirement.replace(" ", "") for requirement in wanted))
