"""What is held back looks like what will come, and training learns nothing of it."""

import dataclasses
import hashlib
import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from match_sets import make_config, make_shop

import matchset as ms
from matchset.config import LearnConfig
from matchset.data.arrow import NO_DAY
from matchset.data.catalog import Catalog
from matchset.data.log import make_log
from matchset.learn.held_kinds import (
    ELSEWHERE,
    KINDS,
    MISSPELT,
    MOST,
    PAIRS,
    PRODUCTS,
    QUERIES,
    RECENT,
    WORDS,
)
from matchset.learn.hold_back import SHARE, count_rounds, hold_back
from matchset.strings import Strings

BRANDS = [f"z{a}{b}ox" for a in "aeiou" for b in "bdgklmnp"]  # each of one title and one query


def make_brands(days=None, *, n_queries=3000):
    """The small shop, where some titles and queries have a brand; its days are mixed."""
    more = [(f"{brand} {'rose ' * (i % 2)}", 120 + i, 2) for i, brand in enumerate(BRANDS)]
    log, catalog = make_shop(n_queries, more=more)
    titles = list(catalog.titles)
    for i, brand in enumerate(BRANDS):
        titles[120 + i] += f" {brand}"  # of a product with few other queries
    day = np.random.default_rng(1).integers(days or 1, size=len(log))
    names = ("query", "product", "event", "count")
    rows = {name: getattr(log, name) for name in names} | {"day": day if days else log.day}
    log = make_log(queries=log.queries, products=log.products, events=log.events, **rows)
    return log, Catalog(catalog.ids, Strings.of(titles))


def asked_of(held, i):
    """The products that a validation query asks for."""
    row = slice(*held.pairs.indptr[i : i + 2])
    columns = held.pairs.indices[row][held.pairs.data[row] != ELSEWHERE]
    return {held.products[column] for column in columns}


def as_asked(held):
    """The queries that customers asked, without those that were misspelt."""
    rows = np.flatnonzero(held.kinds != MISSPELT)
    parts = {name: getattr(held, name).take(rows) for name in ("queries", "pairs")}
    return dataclasses.replace(held, kinds=held.kinds[rows], **parts)


def count_pairs(log):
    """Events of each pair of query and product."""
    found = {}
    for q, p, n in zip(log.query, log.product, log.count, strict=True):
        pair = log.queries[q], log.products[p]
        found[pair] = found.get(pair, 0) + n
    return found


SETTINGS = {  # days of the log, whether there is a catalog, kinds that are held back
    "without times": (None, True, {QUERIES, WORDS, PRODUCTS, PAIRS}),
    "a short log": (10, True, {QUERIES, WORDS, PRODUCTS, PAIRS}),
    "a long log": (60, True, {RECENT, WORDS, PRODUCTS, MISSPELT}),
    "without a catalog": (None, False, {QUERIES, PAIRS}),
    "a long log without a catalog": (60, False, {RECENT, MISSPELT}),
}


@pytest.fixture(scope="module", params=SETTINGS)
def case(request):
    days, has_catalog, kinds = SETTINGS[request.param]
    log, catalog = make_brands(days)
    catalog = catalog if has_catalog else None
    return log, catalog, hold_back(log, catalog, make_config()), kinds


def test_each_situation_has_its_kinds_and_at_most_a_fifth_is_held_back(case):
    log, _, held, kinds = case
    assert set(held.kinds.tolist()) == kinds
    assert held.is_by_time == (RECENT in kinds)
    counts = np.bincount(held.kinds)
    assert all(counts[kind] <= MOST[kind] for kind in kinds)
    n = len(ms.positives(log))
    assert 0.8 * n <= len(ms.positives(held.rest)) < n
    by_chance = np.flatnonzero(~np.isin(held.kinds, (RECENT, MISSPELT)))
    assert all(asked_of(held, i) for i in by_chance)


