r"""Filters: which products satisfy `in_stock and price < 20`?

The language is small and closed: it knows the attributes of the catalog and nothing else, so that
expressions from untrusted users are safe.

    expression  = conjunction, { "or", conjunction }
    conjunction = negation, { "and", negation }
    negation    = "not", negation | condition
    condition   = "(", expression, ")"
                | attribute                             (a boolean one)
                | attribute, operator, value
                | value, operator, attribute
                | attribute, ["not"], "in", "(", value, { ",", value }, ")"
                | attribute, ["not"], "between", value, "and", value
                | attribute, ["not"], "like", text
                | attribute, "is", ["not"], "null"
    operator    = "=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">="
    value       = text | number | "true" | "false" | "date", text

Names of attributes are case-sensitive, and in backticks if they are not plain words
(`` `unit price` ``, `` `not` ``). Keywords are not case-sensitive. Text is in single or double
quotes; a quote inside is doubled or follows a backslash; \n and \t are a line break and a tab.
Texts are equal if every character is, and sort by code point. In the pattern of `like`, % stands
for any characters and _ for one; after two backslashes they stand for themselves. A date is `date
'2026-10-01'`, or just '2026-10-01' if the attribute is a date.

Logic is SQL's. A comparison with a null is unknown, `not` of unknown is unknown, `false and
unknown` is false, `true or unknown` is true, and only what is true is kept: products without a
price are neither in `price < 20` nor in `not price < 20`. Find them with `price is null`.
"""
