"""A small shop whose products come, change and go."""

import dataclasses
from functools import cache

import numpy as np
from match_sets import make_config, make_shop

from matchset.data.catalog import Catalog, Column
from matchset.matchers.train import train
from matchset.strings import Strings

QUERIES = ["red rose", "white vase garden", "mug", "blue", "zyxo", "zyxo kitchen lamp", "rde rose"]
BRANDS = ["acme", "bloom", "nova", "zeta"]


def make_goods(rows):
    """A catalog of id: (title, price, brand); None for a price or a brand that is not known."""
    titles, prices, brands = zip(*rows.values(), strict=True) if rows else ((), (), ())
    known = sorted({brand for brand in brands if brand is not None})
    codes = [-1 if brand is None else known.index(brand) for brand in brands]
    return Catalog(
        Strings.of(list(rows)),
        Strings.of(list(titles)),
        attributes={
            "price": Column("number", np.array([np.nan if p is None else p for p in prices])),
            "brand": Column("text", np.array(codes, dtype=np.int32), Strings.of(known)),
        },
    )


def list_goods():
    """What the shop was trained with, as `make_goods` takes it."""
    _, catalog = make_shop()
    rows = zip(catalog.ids, catalog.titles, strict=True)
    return {
        product: (title, float(i % 50), BRANDS[i % 3]) for i, (product, title) in enumerate(rows)
    }


def trained_shop():
    """A match set of the shop, trained once; a copy, which has no folder yet."""
    return dataclasses.replace(_train())


@cache
def _train():
    log, _ = make_shop()
    return train(log, make_goods(list_goods()), make_config(tune=False))


def dump(matcher):
    """All that a caller can see of a matcher, to compare two byte for byte."""
    products = matcher.products
    seen = [list(products.ids), list(products.titles)]
    seen += [column.to_list() for column in products.attributes.values()]
    for where in (None, "price < 20", "brand = 'zeta' or price >= 40", list(products.ids)[::3]):
        for match in matcher.match(QUERIES, 30, where=where):
            seen.append((list(match.ids), match.scores.tobytes(), list(match.titles)))
    return seen
