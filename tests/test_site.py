"""The checker of the documentation site finds what is wrong with a site."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))
from check_site import find_faults, public_names

GOOD = '<a href="b.html#there">b</a><img src="x.png"><h2 id="matchset.train">train</h2>'


@pytest.fixture
def site(tmp_path):
    (tmp_path / "index.html").write_text(GOOD)
    (tmp_path / "b.html").write_text('<p id="there"><a href="/index.html">home</a></p>')
    (tmp_path / "x.png").touch()
    return tmp_path


def test_a_sound_site_has_no_faults(site):
    assert find_faults(site, ["train"]) == []


def test_a_public_name_that_is_not_in_the_reference_is_a_fault(site):
    assert find_faults(site, ["load"]) == ["load is public, and not in the reference"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('<a href="c.html">c</a>', "has a broken link, c.html"),
        ('<a href="b.html#nowhere">b</a>', "has a broken link, b.html#nowhere"),
        ('<a href="#nowhere">b</a>', "has a broken link, #nowhere"),
        ('<img src="y.png">', "has a broken link, y.png"),
        ('<script src="https://cdn.example/x.js"></script>', "loads https://cdn.example/x.js"),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', "loads //cdn.example/x.css"),
        ('<a href="javascript:x">b</a>', "has a link of an unknown kind, javascript:x"),
    ],
)
def test_a_broken_link_or_a_load_from_elsewhere_is_a_fault(site, text, fault):
    (site / "bad.html").write_text(text)
    assert find_faults(site, []) == [f"bad.html: {fault}"]


def test_a_style_sheet_that_loads_from_elsewhere_is_a_fault(site):
    (site / "a.css").write_text("@import 'https://fonts.example/a'; p { background: url(x.png) }")
    assert find_faults(site, []) == ["a.css: loads https://fonts.example/a"]


def test_a_link_to_another_site_is_no_fault(site):
    (site / "out.html").write_text('<a href="https://example.org/">out</a>')
    assert find_faults(site, []) == []


def test_public_names_are_read_without_an_import(tmp_path):
    file = tmp_path / "__init__.py"
    file.write_text("import not_there\nif x:\n from m.n import b as b\n from m import a as a\n")
    assert public_names(file) == ["b", "a"]
