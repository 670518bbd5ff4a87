"""Parser: how is the text of an expression read?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import NoReturn

from matchset.errors import FilterError
from matchset.filters.syntax import (
    Attribute,
    Condition,
    Constant,
    Expression,
    Joined,
    Not,
    Operator,
    Term,
)
from matchset.filters.tokens import Token, tokenize

_OPERATORS: dict[str, Operator] = {
    "=": "=", "==": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip
_MIRRORED: dict[Operator, Operator] = {
    "=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<=",
}  # fmt: skip
_LIKE_TERMS = 25  # it looks at the characters of every value
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on an expression, which may come from an untrusted user.

    `length` counts characters, `depth` nested parentheses and `not`, `terms` conditions and the
    values of `in`; `like` is 25 terms. Evaluation takes time for each term and memory for each
    level of depth.
    """

    length: int = 10_000
    depth: int = 32
    terms: int = 500


DEFAULT_LIMITS = Limits()


def parse(text: str, limits: Limits = DEFAULT_LIMITS) -> Expression:
    """Read an expression; anything outside the grammar or the limits is a FilterError."""
    if not isinstance(text, str):
        raise TypeError(f"an expression must be str; got {type(text).__name__}")
    if len(text) > limits.length:
        rule = f"an expression must have at most {limits.length:,} characters; got {len(text):,}"
        raise FilterError(rule, text, limits.length)
    parser = _Parser(text, limits)
    condition = parser.read_expression(depth=0)
    if parser.token.kind != "end":
        parser.expected("`and`, `or` or the end")
    return Expression(text, condition)


