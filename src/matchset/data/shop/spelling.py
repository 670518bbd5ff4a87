"""Spelling: how do titles write words, and what is the plural of a name?"""

from __future__ import annotations

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
    written = [word if word in _SMALL_WORDS else _capitalise(word) for word in words]
    return " ".join([*written, last if last in _UNITS else _capitalise(last)])


def plural(name: str) -> str:
    """The plural of a name; one that is plural already stays.

    >>> [plural(name) for name in ("bookshelf", "jeans", "toothbrush", "battery")]
    ['bookshelves', 'jeans', 'toothbrushes', 'batteries']
    """
    ending, replacement = next(pair for pair in _PLURALS if name.endswith(pair[0]))
    return name.removesuffix(ending) + replacement


def _capitalise(word: str) -> str:
    return "-".join(
        part.upper() if part in _CAPITALS else _OWN_SPELLING.get(part, part[:1].upper() + part[1:])
        for part in word.split("-")
    )
