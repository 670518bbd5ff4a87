"""Print what the package needs, one per line: print_dependencies.py [--lowest] [EXTRA|GROUP ...].

With --lowest, the lowest version of each that pyproject.toml allows.
"""

import re
import sys
import tomllib
from pathlib import Path

stated = tomllib.loads(Path("pyproject.toml").read_text())
project = stated["project"]
known = {**project["optional-dependencies"], **stated["dependency-groups"]}
names = [name for name in sys.argv[1:] if name != "--lowest"]
wanted = [*project["dependencies"], *(one for name in names for one in known[name])]
if "--lowest" in sys.argv:
    wanted = [re.sub(r">=([^,]+).*", r"==\1", one) for one in wanted]
print("\n".join(requirement.replace(" ", "") for requirement in wanted))