def test_some_queries_are_asked_again_with_a_letter_wrong(case):
    _, _, held, _ = case
    asked = as_asked(held)
    known = {word for query in asked.queries for word in query.split()}
    twins = [(len(q.split()), asked_of(asked, i)) for i, q in enumerate(asked.queries)]
    new = []
    for i in np.flatnonzero(held.kinds == MISSPELT):
        words = held.queries[i].split()
        assert (len(words), asked_of(held, i)) in twins
        new.append(sum(word not in known for word in words))
    assert (len(new) > 0) == held.is_by_time
    assert not new or np.mean(np.array(new) == 1) > 0.9


def test_what_is_held_back_is_held_back_whole(case):
    log, catalog, held, _ = case
    held = as_asked(held)
    before, rest = count_pairs(log), count_pairs(held.rest)
    asked_before, asked_in_rest = {q for q, _ in before}, {q for q, _ in rest}
    words_in_rest = {word for query in asked_in_rest for word in query.split()}
    cold = set(held.cold)
    assert not cold & {p for _, p in rest}
    for i, kind in enumerate(held.kinds):
        query, asked = held.queries[i], asked_of(held, i)
        if kind in (WORDS, QUERIES):
            assert query not in asked_in_rest
        if kind == WORDS:
            assert set(query.split()) & set(BRANDS) - words_in_rest
        if kind == PRODUCTS:
            assert asked <= cold
        if kind == PAIRS:
            (product,) = asked
            assert rest.get((query, product), 0) == before[query, product] - 1
            assert query in asked_in_rest
        if kind != RECENT or held.is_by_time:
            assert {(query, p) for p in asked} <= set(before)
    assert set(rest) <= set(before)
    assert set(held.queries) <= asked_before
    if catalog is None:
        assert len(held.left) == 0
        return
    stays = catalog.without(held.left)
    assert 0 < len(held.left) == len(catalog) - len(stays) <= len(catalog) / 20
    words_of_titles = {word for title in stays.titles for word in title.split()}
    for title in catalog.titles.take(catalog.ids.index_of(held.left)):
        (brand,) = set(title.split()) & set(BRANDS)
        assert brand not in words_in_rest | words_of_titles
    assert words_of_titles & set(BRANDS) - words_in_rest  # of other words the titles stay


