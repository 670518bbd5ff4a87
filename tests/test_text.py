"""Normalization: the same query however it is typed."""

import unicodedata

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st

from matchset.strings import Strings
from matchset.text import UNICODE_VERSION, clean_markup, normalize, normalize_strings

any_text = st.text(st.characters(), max_size=40)
# Dense in what the rules treat apart, so that neighbors meet.
tricky_text = st.text(
    st.sampled_from("aB0159 .,/#+%'\"`-&½²™®°×″’“”😀👍🏽\u200d\ufe0fé\u0301ß한İΣ"), max_size=16
)
markup = st.lists(
    st.sampled_from(
        ["<", ">", "/", "&", ";", "#", "x", "amp", "lt", "gt", "nbsp", "eacute", "b", "38", "0",
         " ", "&amp;", "&lt;", "<br/>", "é", "thetasym", "99999999999", "D800", "\ud800"]
    ),
    max_size=14,
).map("".join)  # fmt: skip

same_unicode = pytest.mark.skipif(
    unicodedata.unidata_version != UNICODE_VERSION,
    reason=f"the oracle needs Python's Unicode {UNICODE_VERSION}",
)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("Red  SHOES", "red shoes"),
        ("tab\tnew\nline\x00nul\u3000wide", "tab new line nul wide"),
        ("T-Shirt", "t shirt"),
        ("#6 screw", "#6 screw"),
        ("1/2 in", "1/2 in"),
        ("2½ inch", "2 1/2 inch"),
        ("C++ c# a+ and/or", "c++ c# a+ and or"),
        ("3.5mm .5 no.6 end.", "3.5mm .5 no 6 end"),
        ('24"x36" rug, 6\' ladder', "24x36 rug 6 ladder"),
        ('5\'10" rug 8’6 4"5', "5 10 rug 8 6 4 5"),
        ("24″×36″", "24x36"),
        ("1,000 piece, 1,2", "1000 piece 1 2"),
        ("100% cotton % off", "100% cotton off"),
        ("Men’s LEGO™ dyson® 45°", "mens lego dyson 45"),
        ("ＩＰｈｏｎｅ ﬁlter m²", "iphone filter m2"),
        ("Steves &amp; Sons <b>Door</b>", "steves sons door"),
        ("&amp;lt;b&amp;gt;caf&eacute;&amp;nbsp;bar&#39;s&#x2f;x", "café bars x"),
        ("AT&T <3 a<b 1 < 2 &unknown; &#0; &", "at t 3 a b 1 2 unknown #0"),
        ("Straße ΣΑΣ ÉCOLE e\u0301", "strasse σασ école é"),
        ("I❤️NY 👍🏽", "i ❤ ny 👍"),
        ("👨\u200d👩\u200d👧 gift", "👨👩👧 gift"),
        ("נעלי ריצה", "נעלי ריצה"),
        ("赤い靴", "赤い靴"),
        ("\ud800 a\udfffb", "a b"),
        ("men\u00b4s men\u1ffds", "mens mens"),  # two signs for one accent
        ("a'\u0301", "á"),  # a mark that a dropped apostrophe kept from its letter
        ("", ""),
        (" \u200b!?\u00ad ", ""),
    ],
)
def test_known_texts(raw, expected):
    assert normalize(raw) == expected


@same_unicode
@given(st.one_of(any_text, tricky_text, markup))
def test_native_equals_the_plain_python_twin(raw):
    assert normalize(raw) == oracles.normalize(raw)


@same_unicode
def test_every_code_point_alone_and_between_letters_equals_the_twin():
    raws = [f"a{chr(c)}1" for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    got = normalize_strings(Strings.of(raws))
    assert [
        raw for raw, text in zip(raws, got, strict=True) if text != oracles.normalize(raw)
    ] == []


@given(st.one_of(any_text, tricky_text, markup))
def test_normalising_twice_changes_nothing(raw):
    once = normalize(raw)
    assert normalize(once) == once
    assert once == " ".join(once.split())


@given(tricky_text.filter(bool), st.integers(0, 9))
def test_a_cut_leaves_nothing_that_a_second_pass_would_change(raw, shift):
    long = "a" * shift + raw * (5000 // len(raw))
    once = normalize(long)
    assert once == oracles.normalize(long) or unicodedata.unidata_version != UNICODE_VERSION
    assert normalize(once) == once


@given(st.lists(tricky_text, max_size=20), st.integers(1, 7))
def test_threads_change_nothing(raws, threads):
    texts = Strings.of(raws * 900)
    assert normalize_strings(texts, threads=threads) == normalize_strings(texts, threads=1)


@given(st.binary(max_size=40))
def test_any_bytes_are_safe(raw):
    texts = Strings(np.frombuffer(raw, dtype=np.uint8), np.array([0, len(raw)]))
    assert normalize_strings(texts)[0] == normalize(texts[0])


@pytest.mark.parametrize(
    "raw", ["a" * 1_000_000, "é" * 1_000_000, "\ufdfa" * 5000, "+" * 9999, "½" * 9999, "ß" * 4096]
)
def test_long_texts_are_cut_at_the_stated_limits(raw):
    once = normalize(raw)
    assert once == oracles.normalize(raw)
    assert len(once) <= oracles.MAX_CHARS
    assert normalize(once) == once


def test_threads_must_be_positive():
    with pytest.raises(ValueError, match="threads must be from 1 to 4096; got 0"):
        normalize_strings(Strings.of([]), threads=0)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("Steves &amp; Sons", "Steves & Sons"),
        ("<p>Red</p>  <i class='x'>door</i>", "Red door"),
        ("3/4&quot; x 2&#39;", "3/4\" x 2'"),
        ("&amp;amp; &lt;br&gt;x&nbsp;y", "& x y"),
        ("AT&T < IBM", "AT&T < IBM"),
        ("a  b", "a  b"),  # nothing to clean: not touched
        ("&#xD800; &#1114112; &nosuch; <>", "&#xD800; &#1114112; &nosuch; <>"),
        ("", ""),
    ],
)
def test_markup_is_cleaned_for_people_too(raw, shown):
    assert list(clean_markup(Strings.of([raw, "plain"]))) == [shown, "plain"]


@given(markup)
def test_cleaning_does_not_change_what_a_text_normalizes_to(raw):
    cleaned = clean_markup(Strings.of([raw]))[0]
    assert normalize(cleaned) == normalize(raw) or "&" in oracles.clean_markup(raw)


def test_a_megabyte_of_markup_is_cleaned_in_time():
    for piece in ("<a", "&amp;", "&amp;lt;", "<a>", "&#", "é&lt;"):
        assert len(normalize(piece * 200_000)) <= 4096
        assert len(clean_markup(Strings.of([piece * 200_000]))) == 1
