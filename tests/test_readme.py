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


@pytest.mark.parametrize("document", sorted(ROOT.glob("*.md")), ids=lambda document: document.name)
def test_a_link_to_a_file_leads_somewhere(document):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text())
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_every_guide_is_in_the_readme():
    linked = set(re.findall(r"\(docs/([\w-]+\.md)", (ROOT / "README.md").read_text()))
    guides = {guide.name for guide in (ROOT / "docs").glob("*.md")}
    assert linked == guides - {"index.md"}
