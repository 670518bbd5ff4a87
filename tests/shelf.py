"""Five products with an attribute of each kind, as a catalog holds them."""

import math
from datetime import date

import numpy as np

from matchset.data.arrow import NO_DAY
from matchset.data.catalog import Column
from matchset.strings import Strings

KINDS = {"price": "number", "in_stock": "boolean", "locale": "text", "since": "date"}
EPOCH = date(1970, 1, 1)
ROWS = [  # price, in_stock, locale, since
    (10.0, True, "us", date(2026, 10, 1)),
    (20.0, False, "de", date(2026, 9, 30)),
    (None, True, "us", None),
    (-1.5, None, None, date(1969, 12, 31)),
    (1e300, False, "it's", date(2026, 10, 2)),
]


def make_columns(rows=ROWS):
    """The attributes of rows, as a catalog holds them."""
    price, in_stock, locale, since = zip(*rows, strict=True) if rows else ([],) * 4
    texts = sorted({text for text in locale if text is not None}, key=str.encode)
    days = [NO_DAY if day is None else (day - EPOCH).days for day in since]
    codes = [-1 if text is None else texts.index(text) for text in locale]
    stock = [-1 if value is None else int(value) for value in in_stock]
    numbers = [math.nan if value is None else value for value in price]
    return {
        "price": Column("number", np.array(numbers, dtype=np.float64)),
        "in_stock": Column("boolean", np.array(stock, dtype=np.int8)),
        "locale": Column("text", np.array(codes, dtype=np.int32), Strings.of(texts)),
        "since": Column("date", np.array(days, dtype=np.int32)),
    }
