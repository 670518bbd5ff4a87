from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

from matchset.data.catalog_reader import read_catalog
from matchset.data.log_reader import read_log
from matchset.lab.shop import describe_shop, simulate_shop
from matchset.lab.shop.assortment import make_products
from matchset.lab.shop.customers import EXACT, LAST_DAY
from matchset.lab.shop.lexicon import make_lexicon
from matchset.lab.shop.simulate import Shop, ask_around
from matchset.lab.shop.visits import PURCHASE, visit_shop
from matchset.lab.shop.wording import Lists, compact, headline, join_words, misspell, plural
from matchset.lab.shop.words import SLOTS, read_vocabulary
from matchset.strings import Strings


@pytest.fixture(scope="module")
def shop() -> Shop:
    return simulate_shop(products=10_000)


def bought(shop: Shop) -> tuple[np.ndarray, np.ndarray]:
    """Query and product (place in the catalog) of every purchase."""
    rows = shop.log.event == shop.log.events.index("purchase")
    place = shop.catalog.ids.index_of(shop.log.products)
    return shop.log.query[rows], place[shop.log.product[rows]]


def texts_of(shop: Shop, name: str) -> np.ndarray:
    column = shop.catalog.attributes[name]
    assert column.categories is not None
    return np.array([*column.categories, None], dtype=object)[column.values]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"products": 5}, "products must be at least 100; got 5"),
        ({"products": 10**9}, "products must be at most 100000000; got 1000000000"),
        ({"queries": 0}, "queries must be at least 1; got 0"),
        ({"days": 0}, "days must be at least 1; got 0"),
        ({"seed": -1}, "seed must be at least 0; got -1"),
    ],
)
def test_a_parameter_out_of_range_is_named(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        simulate_shop(**arguments)


def test_a_parameter_that_is_no_int_is_named() -> None:
    with pytest.raises(TypeError, match=r"^products must be an int; got float$"):
        simulate_shop(products=1e4)  # type: ignore[arg-type]


def test_the_vocabulary_has_many_departments_and_hundreds_of_categories() -> None:
    vocabulary = read_vocabulary()
    names = [category.names[0] for category in vocabulary.categories]
    assert len(vocabulary.departments) >= 30
    assert len(names) == len(set(names)) >= 500
    for category in vocabulary.categories:
        assert len(category.names) == len(set(category.names)) >= 2, category.names
        assert len(category.values) >= 2, category.names
        assert 0 < category.price[0] < category.price[1], category.names
        assert set(category.gifts) <= set(vocabulary.gifts), category.names


def test_the_log_has_about_as_many_queries_as_asked_for(shop: Shop) -> None:
    assert len(shop.catalog) == 10_000
    assert 0.93 * 20_000 <= len(shop.log.queries) <= 1.07 * 20_000


def test_it_looks_like_a_real_log(shop: Shop) -> None:
    facts = describe_shop(shop)
    assert 24 <= facts.features_per_query <= 30
    assert 3 <= facts.words_per_query <= 5
    assert facts.positives_per_query > 1.5
    assert 0.08 <= facts.cold <= 0.16
    assert 0.08 <= facts.click_rate <= 0.2
    assert 0.1 <= facts.purchase_rate <= 0.2
    assert 0.1 <= facts.without_title_word <= 0.4


def test_features_are_counted_as_ngrams() -> None:
    shop = simulate_shop(products=100, queries=50, days=30)
    expected = []
    distinct = set()
    for query in shop.log.queries:
        words = query.split()
        trigrams = [f"#{word}#"[at : at + 3] for word in words for at in range(len(word))]
        bigrams = list(pairwise(words))
        expected.append(len(words) + len(bigrams) + len(trigrams))
        distinct |= {("word", word) for word in words} | {("words", *pair) for pair in bigrams}
        distinct |= {("letters", trigram) for trigram in trigrams}
    facts = describe_shop(shop)
    assert facts.features_per_query == pytest.approx(np.mean(expected))
    assert facts.features == len(distinct)


def test_titles_have_5_to_14_words(shop: Shop) -> None:
    words = np.array([len(title.split()) for title in shop.catalog.titles])
    assert np.mean((words >= 5) & (words <= 14)) > 0.99
    assert not any("  " in title or title != title.strip() for title in shop.catalog.titles)


def test_attributes_have_every_kind(shop: Shop) -> None:
    kinds = {name: column.kind for name, column in shop.catalog.attributes.items()}
    assert kinds == {
        "department": "text", "category": "text", "brand": "text", "colour": "text",
        "locale": "text", "price": "number", "stock": "number", "rating": "number",
        "fast_delivery": "boolean", "launched": "date",
    }  # fmt: skip
    for column in shop.catalog.attributes.values():
        if column.categories is not None:
            assert list(column.categories) == sorted(set(column.categories))
            assert -1 <= column.values.min() <= column.values.max() < len(column.categories)
    assert set(texts_of(shop, "locale")) == {"en-US", "en-GB", "en-CA", "en-AU"}


def test_prices_lie_within_the_range_of_the_category(shop: Shop) -> None:
    ranges = {c.names[0]: c.price for c in read_vocabulary().categories}
    low, high = np.array([ranges[name] for name in texts_of(shop, "category")]).T
    price = shop.catalog.attributes["price"].values
    assert np.all((price >= low) & (price <= high + 1))


def test_a_title_starts_with_the_brand(shop: Shop) -> None:
    for title, brand in zip(shop.catalog.titles, texts_of(shop, "brand"), strict=True):
        assert title.startswith(brand + " ")


def test_every_purchase_satisfies_the_want() -> None:
    lexicon = make_lexicon(read_vocabulary(), brands=300, seed=3)
    products = make_products(lexicon, 3000, last_day=LAST_DAY, seed=3)
    wants, _, _ = ask_around(lexicon, products, 3000, seed=3)
    events = visit_shop(lexicon, products, wants, np.full(len(wants), 5), days=200, seed=3)
    rows = events.event == PURCHASE
    want, product = events.want[rows], events.product[rows]
    target, asked = wants.target[want], wants.asked[want]
    assert len(want) > 1000
    assert np.all((asked != EXACT) | (product == target))
    assert np.all(products.category[product] == products.category[target])
    for slot in range(len(SLOTS)):
        is_asked = (asked >> slot & 1) > 0
        same = products.values[product, slot] == products.values[target, slot]
        assert np.all(same[is_asked]), SLOTS[slot]
    assert np.all(products.launched[product] <= events.day[rows])
    assert np.all(events.day[rows] < products.sold_out[product])
    # Clicks are noisier: some are on products that the customer does not want.
    clicked = events.event == PURCHASE - 1
    strange = products.category[events.product[clicked]]
    assert np.mean(strange != products.category[wants.target[events.want[clicked]]]) > 0.01


def test_a_query_leads_to_what_it_means_whatever_the_words(shop: Shop) -> None:
    query, product = bought(shop)
    category = texts_of(shop, "category")
    meant: dict[str, set[str]] = {}
    for c in read_vocabulary().categories:
        gifts = [said for who in c.gifts for said in read_vocabulary().gifts[who]]
        for said in (*c.names, *c.needs, *gifts):
            meant.setdefault(said, set()).add(c.names[0])
    places = shop.log.queries.index_of(Strings.of(list(meant)))
    heard = [
        (place, fits) for place, fits in zip(places, meant.values(), strict=True) if place >= 0
    ]
    assert len(heard) > 1000
    # A few texts also come about otherwise: "headphones" and "with microphone" name a headset, too.
    agrees = [name in fits for place, fits in heard for name in category[product[query == place]]]
    assert np.mean(agrees) > 0.95


def test_title_words_find_some_purchases_and_popularity_few(shop: Shop) -> None:
    query, product = bought(shop)
    rng = np.random.default_rng(0)
    sample = rng.choice(np.unique(query), 500, replace=False)
    words: dict[str, int] = {}

    def count(texts: list[str]) -> csr_array:
        codes = [[words.setdefault(w, len(words)) for w in t.lower().split()] for t in texts]
        offsets = np.cumsum([0, *map(len, codes)])
        items = np.concatenate(codes)
        return csr_array((np.ones(len(items)), items, offsets), shape=(len(texts), 60_000))

    titles = count(list(shop.catalog.titles))
    rarity = np.log(len(shop.catalog) / (1 + (titles > 0).sum(axis=0)))
    asked = count(list(shop.log.queries.take(sample)))
    scores = (asked.multiply(rarity[None, :]).tocsr() @ titles.T).toarray()
    ranked = np.argsort(-scores, axis=1, kind="stable")[:, :100]
    best = np.argsort(-np.bincount(product, minlength=len(shop.catalog)), kind="stable")[:100]
    found, popular = [], []
    for row, place in enumerate(sample):
        wanted = set(product[query == place].tolist())
        found.append(len(wanted & set(ranked[row].tolist())) / len(wanted))
        popular.append(len(wanted & set(best.tolist())) / len(wanted))
    assert 0.4 < np.mean(found) < 0.9
    assert np.mean(popular) < 0.15


def test_popularity_and_queries_have_a_long_tail(shop: Shop) -> None:
    events = np.sort(shop.log.query_counts())[::-1]
    assert events[: len(events) // 100].sum() > 0.1 * events.sum()
    assert np.mean(events < 10) > 0.3
    sold = np.sort(np.bincount(bought(shop)[1], minlength=len(shop.catalog)))[::-1]
    assert sold[: len(sold) // 10].sum() > 0.35 * sold.sum()


def test_purchases_are_rarer_than_clicks_and_imply_one(shop: Shop) -> None:
    totals = {
        name: shop.log.count[shop.log.event == code].sum()
        for code, name in enumerate(shop.log.events)
    }
    assert totals["purchase"] < totals["click"] < totals["impression"]


def test_hardly_anything_is_bought_lately_that_is_out_of_stock_now(shop: Shop) -> None:
    is_out = shop.catalog.attributes["stock"].values == 0
    assert 0.05 < is_out.mean() < 0.1
    rows = shop.log.event == shop.log.events.index("purchase")
    is_late = shop.log.day[rows] > LAST_DAY - 30
    is_of_last_day = shop.log.day[rows] == LAST_DAY
    bought_out = is_out[bought(shop)[1]]
    assert bought_out[is_late].mean() < 0.025
    assert bought_out[is_of_last_day].mean() < 0.002


def test_seasons_show(shop: Shop) -> None:
    log = shop.log
    months = np.array(
        [(date(1970, 1, 1) + timedelta(int(d))).month for d in range(LAST_DAY - 395, LAST_DAY + 1)]
    )
    rows = log.event == log.events.index("purchase")
    month = months[log.day[rows] - (LAST_DAY - 395)]
    category = texts_of(shop, "category")[bought(shop)[1]]
    seasons = {c.names[0]: c.season for c in read_vocabulary().categories}
    season = np.array([seasons[name] for name in category])

    def share(name: str, months: list[int]) -> float:
        return float(np.mean(np.isin(month[season == name], months)))

    assert share("december", [11, 12]) > 2.5 * share("", [11, 12])
    assert share("summer", [6, 7, 8]) > 1.5 * share("", [6, 7, 8])
    assert log.days == (date(2025, 10, 2), date(2026, 10, 31))


def test_a_saved_shop_reads_back(tmp_path, shop: Shop) -> None:
    products, log = shop.save(tmp_path / "new" / "folder")
    assert (products.name, log.name) == ("products.parquet", "log.parquet")
    assert read_log(log) == shop.log
    catalog = read_catalog(products)
    assert catalog.ids == shop.catalog.ids
    assert catalog.titles == shop.catalog.titles
    for name, column in shop.catalog.attributes.items():
        assert catalog.attributes[name].kind == column.kind
        assert catalog.attributes[name].categories == column.categories
        np.testing.assert_array_equal(catalog.attributes[name].values, column.values)


def test_words_are_joined_with_single_spaces() -> None:
    words = Strings.of(["red", "shoe", ""])
    codes = np.array([[0, 1], [-1, 1], [-1, -1], [1, -1], [0, 0]])
    assert list(join_words(words, codes)) == ["red shoe", "shoe", "", "shoe", "red red"]
    assert list(join_words(words, np.empty((0, 2), dtype=int))) == []


def test_a_slip_changes_little() -> None:
    texts = ["yellow garden hose"] * 500 + ["tv"] * 20 + ["", "a", "red shoes"]
    slips = list(misspell(Strings.of(texts), np.random.default_rng(0)))
    assert len(slips) == len(texts)
    for text, slip in zip(texts, slips, strict=True):
        assert text[:1] == slip[:1]
        assert abs(len(text) - len(slip)) <= 1
    assert sum(a != b for a, b in zip(texts, slips, strict=True)) > 300
    assert {"yellowgarden hose", "yel low garden hose", "yellow gerden hose"} <= set(slips)
    assert list(misspell(Strings.of([]), np.random.default_rng(0))) == []


def test_an_empty_list_gives_no_item() -> None:
    lists = Lists.of([[4, 5], [], [6]])
    drawn = lists.draw(np.array([0, 0, 1, 2]), np.array([0.0, 0.99, 0.5, 0.99]))
    assert drawn.tolist() == [4, 5, -1, 6]
    assert Lists.of([[]]).draw(np.array([0]), np.array([0.5])).tolist() == [-1]


def test_zeros_are_left_out_of_letters() -> None:
    letters = np.frombuffer(b"ab\0c\0\0\0de", dtype=np.uint8).reshape(3, 3)
    assert list(compact(letters)) == ["ab", "c", "de"]


def test_titles_spell_words_their_own_way() -> None:
    assert headline("usb-c hub for iphone") == "USB-C Hub for iPhone"
    assert headline("with 3/8 in. drive") == "with 3/8 in. Drive"
    assert headline("clip on") == "Clip On"
    assert [plural(n) for n in ("bookshelf", "jeans", "toothbrush", "battery", "toy")] == [
        "bookshelves", "jeans", "toothbrushes", "batteries", "toys",
    ]  # fmt: skip


def test_what_a_short_log_cannot_tell_is_a_dash():
    facts = describe_shop(simulate_shop(products=100, days=15, seed=1)).beside_paper()
    assert facts["cold"] == "-  (paper: 0.12)"
    assert facts["products per query"].startswith("-")
    assert "nan" not in str(facts)
