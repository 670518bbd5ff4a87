"""Spelling: how do titles write words, and what is the plural of a name?"""

from __future__ import annotations

_SMALL_WORDS = frozenset({
    "a", "and", "by", "for", "in", "of", "on", "or", "that", "the", "to", "with", "without", "x",
    "in.", "ft", "lb", "lb.",
})  # fmt: skip
_CAPITALS = frozenset({
    "4k", "4wd", "8k", "aa", "aaa", "ac", "afci", "agm", "anc", "bbq", "bpa", "btu", "cca", "co",
    "diy", "dk", "edp", "edt", "eva", "fm", "gan", "gfci", "gps", "hb", "hd", "hdd", "hdmi", "hepa",
    "hss", "lcd", "led", "mdf", "mfi", "mips", "nbr", "oled", "pc", "pd", "peva", "pex", "pvc",
    "qled", "ram", "rc", "rfid", "rgb", "ro", "rv", "sae", "sd", "sim", "spf", "ssd", "suv", "tpe",
    "tpu", "tsa", "tv", "uhd", "us", "usb", "uv",
})  # fmt: skip
_OWN_SPELLING = {"iphone": "iPhone", "ipad": "iPad"}
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
    return " ".join(
        word if word in _SMALL_WORDS else "-".join(map(_capitalise, word.split("-")))
        for word in text.split(" ")
    )


def plural(name: str) -> str:
    """The plural of a name; one that is plural already stays.

    >>> [plural(name) for name in ("bookshelf", "jeans", "toothbrush", "battery")]
    ['bookshelves', 'jeans', 'toothbrushes', 'batteries']
    """
    ending, replacement = next(pair for pair in _PLURALS if name.endswith(pair[0]))
    return name.removesuffix(ending) + replacement


def _capitalise(word: str) -> str:
    if word in _CAPITALS:
        return word.upper()
    return _OWN_SPELLING.get(word, word[:1].upper() + word[1:])
