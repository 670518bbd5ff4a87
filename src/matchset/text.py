"""Text: which queries are the same query?

Every query, and every title where titles are used as text, is normalised like this:

1. NFKC and case folding: "ＩＰｈｏｎｅ" is "iphone", "ﬁlter" is "filter", "m²" is "m2".
2. Apostrophes, invisible characters, variation selectors and skin tones vanish: "men's" is "mens".
   So does an inch mark after a digit: '24"x36"' is "24x36"; but between two digits a foot or inch
   mark separates: "5'10" is "5 10".
3. Punctuation separates words ("t-shirt" is "t shirt", "black/white" is "black white"), except
   where it carries meaning:
   - "." and "/" between digits, and "." before a digit that starts a word: "3.5mm", "1/2", ".5";
   - "#" before a number or at the end of a word: "#6", "c#"; "+" at the end of a word: "c++";
   - "%" after a digit: "100%";
   - "," between a digit and exactly three digits is dropped: "1,000" is "1000".
4. Emoji and other pictures are words of their own; (R), (C), TM and degree signs are not kept.
5. White space and control characters of any kind separate words; one space remains between two.

Only the first 4,096 characters of a text count, and as many of its normal form. Normalising twice
changes nothing. The Unicode version is pinned, whatever Python runs it.
"""

from __future__ import annotations

from matchset import _native
from matchset.config import count_threads
from matchset.strings import Strings

UNICODE_VERSION = _native.unicode_version()


def normalize(text: str) -> str:
    """The normalised form of one text.

    >>> normalize("  Men's T-Shirt, 100% Cotton ")
    'mens t shirt 100% cotton'
    """
    return normalize_strings(Strings.of([text], "text"), threads=1)[0]


def normalize_strings(texts: Strings, *, threads: int | None = None) -> Strings:
    """The normalised form of each text, in the same order."""
    return Strings(*_native.normalize(texts.data, texts.offsets, count_threads(threads)))