def test_with_times_the_most_recent_tenth_is_held_back():
    log, _ = make_shop(days=100)
    held = as_asked(hold_back(log, None, make_config()))
    assert set(held.kinds.tolist()) == {RECENT}
    last = held.rest.day.max()
    assert 85 <= last <= 95
    recent = log.select(log.day > last)
    assert len(recent) <= 2 * SHARE * len(log)
    assert held.n_days == recent.day.max() - last
    first = count_pairs(recent.select(recent.day <= last + held.n_days // 2))
    for bits, query, product in zip(
        held.pairs.data, held.pairs.row_of_entry, held.pairs.indices, strict=True
    ):
        assert (int(bits) % 2 == 1) == ((held.queries[query], held.products[product]) in first)
    assert set(held.queries) == set(recent.queries)
    assert len(held.rest) + len(recent) == len(log)


def test_what_the_recent_days_have_enough_of_is_not_added(monkeypatch):
    log, catalog = make_brands(60)
    for module in ("held_kinds", "held_words"):
        monkeypatch.setattr(f"matchset.learn.{module}._FEW", 0, raising=False)
    held = as_asked(hold_back(log, catalog, make_config()))
    assert set(held.kinds.tolist()) == {RECENT}
    assert len(held.left) == len(held.cold) == 0


def test_recent_queries_with_a_word_that_is_held_back_are_of_that_kind():
    log, catalog = make_brands(60)
    more = [*log.queries, *(f"{brand} pot" for brand in BRANDS)]
    n = len(BRANDS)
    later = make_log(
        queries=Strings.of(more),
        products=log.products,
        events=log.events,
        query=np.append(log.query, np.arange(len(log.queries), len(more))),
        product=np.append(log.product, 3 * np.arange(n)),
        event=np.append(log.event, np.zeros(n, np.int32)),
        day=np.append(log.day, np.full(n, 59)),
        count=np.append(log.count, np.ones(n)),
    )
    held = hold_back(later, catalog, make_config())
    kind_of = dict(zip(held.queries, held.kinds, strict=True))
    early = later.select(later.day <= 59 - held.n_days)
    before, rest = ({w for q in each.queries for w in q.split()} for each in (early, held.rest))
    assert not rest & set(BRANDS)  # there are few enough: all of them are held back
    found = {brand: kind_of[f"{brand} pot"] for brand in BRANDS}
    assert found == {brand: WORDS if brand in before else RECENT for brand in BRANDS}
    assert set(found.values()) == {RECENT, WORDS}


def digest(log, catalog, *, number=0, seed=0, threads=1):
    """Of all that is held back, whatever the order of the log's rows was."""
    config = make_config(learn=LearnConfig(seed=seed))
    held = hold_back(log, catalog, config, number=number, threads=threads)
    found = [
        (held.queries[i], int(held.kinds[i]), sorted(asked_of(held, i)))
        for i in range(len(held.queries))
    ]
    rest = sorted((*pair, float(n)) for pair, n in count_pairs(held.rest).items())
    said = repr((found, rest, sorted(held.left), sorted(held.cold)))
    return hashlib.sha256(said.encode()).hexdigest()


def read_shuffled(seed):
    """The log of `make_brands` as one row per event, in another order."""
    log, catalog = make_brands(60, n_queries=1500)
    events = np.repeat(np.arange(len(log)), log.count.astype(int))
    events = np.random.default_rng(seed).permutation(events)
    table = {
        "query": list(log.queries.take(log.query[events])),
        "product_id": list(log.products.take(log.product[events])),
        "date": pa.array(log.day[events].astype(np.int32), pa.int32()).cast(pa.date32()),
    }
    return ms.read_log(pa.table(table)), catalog


def test_the_choice_depends_on_log_catalog_and_seed_alone():
    log, catalog = read_shuffled(1)
    wanted = digest(log, catalog)
    assert [digest(log, catalog, threads=threads) for threads in (2, 7)] == [wanted] * 2
    assert digest(read_shuffled(2)[0], catalog) == wanted
    others = [digest(log, catalog, seed=1), digest(log, catalog, number=1)]
    assert len({wanted, *others}) == 3
    for hash_seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        said = subprocess.run([sys.executable, __file__], env=env, capture_output=True, check=True)
        assert said.stdout.decode() == wanted


@pytest.mark.parametrize(
    ("days", "n_queries", "n_rounds"), [(None, 20, 3), (10, 2000, 3), (20, 20, 1)]
)
def test_few_queries_without_times_are_held_back_in_several_rounds(days, n_queries, n_rounds):
    assert count_rounds(make_shop(n_queries, days=days)[0]) == n_rounds


def test_rounds_hold_others_back_and_are_added_up():
    log, catalog = make_brands(n_queries=1000)
    rounds = [hold_back(log, catalog, make_config(), number=n) for n in range(count_rounds(log))]
    assert len(rounds) == 3
    for one, two in pairwise(rounds):
        assert len(set(one.queries) & set(two.queries)) < len(one.queries) / 2
    kinds = ms.train(log, catalog, make_config()).model.reranker.facts["kinds"]
    for kind in (QUERIES, WORDS, PAIRS):  # of queries for new products some are left out
        wanted = sum(np.count_nonzero(held.kinds == kind) for held in rounds)
        assert kinds[KINDS[kind]]["queries"] == wanted


def with_impressions(log):
    """The same log, where each answer was bought and shown twice, on two days."""
    n = len(log)
    return make_log(
        queries=log.queries,
        products=log.products,
        events=["impression", "purchase"],
        query=np.tile(log.query, 3),
        product=np.tile(log.product, 3),
        event=np.repeat([1, 0, 0], n),
        day=np.repeat([5, 5, 6], n),
        count=np.tile(log.count, 3),
    )


def test_purchases_without_a_date_are_held_back_by_the_seed():
    log, _ = make_shop(200)
    dated = with_impressions(log)
    is_impression = dated.event == dated.events.index("impression")
    day = np.where(is_impression, np.arange(len(dated)) % 30, NO_DAY).astype(np.int32)
    held = hold_back(dataclasses.replace(dated, day=day), None, make_config())
    assert not held.is_by_time
    assert len(held.queries)


if __name__ == "__main__":
    sys.stdout.write(digest(*read_shuffled(1)))
