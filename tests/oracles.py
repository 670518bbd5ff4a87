"""Plain Python twins of the native kernels: slow, short, and right by reading."""

import re
import unicodedata
from collections import Counter
from html.entities import name2codepoint

import numpy as np

MAX_CHARS = 4096
APOSTROPHES = {"'", "`", *"\u2018\u2019\u201b\u02bc\u2032\u2035"}
QUOTES = {'"', *"\u201c\u201d\u201e\u201f"}
DIGITS = {*"0123456789"}
PLAIN = {"\u2120": " ", "\u2122": " ", "\u00b4": "'", "\u1ffd": "'", "\u00d7": "x"}
LEGAL_MARKS = {*"\u00a9\u00ae\u00b0\u2117\ufffd"}
VULGAR_FRACTIONS = {*"\u00bc\u00bd\u00be\u2189", *map(chr, range(0x2150, 0x215F))}


def is_dropped(char):
    code = ord(char)
    return (
        0xFE00 <= code <= 0xFE0F
        or 0xE0100 <= code <= 0xE01EF
        or 0x1F3FB <= code <= 0x1F3FF
        or unicodedata.category(char) in ("Cf", "Me")
    )


def is_symbol(char):
    return unicodedata.category(char) == "So" and char not in LEGAL_MARKS


def is_digit(char):
    return char in DIGITS


def is_word(char):
    category = unicodedata.category(char) if char else "Zs"
    return category[0] in "LMN" or (category == "Cn" and ord(char) > 127)


def detach_signs(text):
    out = ""
    for char in text:
        if char in VULGAR_FRACTIONS and is_digit(out[-1:] or " "):
            out += " "
        out += PLAIN.get(char, char)
    return out


def drop_unseen(text):
    out = ""
    for at, char in enumerate(text):
        follows_digit = is_digit(out[-1:] or " ")
        if char in APOSTROPHES or (char in QUOTES and follows_digit):
            out += " " if follows_digit and is_digit(text[at + 1 : at + 2] or " ") else ""
        elif not is_dropped(char):
            out += "/" if char == "\u2044" else char
    return out


def fate(text, at):
    """The character as it stands in the result: itself, a space, or nothing."""
    padded = "\0\0" + text + "\0\0\0\0"
    before2, before, char, after, after2, after3, after4 = padded[at : at + 7]
    if char == ".":
        keep = is_digit(after) and (is_digit(before) or not is_word(before))
    elif char == "/":
        keep = is_digit(before) and is_digit(after)
    elif char == "%":
        keep = is_digit(before)
    elif char == ",":
        thousands = all(map(is_digit, (before, after, after2, after3))) and not is_digit(after4)
        return "" if thousands else " "
    elif char == "#":
        keep = (is_digit(after) and not is_word(before)) or (is_word(before) and not is_word(after))
    elif char == "+":
        only = is_word(before) and after != "+" and not is_word(after)
        first = is_word(before) and after == "+" and after2 != "+" and not is_word(after2)
        second = before == "+" and is_word(before2) and after != "+" and not is_word(after)
        keep = only or first or second
    else:
        keep = False
    return char if keep else " "


MARKUP = re.compile(r"</?[A-Za-z][^<>]*>|&(#[0-9]+|#[xX][0-9A-Fa-f]+|[A-Za-z0-9]+);")


def decode_markup(found):
    name = found[1]
    if name is None:
        return " "
    if not name.startswith("#"):
        code = {**name2codepoint, "apos": 39}.get(name, 0)
    else:
        code = int(f"0{name[1:]}", 16) if name[1] in "xX" else int(name[1:])
    if len(name) > 10 or code == 0 or code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        return found[0]
    return " " if code < 32 or code == 0xA0 else chr(code)


def clean_markup(text):
    """Without HTML tags and entities, three times over; as it was where there are none."""
    for _ in range(3):
        cleaned = MARKUP.sub(decode_markup, text)
        if cleaned == text:
            return text
        text = re.sub(" +", " ", cleaned)
    return text


def normalize(text):
    text = clean_markup(text)
    text = "".join("\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c for c in text[:MAX_CHARS])
    text = unicodedata.normalize("NFKD", detach_signs(text)).casefold()
    text = unicodedata.normalize("NFKC", drop_unseen(text))
    out = ""
    for at, char in enumerate(text):
        if is_symbol(char):
            out += char if out and is_symbol(out[-1]) else f" {char}"
        else:
            kept = char if is_word(char) else fate(text, at)
            out += f" {kept}" if kept and out and is_symbol(out[-1]) else kept
    out = " ".join(out.split())
    return out if len(out) <= MAX_CHARS else re.sub(r"((?<!\w)#|[ ./])+$", "", out[:MAX_CHARS])


def ngrams(text, unit, n):
    """The n-grams of a normalized text, a space standing for what is shown as '#'."""
    words = text.split()
    if unit == "word":
        return [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]
    padded = [f" {word} " for word in words]
    return [word[i : i + n] for word in padded for i in range(max(1, len(word) - n + 1))]


def vocabulary(texts, kinds):
    """Per kind, the kept n-grams with their df: (unit, n, limit, min_df) -> [(n-gram, df)]."""
    kept = []
    for unit, n, limit, min_df in kinds:
        df = Counter(ngram for text in texts for ngram in set(ngrams(text, unit, n)))
        ranked = sorted(df.items(), key=lambda item: (-item[1], item[0].encode()))
        kept.append([item for item in ranked if item[1] >= min_df][:limit])
    return kept


def tfidf(texts, queries, kinds):
    """Dense TF-IDF rows over the known n-grams alone, (n_queries, n_known)."""
    kept = vocabulary(texts, kinds)
    columns = {}
    for (unit, n, *_), kind in zip(kinds, kept, strict=True):
        for ngram, df in kind:
            columns[unit, n, ngram] = (len(columns), np.log((1 + len(texts)) / (1 + df)) + 1)
    rows = np.zeros((len(queries), len(columns)))
    for row, query in zip(rows, queries, strict=True):
        for unit, n, *_ in kinds:
            for ngram in ngrams(query, unit, n):
                if (unit, n, ngram) in columns:
                    column, idf = columns[unit, n, ngram]
                    row[column] += idf
        row /= np.linalg.norm(row) or 1
    return rows


def bm25(texts, query, *, k1, b):
    """Lucene's BM25 of each text; texts without words have no part in the mean length."""
    texts = [text.split() for text in texts]
    lengths = np.array([len(text) for text in texts])
    scores = np.zeros(len(texts))
    for word in query.split():
        tf = np.array([text.count(word) for text in texts])
        df = np.count_nonzero(tf)
        idf = np.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
        scores += idf * tf / (tf + k1 * (1 - b + b * lengths / lengths[lengths > 0].mean()))
    return scores
