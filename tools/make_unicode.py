"""Write native/unicode_tables.inc: what NFKC and case folding do to each code point, and its kind.

Run it with the Python whose Unicode version matchset should pin (`python tools/make_unicode.py`).
Normalized queries are stored in models, so the tables are committed, not made at build time.
"""

import sys
import unicodedata
from collections.abc import Iterable
from pathlib import Path

OUT = Path(__file__).parent.parent / "native" / "unicode_tables.inc"
HANGUL = range(0xAC00, 0xD7A4)  # composed and decomposed by arithmetic
SURROGATES = range(0xD800, 0xE000)
EVERY = [c for c in range(0x80, sys.maxunicode + 1) if c not in SURROGATES]

# Kinds of code points, as native/text.cpp reads them; ASCII is defined there.
SPLIT, WORD, SYMBOL, DROP = range(4)
LEGAL_MARKS = (
    "\u00a9\u00ae\u00b0\u2117\ufffd"  # copyright, registered, degree, recording, unreadable
)
SKIN_TONES = range(0x1F3FB, 0x1F400)
VARIATION_SELECTORS = {*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}
APOSTROPHES = {0x2018, 0x2019, 0x201B, 0x02BC, 0x2032, 0x2035}


def kind_of(code: int) -> int:
    """Letters, marks and numbers make words; emoji stand alone; invisible characters vanish."""
    category = unicodedata.category(chr(code))
    if code in VARIATION_SELECTORS or code in SKIN_TONES or code in APOSTROPHES:
        return DROP
    if category in ("Cf", "Me"):
        return DROP
    if category == "So":
        return SPLIT if chr(code) in LEGAL_MARKS else SYMBOL
    # Unassigned code points may be the letters of a later Unicode version.
    return WORD if category[0] in "LMN" or category == "Cn" else SPLIT


def write_mapping(name: str, mapping: dict[int, str]) -> Iterable[str]:
    """A sorted table of code points, where each one's replacement starts, and all replacements."""
    pool = [ord(char) for text in mapping.values() for char in text]
    starts = [0]
    for text in mapping.values():
        starts.append(starts[-1] + len(text))
    yield from write_array("char32_t", f"k{name}From", mapping)
    yield from write_array("std::uint16_t", f"k{name}Start", starts)
    yield from write_array("char32_t", f"k{name}To", pool)


def write_array(of: str, name: str, values: Iterable[int]) -> Iterable[str]:
    """One constexpr array, twenty values a line."""
    values = list(values)
    yield f"inline constexpr {of} {name}[] = {{"
    for at in range(0, len(values), 20):
        yield ",".join(format(value, "#x") for value in values[at : at + 20]) + ","
    yield "};"


def decompositions() -> dict[int, str]:
    """Full compatibility decomposition of every code point that has one, except Hangul."""
    pairs = ((c, unicodedata.normalize("NFKD", chr(c))) for c in EVERY if c not in HANGUL)
    return {code: text for code, text in pairs if text != chr(code)}


def compositions() -> dict[int, str]:
    """Primary composites: code point and the pair that it is composed of, Hangul left out."""
    found = {}
    for code in EVERY:
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) != 2 or parts[0].startswith("<") or code in HANGUL:
            continue
        pair = "".join(chr(int(part, 16)) for part in parts)
        if unicodedata.normalize("NFC", pair) == chr(code):
            found[code] = pair
    return dict(sorted(found.items(), key=lambda item: item[1]))


def ranges(values: dict[int, int]) -> tuple[list[int], list[int]]:
    """Starts of runs of equal values over `EVERY`, and each run's value; 0 if there is none."""
    starts: list[int] = []
    kinds: list[int] = []
    for code in range(0x80, sys.maxunicode + 1):
        value = values.get(code, 0)
        if not kinds or kinds[-1] != value:
            starts.append(code)
            kinds.append(value)
    return starts, kinds


def main() -> None:
    """Write every table."""
    lines = [
        f"// Unicode {unicodedata.unidata_version}, by tools/make_unicode.py; do not edit.",
        f'inline constexpr char kUnicodeVersion[] = "{unicodedata.unidata_version}";',
    ]
    lines += write_mapping("Decompose", decompositions())
    folded = {c: chr(c).casefold() for c in EVERY if chr(c).casefold() != chr(c)}
    lines += write_mapping("Fold", folded)
    composed = compositions()
    for place, name in enumerate(("kComposeFirst", "kComposeSecond")):
        lines += write_array("char32_t", name, (ord(pair[place]) for pair in composed.values()))
    lines += write_array("char32_t", "kComposeTo", composed)
    starts, classes = ranges({c: unicodedata.combining(chr(c)) for c in EVERY})
    lines += write_array("char32_t", "kCombiningStart", starts)
    lines += write_array("std::uint8_t", "kCombiningClass", classes)
    starts, kinds = ranges({c: kind_of(c) for c in EVERY})
    lines += write_array("char32_t", "kKindStart", starts)
    lines += write_array("std::uint8_t", "kKind", kinds)
    OUT.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