def parse_date(text: str) -> date | None:
    """Return the day written as YYYY-MM-DD; None if the text is not one."""
    if not _DATE.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str, limits: Limits) -> None:
        self.text = text
        self.limits = limits
        self.tokens = tokenize(text)
        self.at = 0
        self.n_terms = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def expected(self, what: str) -> NoReturn:
        token = self.token
        if token.source == "(" and self.at and self.tokens[self.at - 1].kind == "name":
            name = self.tokens[self.at - 1].source
            self.fail(f"a filter has no functions; got {name}(", self.tokens[self.at - 1])
        got = token.source if len(token.source) <= 30 else f"{token.source[:27]}..."
        self.fail(f"expected {what}; got {got}", token)

    def fail(self, rule: str, token: Token) -> NoReturn:
        raise FilterError(rule, self.text, token.position)

    def next(self) -> Token:
        token = self.token
        self.at += 1
        return token

    def coming(self, word: str) -> bool:
        """Return whether a keyword or sign comes next."""
        return self.token.kind in ("keyword", "sign") and self.token.text == word

    def accept(self, word: str) -> bool:
        """Skip a keyword or sign if it comes next."""
        is_coming = self.coming(word)
        self.at += is_coming
        return is_coming

    def require(self, word: str, what: str) -> None:
        if not self.accept(word):
            self.expected(what)

    def read_expression(self, depth: int) -> Condition:
        conditions = [self.read_conjunction(depth)]
        while self.accept("or"):
            conditions.append(self.read_conjunction(depth))
        return conditions[0] if len(conditions) == 1 else Joined("or", tuple(conditions))

    def read_conjunction(self, depth: int) -> Condition:
        conditions = [self.read_negation(depth)]
        while self.accept("and"):
            conditions.append(self.read_negation(depth))
        return conditions[0] if len(conditions) == 1 else Joined("and", tuple(conditions))

    def read_negation(self, depth: int) -> Condition:
        if depth > self.limits.depth:
            most = self.limits.depth
            self.fail(f"an expression must nest at most {most} deep; got more", self.token)
        if self.accept("not"):
            return Not(self.read_negation(depth + 1))
        if self.accept("("):
            condition = self.read_expression(depth + 1)
            self.require(")", "`and`, `or` or `)`")
            return condition
        self.count_term()
        return self.read_mirrored() if self.is_constant() else self.read_condition()

    def read_condition(self) -> Condition:
        """Read an attribute and what is said of it."""
        attribute = self.read_attribute("an attribute, a value, `not` or `(`")
        if self.accept("is"):
            is_negated = self.accept("not")
            self.require("null", "`null`" if is_negated else "`null` or `not null`")
            return Not(Term(attribute, "is null")) if is_negated else Term(attribute, "is null")
        operator = self.read_operator()
        if operator is not None:
            return Term(attribute, operator, (self.read_constant(),))
        # `not` behind an attribute belongs to the word that follows, if one does.
        is_negated = self.coming("not") and self.tokens[self.at + 1].text in _WORDS
        self.at += is_negated
        if self.token.kind == "keyword" and self.token.text in _WORDS:
            found = _WORDS[self.next().text](self, attribute)
            return Not(found) if is_negated else found
        if self.token.source == "(" or self.token.kind in ("name", "text", "number"):
            self.expected("an operator, `in`, `like`, `between` or `is`")
        return Term(attribute)

    def read_operator(self) -> Operator | None:
        """Read a sign that compares; None if there is none."""
        is_sign = self.token.kind == "sign" and self.token.text in _OPERATORS
        return _OPERATORS[self.next().text] if is_sign else None

    def read_list(self, attribute: Attribute) -> Term:
        self.require("(", "`(`")
        constants = [self.read_constant()]
        while self.accept(","):
            self.count_term()
            constants.append(self.read_constant())
        self.require(")", "`,` or `)`")
        return Term(attribute, "in", tuple(constants))

    def read_pattern(self, attribute: Attribute) -> Term:
        self.count_term(_LIKE_TERMS - 1)
        if self.token.kind != "text":
            self.expected("a pattern in quotes")
        return Term(attribute, "like", (self.read_constant(),))

    def read_range(self, attribute: Attribute) -> Joined:
        """Read `between a and b` as `>= a and <= b`."""
        self.count_term()
        low = Term(attribute, ">=", (self.read_constant(),))
        self.require("and", "`and` and the upper end")
        return Joined("and", (low, Term(attribute, "<=", (self.read_constant(),))))

    def read_mirrored(self) -> Condition:
        """Read value, operator, attribute."""
        constant = self.read_constant()
        operator = self.read_operator()
        if operator is None:
            self.expected("an operator")
        if self.is_constant():
            self.fail("a comparison needs an attribute; got two values", self.token)
        return Term(self.read_attribute("an attribute"), _MIRRORED[operator], (constant,))

    def read_attribute(self, what: str) -> Attribute:
        if self.token.kind != "name":
            self.expected(what)
        token = self.next()
        return Attribute(token.text, token.position)

    def is_constant(self) -> bool:
        token = self.token
        return (
            token.kind in ("text", "number")
            or (token.kind == "keyword" and token.text in ("true", "false"))
            or self.is_date()
        )

    def is_date(self) -> bool:
        """Return whether `date` and a text come next; else `date` is the name of an attribute."""
        is_word = self.token.kind == "name" and self.token.source.lower() == "date"
        return is_word and self.tokens[self.at + 1].kind == "text"

    def read_constant(self) -> Constant:
        token = self.token
        if token.kind == "keyword" and token.text == "null":
            self.fail("a value must not be null (use `is null` or `is not null`); got null", token)
        if token.kind == "name" and not self.is_date():
            self.fail(
                f"an attribute is compared with a value (text in quotes); got {token.source}", token
            )
        if not self.is_constant():
            self.expected("a value")
        self.next()
        if token.kind == "text":
            return Constant(token.text, token.position)
        if token.kind == "number":
            return Constant(float(token.text), token.position)
        if token.kind == "keyword":
            return Constant(token.text == "true", token.position)
        return self.read_date()

    def read_date(self) -> Constant:
        token = self.next()
        day = parse_date(token.text)
        if day is None:
            self.fail(f"a date must be like '2026-10-01'; got {token.source}", token)
        return Constant(day, token.position)

    def count_term(self, n: int = 1) -> None:
        self.n_terms += n
        if self.n_terms > self.limits.terms:
            most = self.limits.terms
            self.fail(f"an expression must have at most {most} terms; got more", self.token)


_WORDS: Mapping[str, Callable[[_Parser, Attribute], Condition]] = {
    "in": _Parser.read_list,
    "like": _Parser.read_pattern,
    "between": _Parser.read_range,
}
