"""The examples of the documents run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md"]  # guides: see test_docs.py


def examples():
    for document in DOCUMENTS:
        blocks = re.findall(r"```python\n(.*?)```", document.read_text(), flags=re.DOTALL)
        for number, block in enumerate(blocks, start=1):
            yield pytest.param(block, id=f"{document.name}-{number}")


@pytest.mark.parametrize("block", list(examples()))
def test_an_example_runs(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "example", "exec"), {"__name__": "__main__"})
