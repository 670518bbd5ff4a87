"""Each of the examples runs, and is an answer that README points to."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_answers_its_question(file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(file), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_readme_lists_every_example():
    readme = (ROOT / "README.md").read_text()
    assert [file.name for file in EXAMPLES if f"(examples/{file.name})" not in readme] == []
