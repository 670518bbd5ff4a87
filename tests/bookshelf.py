"""A small catalog and log over which every baseline has a certain answer."""

import numpy as np
from rankings import make_positives

from matchset.data.catalog import Catalog, Column
from matchset.strings import Strings

TITLES = [
    "Red Rose Plant",
    "White Rose Bouquet with Vase",
    "Clay Plant Pot 5 in.",
    "Garden Soil for Roses",
    "Red Clay Garden Pot",
    "",
    "Glass Vase",
]
IDS = [f"p{i}" for i in range(len(TITLES))]
PRICES = [9.0, 30.0, 5.0, 4.0, 7.0, 1.0, np.nan]
RELEVANT = {
    "red rose": {0: 3, 1: 1},
    "rose plant": {0: 2, 3: 1},
    "clay pot": {2: 4, 4: 2},
    "plant pot": {2: 1},
    "vase": {6: 2, 1: 1},
    "soil": {3: 5, 5: 1},
}
QUERIES = ["red rose", "clay plant pot", "glass vase for roses"]


def make_catalog(descriptions=None):
    texts = None if descriptions is None else Strings.of(descriptions)
    price = {"price": Column("number", np.array(PRICES))}
    colour = Column("text", np.array([0, 1, -1, -1, 0, -1, -1], dtype=np.int32),
                    Strings.of(["red", "white"]))  # fmt: skip
    return Catalog(Strings.of(IDS), Strings.of(TITLES), texts, price | {"colour": colour})


def make_pairs():
    return make_positives(RELEVANT, len(IDS))
