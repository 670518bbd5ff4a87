"""Text: when are two queries the same?

Every query, and every title that is used as text, is normalized like this:

0. HTML tags become spaces, entities the characters that they stand for: "A &amp; B<br/>" is
   "A & B". Of a text with markup, only the first 16,384 bytes count.
1. NFKC and case folding: "ＩＰｈｏｎｅ" is "iphone", "ﬁlter" is "filter", "m²" is "m2".
2. Apostrophes, invisible characters, variation selectors and skin tones are removed: "men's" is
   "mens".
   So does an inch mark after a digit: '24"x36"' is "24x36"; but between two digits a foot or inch
   mark separates: "5'10" is "5 10".
3. Punctuation separates words ("t-shirt" is "t shirt", "black/white" is "black white"), except
   where it carries meaning:
   - "." and "/" between digits, and "." before a digit that starts a word: "3.5mm", "1/2", ".5";
   - "#" before a number or at the end of a word: "#6", "c#"; "+" at the end of a word: "c++";
   - "%" after a digit: "100%";
   - "," between a digit and exactly three digits is dropped: "1,000" is "1000".
4. Emoji and other pictures are words of their own; (R), (C), TM and degree signs are removed.
5. White space and control characters of any kind separate words; a single space remains.

Only the first 4,096 characters of a text count, and the first 4,096 of its normal form. Normalizing
twice changes nothing. The Unicode version is pinned and does not depend on that of Python.
"""

from __future__ import annotations

import numpy as np

from matchset import _native
from matchset.config import count_threads
from matchset.strings import Strings

UNICODE_VERSION = _native.unicode_version()


def normalize(text: str) -> str:
    """Return the normalized form of one text.

    >>> normalize("  Men's T-Shirt, 100% Cotton ")
    'mens t shirt 100% cotton'
    """
    return normalize_strings(Strings.of([text], "text"), threads=1)[0]


def normalize_strings(texts: Strings, *, threads: int | None = None) -> Strings:
    """Return the normalized form of each text, in the same order."""
    return Strings(*_native.normalize(texts.data, texts.offsets, count_threads(threads)))


def clean_markup(texts: Strings) -> Strings:
    """Return texts without HTML tags, entities decoded; texts without markup stay as they are.

    >>> list(clean_markup(Strings.of(["Steves &amp; Sons <b>door</b>", "AT&T < IBM"])))
    ['Steves & Sons door', 'AT&T < IBM']
    """
    if not np.isin(texts.used, (ord("&"), ord("<"))).any():
        return texts
    return Strings(*_native.clean_markup(texts.data, texts.offsets))
