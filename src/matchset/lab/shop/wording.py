"""Spelling: how do titles write words, and what is the plural of a name?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from matchset.matrices import offsets_of
from matchset.strings import Strings

_UNITS = frozenset({"in.", "ft", "lb"})
_SMALL_WORDS = _UNITS | {
    "a", "and", "by", "for", "in", "of", "on", "or", "that", "the", "to", "with", "without", "x",
}  # fmt: skip
_CAPITALS = frozenset({
    "12v", "16gb", "32gb", "3d", "3x", "4gb", "4k", "4wd", "8gb", "8k", "aa", "aaa", "ac",
    "afci", "agm", "anc", "bbq", "bpa", "btu", "cca", "co", "diy", "dk", "edp", "edt", "eva",
    "fm", "gan", "gfci", "gps", "hb", "hd", "hdd", "hdmi", "hepa", "hss", "lcd", "led", "mdf",
    "mfi", "mips", "mtb", "nbr", "oled", "pc", "pd", "peva", "pex", "pvc", "qled", "ram", "rc",
    "rfid", "rgb", "ro", "rv", "sae", "sd", "sim", "spf", "ssd", "suv", "tf", "tpe", "tpu",
    "tsa", "tv", "uhd", "us", "usb", "uv", "xl", "xx",
})  # fmt: skip
_OWN_SPELLING = {"5ghz": "5GHz", "iphone": "iPhone", "ipad": "iPad"}
_PLURALS = (  # the first ending that fits
    ("knife", "knives"), ("shelf", "shelves"), ("scarf", "scarves"), ("mouse", "mouse"),
    ("ss", "sses"), ("s", "s"), ("x", "xes"), ("ch", "ches"), ("sh", "shes"),
    ("ay", "ays"), ("ey", "eys"), ("oy", "oys"), ("y", "ies"), ("", "s"),
)  # fmt: skip


def headline(text: str) -> str:
    """Write a phrase as titles do.

    >>> headline("usb-c hub for iphone")
    'USB-C Hub for iPhone'
    """
    *words, last = text.split(" ")
    written = [word if word in _SMALL_WORDS else _capitalize(word) for word in words]
    return " ".join([*written, last if last in _UNITS else _capitalize(last)])


def plural(name: str) -> str:
    """Return the plural of a name; one that is plural already stays.

    >>> [plural(name) for name in ("bookshelf", "jeans", "toothbrush", "battery")]
    ['bookshelves', 'jeans', 'toothbrushes', 'batteries']
    """
    ending, replacement = next(pair for pair in _PLURALS if name.endswith(pair[0]))
    return name.removesuffix(ending) + replacement


def _capitalize(word: str) -> str:
    return "-".join(
        part.upper() if part in _CAPITALS else _OWN_SPELLING.get(part, part[:1].upper() + part[1:])
        for part in word.split("-")
    )


_BLOCK = 1 << 20  # rows joined at a time, so that the pieces never take more than a few 100 MB
_SPACE = ord(" ")
N_SLIPS = 7  # kinds of slips
# A letter's neighbor on the keyboard, by byte.
_NEIGHBOR = np.arange(256, dtype=np.uint8)
for _row in ("qwertyuiop", "asdfghjkl", "zxcvbnm"):
    for _letter, _next in zip(_row, _row[1:] + _row[-2], strict=True):
        _NEIGHBOR[ord(_letter)] = ord(_next)
# Another letter of similar sound.
_SOUNDS_LIKE = np.arange(256, dtype=np.uint8)
for _letter, _next in zip("aeiouyckszgjfvmntdbpw", "eaeauiskzsjgvfnmdtpbv", strict=True):
    _SOUNDS_LIKE[ord(_letter)] = ord(_next)


@dataclass(frozen=True, slots=True)
class Lists:
    """Many short lists of codes in one array."""

    items: NDArray[np.int64]
    offsets: NDArray[np.int64]  # (n_lists + 1,)

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> Lists:
        """Pack lists, some of them possibly empty."""
        items = np.array([item for items in lists for item in items], dtype=np.int64)
        return cls(items, offsets_of([len(items) for items in lists]))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Items of each list, (n_lists,)."""
        return np.diff(self.offsets)

    def draw(self, lists: NDArray[np.integer], chance: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return one item of each of some lists: the first item at chance 0, the last towards 1.

        An empty list gives -1.
        """
        lengths = self.lengths[lists]
        at = self.offsets[lists] + np.minimum((chance * lengths).astype(np.int64), lengths - 1)
        if len(self.items) == 0:
            return np.full(len(lists), -1, dtype=np.int64)
        return np.where(lengths > 0, self.items[np.minimum(at, len(self.items) - 1)], -1)


def compact(letters: NDArray[np.uint8]) -> Strings:
    """Return one text per row of bytes, (n, width); zeros are left out."""
    return Strings(letters[letters > 0], offsets_of(np.count_nonzero(letters, axis=1)))


def join_words(words: Strings, codes: NDArray[np.integer]) -> Strings:
    """Join the words of each row of codes, (n, width), with spaces; -1 stands for none."""
    spaced = Strings.concatenate([words, Strings.of([f" {word}" for word in words])])
    blocks = range(0, max(len(codes), 1), _BLOCK)
    parts = [_join(spaced, codes[at : at + _BLOCK], len(words)) for at in blocks]
    return Strings.concatenate(parts)


def _join(spaced: Strings, codes: NDArray[np.integer], n_words: int) -> Strings:
    is_word = codes >= 0
    is_later = np.cumsum(is_word, axis=1) > 1
    pieces = spaced.take((codes + n_words * is_later)[is_word].astype(np.int64))
    ends = offsets_of(np.count_nonzero(is_word, axis=1))
    return Strings(pieces.data, pieces.offsets[ends])


def misspell(texts: Strings, rng: np.random.Generator) -> Strings:
    """Make one slip in each text."""
    n = len(texts)
    kind = rng.integers(0, N_SLIPS, n) if n else np.empty(0, dtype=np.int64)
    return slip(texts, kind, rng.random(n))


def slip(texts: Strings, kind: NDArray[np.int64], chance: NDArray[np.float64]) -> Strings:
    """Make a slip of a kind (0 to 6) in each text, nearer to its end with a larger chance.

    A letter is lost, doubled, swapped, missed or heard as another, or two words are joined, or one
    is split. A slip that does not fit its position (no letter, no space there) leaves the text as
    it was.
    """
    if len(texts) == 0:
        return texts
    data = texts.data.copy()
    copies = np.ones(len(data), dtype=np.int64)
    # Customers see the beginning of a word, so the first letter of the text stays.
    at = texts.offsets[:-1] + 1 + (chance * np.maximum(texts.lengths - 2, 0)).astype(int)
    at = np.minimum(at, len(data) - 2)
    is_letter = _is_letter(data[at]) & _is_letter(data[at + 1]) & (texts.lengths > 4)
    copies[at[is_letter & (kind == 0)]] = 0
    copies[at[is_letter & (kind == 1)]] = 2
    swapped = at[is_letter & (kind == 2)]
    data[swapped], data[swapped + 1] = data[swapped + 1], data[swapped]
    missed = at[is_letter & (kind == 3)]
    data[missed] = _NEIGHBOR[data[missed]]
    heard = at[is_letter & (kind == 4)]
    data[heard] = _SOUNDS_LIKE[data[heard]]
    split = at[is_letter & (kind == 5)]
    copies[split] = 2  # the second becomes a space
    copies[_next_space(texts, at)[kind == 6]] = 0
    copies[-1] = 1  # where there is no next space
    ends = offsets_of(copies)
    data = np.repeat(data, copies)
    data[ends[split] + 1] = _SPACE
    return Strings(data, ends[texts.offsets])


def _next_space(texts: Strings, at: NDArray[np.int64]) -> NDArray[np.int64]:
    """Find the next space in the same text, the last byte of all where there is none."""
    last = len(texts.data) - 1
    spaces = np.append(np.flatnonzero(texts.data == _SPACE), last)
    found = spaces[np.searchsorted(spaces, at)]
    return np.where(found < texts.offsets[1:], found, last)


def _is_letter(data: NDArray[np.uint8]) -> NDArray[np.bool_]:
    return (data >= ord("a")) & (data <= ord("z"))
