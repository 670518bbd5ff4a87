"""The small shop of examples looks like a shop, and is the same for the same seed."""

import csv

import numpy as np
import pytest

import matchset as ms
from matchset.errors import ParameterError
from matchset.example_shop import write_demo_shop

FEW = {"products": 320, "searches": 3000, "days": 60}


@pytest.fixture(scope="module")
def shop():
    return ms.demo_shop(**FEW)


def test_customers_use_synonyms_brands_sizes_and_occasions_and_misspell(shop):
    queries = set(shop.log.queries)
    assert {"couch", "camping", "sofa"} <= queries
    titles = " ".join(shop.catalog.titles).lower()
    assert "couch" not in titles
    assert any(query.endswith(" 42") for query in queries)
    assert any(query.startswith("norvik ") for query in queries)
    known = {word for query in queries for word in query.split()} - set(titles.split())
    assert len(known) > 100  # also what was misspelled


def test_the_popular_sell_most_and_the_new_only_since_they_came(shop):
    log = shop.log
    counts = np.sort(np.bincount(log.product, log.count))[::-1]
    assert counts[:32].sum() > counts.sum() / 4
    assert set(log.events) == {"click", "purchase"}
    first = np.full(len(log.products), log.day.max())
    np.minimum.at(first, log.product, log.day)
    assert (first > log.day.min() + 30).any()


def test_a_shop_is_that_of_its_seed_and_files_hold_it(shop, tmp_path):
    again, other = ms.demo_shop(**FEW), ms.demo_shop(**FEW, seed=1)
    assert list(again.log.queries) == list(shop.log.queries)
    assert np.array_equal(again.log.count, shop.log.count)
    assert list(other.log.queries) != list(shop.log.queries)
    events, products = write_demo_shop(tmp_path, **FEW)
    assert list(ms.read_log(str(events)).queries) == list(shop.log.queries)
    rows = list(csv.DictReader(products.read_text().splitlines()))
    assert len(rows) == 320
    assert rows[0].keys() == {"product_id", "title", "brand", "department", "price"}


def test_a_shop_needs_products_and_searches():
    with pytest.raises(ParameterError, match="searches must be at least 1; got 0"):
        ms.demo_shop(searches=0)
