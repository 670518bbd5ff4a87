"""Data flows one way: a room imports from itself and from the rooms above it."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import matchset

ROOMS = [
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
    ["baselines"],
    ["cli"],
    ["online"],
    ["client"],
    ["serve"],
    ["lab"],
    ["__main__"],
]
LEVEL = {room: level for level, rooms in enumerate(ROOMS) for room in rooms}
PACKAGE = Path(matchset.__file__).parent
# The public face imports every room.
FILES = sorted(set(PACKAGE.rglob("*.py")) - {PACKAGE / "__init__.py"})


def imported_rooms(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "matchset":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("matchset."):
            yield node.module.split(".")[1]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_a_room_imports_only_from_rooms_above(file):
    room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    allowed = {name for name, level in LEVEL.items() if level < LEVEL[room]} | {room}
    assert set(imported_rooms(file)) <= allowed


def test_no_two_files_share_a_name():
    stems = Counter(file.stem for file in FILES)
    assert [stem for stem, n in stems.items() if n > 1 and stem != "__init__"] == []
