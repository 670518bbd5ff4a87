"""Text: which texts are the same?"""

from __future__ import annotations

from matchset.strings import Strings


def normalize_strings(texts: Strings) -> Strings:
    """Lower case, white space collapsed: stands in for the native normaliser."""
    return Strings.of([" ".join(text.lower().split()) for text in texts])
