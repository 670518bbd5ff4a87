r"""Expressions: which products does `in_stock and price < 20` mean?

The language is our own, small, and closed: it knows the attributes of the catalogue and nothing
else, so that a stranger may write in it.

    expression  = conjunction, { "or", conjunction }
    conjunction = negation, { "and", negation }
    negation    = "not", negation | condition
    condition   = "(", expression, ")"
                | attribute                             (of true and false)
                | attribute, operator, value
                | value, operator, attribute
                | attribute, ["not"], "in", "(", value, { ",", value }, ")"
                | attribute, "is", ["not"], "null"
    operator    = "=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">="
    value       = text | number | "true" | "false" | "date", text

Attributes are written as they are, with a capital where they have one, in backticks where they are
not plain words (`` `unit price` ``, `` `not` ``). Keywords go in any case. Text stands in single or
double quotes; a quote inside is doubled or follows a backslash; \n and \t are a line break and
a tab. Texts are equal if every character is, and sort by code point. A date is
`date '2026-10-01'`, or only '2026-10-01' where the attribute is one.

Logic is SQL's. A comparison with a null is unknown, `not` of unknown is unknown, `false and
unknown` is false, `true or unknown` is true, and only what is true is kept: products without a
price are neither in `price < 20` nor in `not price < 20`. Ask for them with `price is null`.
"""
