"""A file is replaced whole or not at all."""

import pytest

from matchset.storage.atomic import atomic_file


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "page.html"
    with atomic_file(path) as staged:
        staged.write_text("one")
        assert not path.exists()
    with path.open() as before:
        with atomic_file(path) as staged:
            staged.write_text("two")
        assert before.read() == "one"  # what was opened stays
    with path.open() as before:
        with pytest.raises(KeyboardInterrupt), atomic_file(path) as staged:  # noqa: PT012
            staged.write_text("half")
            raise KeyboardInterrupt
        assert before.read() == path.read_text() == "two"
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]
