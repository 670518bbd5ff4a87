"""Data flows one way: a room imports from itself and from the rooms above it."""

import ast
import subprocess
import sys
from collections import Counter, defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import matchset

CORE = [
    ["_native"],
    ["errors", "config", "lazy"],
    ["memory"],
    ["matrices"],
    ["strings"],
    ["text"],
    ["storage"],
    ["data"],
    ["features", "filters"],
    ["model"],
    ["work"],
    ["learn"],
    ["matchers"],
    ["evaluate"],
    ["baselines", "example_shop"],
    ["cli"],
]
ROOMS = [*CORE, ["online"], ["client"], ["serve"], ["lab"], ["__main__"]]
LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}
PACKAGE = Path(matchset.__file__).parent
# The public face offers names of every room, and imports none before it is used.
FILES = sorted(set(PACKAGE.rglob("*.py")) - {PACKAGE / "__init__.py"})
MOST_NAMES, MOST_MODULES = 25, 100


def imported_modules(file):
    """Names of the modules that a file imports from, as parts below the package."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "matchset":
            yield from ((alias.name,) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("matchset."):
            yield tuple(node.module.split(".")[1:])
        elif isinstance(node, ast.Import):
            ours = (alias.name for alias in node.names if alias.name.split(".")[0] == "matchset")
            yield from (tuple(name.split(".")[1:]) for name in ours)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_room_imports_only_from_rooms_above(file):
    room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    allowed = {name for name, level in LEVEL.items() if level < LEVEL[room]} | {room}
    assert {module[0] for module in imported_modules(file)} <= allowed


def folder_of(path):
    """The folder of a module within its room, or the room itself."""
    return path[:2] if len(path) > 1 and PACKAGE.joinpath(*path[:2]).is_dir() else path[:1]


@pytest.mark.parametrize("room", ["lab", "serve"])
def test_folders_of_a_room_do_not_import_each_other_in_a_circle(room):
    needs = defaultdict(set)
    for file in (PACKAGE / room).rglob("*.py"):
        here = folder_of(file.relative_to(PACKAGE).parts)
        theirs = {folder_of(module) for module in imported_modules(file) if module[0] == room}
        needs[here] |= theirs - {here}
    TopologicalSorter(needs).prepare()  # or it is a CycleError


def test_no_two_files_share_a_name():
    stems = Counter(file.stem for file in FILES)
    assert [stem for stem, n in stems.items() if n > 1 and stem != "__init__"] == []


def test_the_public_face_is_small():
    assert len(matchset.__all__) <= MOST_NAMES
    assert all(getattr(matchset, name) is not None for name in matchset.__all__)


@pytest.mark.parametrize("package", ["", "lab", "online"])
def test_type_checkers_know_the_names_that_are_offered(package):
    tree = ast.parse((PACKAGE / package / "__init__.py").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    typed = {(node.module, each.name) for node in imports for each in node.names if each.asname}
    module = sys.modules["matchset"] if package == "" else getattr(matchset, package)
    assert typed == {(home, name) for home, names in module.HOMES.items() for name in names}


@pytest.mark.parametrize("code", ["import matchset", "import matchset; matchset.load"])
def test_what_is_not_used_is_not_imported(code):
    count = "import sys; print(*(name for name in sys.modules if name.startswith('matchset')))"
    run = subprocess.run(
        [sys.executable, "-c", f"{code}; {count}"], capture_output=True, text=True, check=True
    )
    loaded = run.stdout.split()
    assert len(loaded) <= MOST_MODULES
    core = {room for rooms in CORE for room in rooms}
    assert {name.split(".")[1] for name in loaded if "." in name} <= core
