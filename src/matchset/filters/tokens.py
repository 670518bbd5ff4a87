"""Tokens: into which words does the text of an expression fall?"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from matchset.errors import FilterError
from matchset.filters.syntax import ESCAPES, KEYWORDS, PLAIN_NAME

TokenKind: TypeAlias = Literal["keyword", "name", "text", "number", "sign", "end"]

# Digits are ASCII (`\d` is not). Repetition is possessive (`*+`): a doubled quote ends no text.
_TOKEN = re.compile(
    rf"""
    (?P<space>  \s+)
  | (?P<number> [+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
  | (?P<name>   {PLAIN_NAME.pattern})
  | (?P<quoted> `(?:[^`]|``)*+`)
  | (?P<text>   '(?:[^'\\]|''|\\.)*+'|"(?:[^"\\]|""|\\.)*+")
  | (?P<sign>   <=|>=|<>|!=|==|[<>=(),])
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)|''|\"\"", re.DOTALL)
_MISTAKES = {
    "'": "text must end with the quote it begins with; got none",
    '"': "text must end with the quote it begins with; got none",
    "`": "an attribute's name must end with the backtick it begins with; got none",
}


@dataclass(frozen=True, slots=True)
class Token:
    """A word: its kind, what it means (of text without quotes), and where it stands."""

    kind: TokenKind
    text: str
    position: int
    source: str  # as it was written


def tokenize(expression: str) -> list[Token]:
    """Split an expression into words; the last is its end."""
    tokens: list[Token] = []
    position = 0
    while position < len(expression):
        match = _TOKEN.match(expression, position)
        if match is None:
            raise _to_error(expression, position)
        if match.lastgroup != "space":
            tokens.append(_to_token(expression, match))
        position = match.end()
    tokens.append(Token("end", "", len(expression), "the end"))
    return tokens


def _to_token(expression: str, match: re.Match[str]) -> Token:
    source, position = match.group(), match.start()
    if match.lastgroup == "name":
        lower = source.lower()
        if lower in KEYWORDS:
            return Token("keyword", lower, position, source)
        return Token("name", source, position, source)
    if match.lastgroup == "quoted":
        return Token("name", source[1:-1].replace("``", "`"), position, source)
    if match.lastgroup == "text":
        return Token("text", _unquote(expression, source, position), position, source)
    if match.lastgroup == "number":
        if not math.isfinite(float(source)):
            raise FilterError(f"a number must be finite; got {source}", expression, position)
        return Token("number", source, position, source)
    return Token("sign", source, position, source)


def _unquote(expression: str, source: str, position: int) -> str:
    quote = source[0]

    def replace(match: re.Match[str]) -> str:
        escaped = match.group(1)
        if escaped is None:  # a pair of quotes, one of them if they are those of this text
            return quote if match.group()[0] == quote else match.group()
        if escaped not in ESCAPES:
            rule = r"a backslash in text must precede one of \ ' " + f'" n t; got {escaped!r}'
            raise FilterError(rule, expression, position + 1 + match.start())
        return ESCAPES[escaped]

    return _ESCAPE.sub(replace, source[1:-1])


def _to_error(expression: str, position: int) -> FilterError:
    char, got = expression[position], repr(expression[position : position + 12])
    if char in _MISTAKES:
        rule = _MISTAKES[char]
    elif char in ".-" and expression[position - 1 : position].isidentifier():
        rule = f"a name that is not one plain word must stand in backticks; got {got} in it"
    elif char in "+-." or char.isdigit():
        rule = f"a number must be like 20, -1.5 or 2e3; got {got}"
    else:
        rule = f"an expression holds attributes, values and operators alone; got {char!r}"
    return FilterError(rule, expression, position)
